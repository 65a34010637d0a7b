"""Files that were damaged, or made by somebody with bad intentions: read as what they are, or refused with a word."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest
from safetensors.numpy import save

from faults.__main__ import measure
from faults.damage import damage_value
from faults.witness import Witnessed, unsafe_steps
from safexp import MASE, Budget, Shield
from safexp.core import files
from safexp.core.files import CheckpointError
from safexp.quantifiers import SparseGP, Unknown
from safexp.runs import folder as run_folder
from safexp.runs import resume
from safexp.runs.config import RunConfig
from safexp.shield.logs import read_log
from safexp.tasks.planar_robot import OBSERVATION_SPACE, action_space


@pytest.mark.slow
def test_nothing_comes_out_wrong():
    rows = measure(inputs=15, kill=2)
    assert [row for row in rows if row["wrong"]] == []
    assert {row["tried"] for row in rows if row["what"].startswith("damaged")} == {15}
    assert rows[-3]["tried"] >= 2
    assert rows[-2]["tried"] >= 1
    assert sum(row["refused"] for row in rows) > 30


def test_the_witness_sees_what_is_unsafe(tmp_path):
    envs = Witnessed(3, str(tmp_path / "told"))
    envs.reset(seed=0)
    costs = [envs.step(np.tile([1.0, 0.0], (3, 1)))[4]["cost"] for _ in range(60)]
    total = np.cumsum(costs, axis=0)
    steps, unsafe = unsafe_steps(tmp_path / "told", 0.5)
    assert steps == 180
    assert 0 < unsafe <= (total > 0.5).sum()


@pytest.fixture
def saved(tmp_path):
    """A shield's file."""
    path = tmp_path / "shield.safexp"
    Shield(SparseGP(num_inducing=4), OBSERVATION_SPACE, action_space(discrete=False)).save(path)
    return path


def test_a_single_bit_is_noticed(tmp_path):
    path = tmp_path / "file"
    files.write(path, {"spent": 1.5}, {"memory": np.array([0.25, 0.5])})
    whole = path.read_bytes()
    for position in range(8, len(whole)):
        for bit in (0, 6):
            flipped = bytearray(whole)
            flipped[position] ^= 1 << bit
            path.write_bytes(flipped)
            try:
                document, arrays = files.read(path)
            except CheckpointError:
                continue
            assert document == {"spent": 1.5}
            np.testing.assert_array_equal(arrays["memory"], [0.25, 0.5])


def test_files_from_before_digests_are_read(tmp_path):
    path = tmp_path / "old"
    path.write_bytes(save({"x": np.ones(2)}, {"format": files.FORMAT, "document": "{}"}))
    assert files.read(path)[0] == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_candidates": 10**9}, "num_candidates=1000000000; expected a whole number of at most 10,000"),
        ({"action_space": {"kind": "Discrete", "n": 10**9, "start": 0}}, "asks for Discrete actions=1000000000"),
        ({"action_space": {"kind": "MultiBinary", "n": [10**6, 10**6]}}, "asks for entries of a space=1000000"),
        ({"safe_action": {"a": 1}}, "its content is not valid"),
        ({"quantifier": {"name": "PerCost", "parts": 3}}, "its content is not valid"),
    ],
)
def test_a_file_cannot_ask_for_what_it_likes(saved, change, message):
    document, arrays = files.read(saved)
    document["shield"] |= change
    files.write(saved, document, arrays)
    with pytest.raises(CheckpointError, match=message):
        Shield.load(saved)


def test_a_policy_is_no_larger_than_its_weights(tmp_path):
    from stable_baselines3 import PPO

    from safexp.tasks.planar_robot import PlanarRobotVector

    path = tmp_path / "agent.safexp"
    options = {"n_steps": 8, "batch_size": 8, "policy_kwargs": {"net_arch": [8]}}
    MASE(PlanarRobotVector(1), Budget(1.0), Unknown(), PPO, learner_options=options).save(path)
    document, arrays = files.read(path)
    document["policy"]["policy_kwargs"]["net_arch"] = [10**9]
    files.write(path, document, arrays)
    with pytest.raises(CheckpointError, match="a policy with 1000000000, but holds"):
        MASE.load(path)


def test_a_nested_document_is_refused(tmp_path):
    path = tmp_path / "deep"
    deep = "[" * 100_000 + "]" * 100_000
    digest = files.digest(files.FORMAT, deep, {})
    path.write_bytes(save({}, {"format": files.FORMAT, "document": deep, "digest": digest}))
    with pytest.raises(CheckpointError, match="cannot be read"):
        files.read(path)


def test_a_checkpoint_cannot_name_the_files_that_are_cut(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder = tmp_path / "run"
    config = RunConfig().settled()
    folder.mkdir()
    run_folder.begin(folder, config, "")
    document = {"sizes": {"../victim": 0, "episodes.csv": 0, "metrics.jsonl": 0}, "seconds": 1.0, "state": None}
    files.write(folder / run_folder.CHECKPOINT, document, {}, resume.FORMAT)
    resume.prepare(folder, config, "")
    assert victim.read_text() == "mine"


def test_half_written_files_of_a_killed_run_are_cleared_away(tmp_path):
    config = RunConfig().settled()
    (tmp_path / ".checkpoint.safexp.0123abcd").write_bytes(b"half")
    (tmp_path / ".notes").write_text("mine")
    resume.prepare(tmp_path, config, "")
    assert {path.name for path in tmp_path.glob(".*")} == {".notes"}


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path):
    path = tmp_path / "log.npz"
    np.savez_compressed(path, states=np.zeros((9_000_000, 1)), actions=np.zeros((1, 1)), costs=np.zeros(1))
    with pytest.raises(ValueError, match="would unpack to 72,000,"):
        read_log(path)


def test_an_array_that_says_it_is_larger_than_it_is_is_refused(tmp_path):
    path = tmp_path / "log.npz"
    header = (
        b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000,), }".ljust(117)
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("states.npy", header + b"\n" + b"\0" * 80)
    with pytest.raises(ValueError, match="cannot be read as arrays of numbers"):
        read_log(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", "[" * 100_000, "config.json is not JSON"),
        ("metrics.jsonl", '{"steps": NaN, "violations": 0}\n', "line 1 of metrics.jsonl is damaged .*NaN is not JSON"),
        ("metrics.jsonl", '{"steps": 1, "violations": 0, "stops": "x"}\n', "line 1 of metrics.jsonl is damaged"),
        ("metrics.jsonl", f'{{"steps": {10**30}, "violations": 0}}\n', "steps is 1e[+]30, too large for a whole"),
        ("metrics.jsonl", '{"steps": 1e30, "violations": 0}\n', "steps is 1e[+]30, too large for a whole"),
        ("metrics.jsonl", "[" * 100_000 + "\n", "line 1 of metrics.jsonl is damaged"),
        ("timing.json", '{"steps_per_second": 1e999}', "timing.json is damaged"),
        ("timing.json", '{"seconds": 1, "steps": 1, "seconds_in": {"files": null}}', "timing.json is damaged"),
        ("trajectories.json", '{"early": [{"episode": 1e999}], "late": []}', "trajectories.json is damaged"),
    ],
)
def test_what_is_no_number_is_named(tmp_path, name, content, message):
    run_folder.begin(tmp_path, RunConfig().settled(), "")
    (tmp_path / name).write_text(content)
    with pytest.raises(run_folder.RunFolderError, match=message):
        run_folder.read(tmp_path)


def test_an_episode_without_end_is_named(tmp_path):
    run_folder.begin(tmp_path, RunConfig().settled(), "")
    with (tmp_path / "episodes.csv").open("a") as file:
        file.write("0,inf,1,0,0,0,0,0,0,0\n")
    with pytest.raises(run_folder.RunFolderError, match=r"line 2 of episodes.csv is damaged"):
        run_folder.read(tmp_path)


def test_a_count_beyond_all_counting_is_named(tmp_path):
    run_folder.begin(tmp_path, RunConfig().settled(), "")
    with (tmp_path / "episodes.csv").open("a") as file:
        file.write("0,1e30,1,0,0,0,0,0,0,0,0,0,0\n")
    with pytest.raises(run_folder.RunFolderError, match=r"line 2 of episodes.csv is damaged .*end_step is 1e[+]30"):
        run_folder.read(tmp_path)


def test_damage_changes_something_and_leaves_the_original_alone():
    document = {"a": [1, {"b": 2.0}], "c": "text"}
    before = json.dumps(document)
    rng = np.random.default_rng(0)
    changed = [json.dumps(damage_value(document, rng)) != before for _ in range(200)]
    assert np.mean(changed) > 0.9
    assert json.dumps(document) == before
