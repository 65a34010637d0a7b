"""One file, no pickle: what is written comes back, and nothing else gets in."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces
from safetensors.numpy import save_file

import safexp
from safexp.constraints.files import build_constraint, describe_constraint
from safexp.core import files
from safexp.core.files import CheckpointError
from safexp.core.spaces import build_space, describe_space
from safexp.quantifiers.files import build_quantifier


def unsafe(observations):
    return observations[:, 0] > 1


@pytest.mark.parametrize(
    "constraint",
    [
        safexp.Budget(3.0, 0.9, cost="speed", cost_max=4.0),
        safexp.Instantaneous(0.3),
        safexp.Margin(2.0),
        safexp.AllOf(safexp.Budget(1.0), safexp.Margin()),
    ],
)
def test_constraints_come_back(constraint):
    document = json.loads(json.dumps(describe_constraint(constraint)))
    assert build_constraint(document) == constraint


def test_a_schedule_comes_back():
    document = json.loads(json.dumps(describe_constraint(safexp.Schedule([0.1, 0.2]))))
    np.testing.assert_array_equal(build_constraint(document).limits, [0.1, 0.2])


@pytest.mark.parametrize(
    "constraint",
    [safexp.StateVisits(1.0, unsafe), safexp.JointChance(0.1, unsafe), safexp.Budget(1.0, cost=lambda *_: 0)],
)
def test_functions_are_not_saved_and_must_be_given_again(constraint):
    document = json.loads(json.dumps(describe_constraint(constraint)))
    with pytest.raises(CheckpointError, match="constraint=<the same constraint>"):
        build_constraint(document)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-np.inf, np.inf, (2, 3), np.float32),
        spaces.Box(np.array([0.1, -2.0]), np.array([0.3, 5.0]), dtype=np.float64),
        spaces.Discrete(4, start=-1),
        spaces.MultiDiscrete([2, 3]),
        spaces.MultiBinary(3),
        spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(0, 1, (1,))}),
    ],
)
def test_spaces_come_back(space):
    assert build_space(json.loads(json.dumps(describe_space(space)))) == space


def test_a_space_that_cannot_be_saved_is_named():
    with pytest.raises(CheckpointError, match="Tuple"):
        describe_space(spaces.Tuple([spaces.Discrete(2)]))


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
        with pytest.raises(CheckpointError, match="corrupt or of another kind"):
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
    with pytest.raises(CheckpointError, match="corrupt or of another kind"):
        files.read(path)
    save_file({"x": np.zeros(2)}, path)
    with pytest.raises(CheckpointError, match="not one of this version of safexp"):
        files.read(path)
    with pytest.raises(CheckpointError, match="is not a file"):
        files.read(tmp_path / "nowhere")


def test_names_in_a_file_reach_our_own_classes_only():
    for name in ("np", "read_cost", "Constraint", "__builtins__", "nothing"):
        with pytest.raises(CheckpointError, match="does not have"):
            build_constraint({"name": name, "settings": {}})
    with pytest.raises(CheckpointError, match="load it with quantifier="):
        build_quantifier({"name": "os", "settings": {}})


def test_a_failed_write_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()
    monkeypatch.setattr("os.fsync", lambda handle: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        files.write(saved, {}, {})
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]
