"""One file, no pickle: what is written comes back, and nothing else gets in."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from safexp.core import files
from safexp.core.files import CheckpointError


@pytest.fixture
def saved(tmp_path) -> Path:
    path = tmp_path / "agent.safexp"
    files.write(path, {"a": [1, 2.5, None]}, {"x": np.arange(6.0).reshape(2, 3), "empty": np.zeros((0, 2))})
    return path


def test_documents_and_arrays_come_back(saved):
    document, arrays = files.read(saved)
    assert document == {"a": [1, 2.5, None]}
    np.testing.assert_array_equal(arrays["x"], np.arange(6.0).reshape(2, 3))
    assert arrays["empty"].shape == (0, 2)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (0,), (2, 0, 3), (2, 3)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, bool])
def test_shapes_and_types_come_back(tmp_path, shape, dtype):
    given = np.arange(np.prod(shape, dtype=int), dtype=np.int64).reshape(shape).astype(dtype)
    files.write(tmp_path / "a", {}, {"x": given, "turned": given.T})
    _, found = files.read(tmp_path / "a")
    for name, part in {"x": given, "turned": given.T}.items():
        assert (found[name].shape, found[name].dtype) == (part.shape, part.dtype)
        np.testing.assert_array_equal(found[name], part)


def test_truncated_and_flipped_files_are_refused_or_read_as_they_are(saved):
    content = saved.read_bytes()
    rng = np.random.default_rng(0)
    for length in rng.integers(0, len(content), 50):
        saved.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match="corrupt or another kind"):
            files.read(saved)
    for position in rng.integers(0, len(content), 200):
        flipped = bytearray(content)
        flipped[position] ^= 1 << int(rng.integers(8))
        saved.write_bytes(flipped)
        try:
            files.read(saved)
        except CheckpointError:
            continue


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "foreign"
    path.write_bytes(pickle.dumps({"policy": 1}))
    with pytest.raises(CheckpointError, match="corrupt or another kind"):
        files.read(path)
    save_file({"x": np.zeros(2)}, path)
    with pytest.raises(CheckpointError, match="not one of this version of safexp"):
        files.read(path)
    with pytest.raises(CheckpointError, match="is not a file"):
        files.read(tmp_path / "nowhere")


def test_a_failed_write_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()
    monkeypatch.setattr("os.fsync", lambda handle: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        files.write(saved, {}, {})
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]
