"""What fails around a run: environments, quantifiers, memory, disks, clocks and pipes."""

from __future__ import annotations

import errno
import json
import shlex
import subprocess
import sys
import time

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import PPO

from faults import ledger as faulty
from faults import soak
from faults.files import CONFIG
from safexp import MASE, Instantaneous
from safexp.cli import main
from safexp.quantifiers.base import Transitions
from safexp.quantifiers.gp import sparse_training
from safexp.quantifiers.gp.sparse import SparseGP
from safexp.quantifiers.known import Known
from safexp.runs import folder as run_folder
from safexp.runs import resume
from safexp.runs.config import RunConfig
from safexp.runs.run import run

OPTIONS = {"n_steps": 32, "batch_size": 64, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}}


@pytest.mark.slow
def test_training_goes_on_through_faults_and_nothing_unsafe_is_executed(monkeypatch):
    monkeypatch.setattr(soak, "RATE", 0.05)
    (row,) = soak.measure(minutes=0.03)
    assert (row["unsafe"], row["wrong"]) == (0, 0)
    assert " 0 faults" not in row["what"]


def test_without_a_shield_the_same_count_is_not_zero():
    rng = np.random.default_rng(0)
    envs = faulty.Faulty(8, rng, faulty.FAULTS, rate=0.004)
    agent = MASE(
        envs, Instantaneous(faulty.LIMIT), soak.Doubtful(rng), PPO, learner_options=OPTIONS, seed=0, shielding=False
    )
    while envs.steps < 1500:
        try:
            agent.learn(256)
        except (OSError, ValueError, KeyError, KeyboardInterrupt):
            continue
    assert envs.unsafe > 0


@pytest.mark.slow
@pytest.mark.parametrize("fault", faulty.FAULTS)
def test_the_record_agrees_with_a_ledger_inside_the_environment(fault):
    row = faulty.compare(fault, steps=2000, seed=0)
    assert row["wrong"] == 0
    assert row["tried"] >= 2
    assert row["accepted"] > 10


class Sensor(gym.Env):
    """Gives what it is told to; remembers what was done."""

    observation_space = spaces.Box(-1.0, 1.0, (1,), np.float64)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, infos):
        self.infos = list(infos)
        self.done = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1), {}

    def step(self, action):
        self.done.append(np.array(action))
        action[...] = 1.0  # as one that clips in place would
        return np.zeros(1), 0.0, False, False, self.infos[len(self.done) - 1]


def known(states, actions):
    return 0.1 + 0 * states[:, 0]


@pytest.mark.parametrize(
    ("info", "kind", "message"),
    [
        ({"cost": None}, ValueError, "environment 0 gave nan: .*must be a finite number"),
        ({"cost": np.nan}, ValueError, "environment 0 gave nan: .*must be a finite number"),
        ({"cost": np.inf}, ValueError, "environment 0 gave inf: .*must be a finite number"),
        ({"cost": 1.01}, ValueError, "environment 0 gave .*1.01.*cost_max="),
        ({"cost": -0.01}, ValueError, "environment 0 gave .*-0.01"),
        ({}, KeyError, "gave no info"),
    ],
)
def test_a_cost_that_is_none_ends_the_step_and_nothing_more_is_executed(info, kind, message):
    env = Sensor([{"cost": 0.1}, {"cost": 0.1}, info])
    agent = MASE(env, Instantaneous(0.5), Known(known), PPO, learner_options={**OPTIONS, "batch_size": 32}, seed=0)
    with pytest.raises(kind, match=message):
        agent.learn(64)
    assert len(env.done) == 3
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        agent.guard.step(np.zeros((1, 1), dtype=np.float32))
    assert len(env.done) == 3


def test_a_refit_without_memory_keeps_the_last_good_model(monkeypatch, caplog):
    rng = np.random.default_rng(0)
    quantifier = SparseGP(num_inducing=4, first_steps=3, steps=2)

    def data():
        return Transitions(rng.normal(size=(30, 2)), rng.normal(size=(30, 1)), rng.uniform(size=30))

    def fail(*_, **__):
        raise MemoryError("no room")

    question = rng.normal(size=(3, 2)), rng.normal(size=(3, 2, 1))
    quantifier.fit(data())
    before = quantifier.predict(*question)
    monkeypatch.setattr(sparse_training, "train", fail)
    quantifier.update(data())
    np.testing.assert_array_equal(quantifier.predict(*question), before)
    assert "keeps its old model: MemoryError: no room" in caplog.text


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setattr(resume, "SHARE", 1e9)
    return RunConfig(**{**CONFIG.to_json(), "quantifier": "unknown", "quantifier_options": {}, "out": tmp_path / "run"})


def test_a_full_disk_ends_in_one_line_and_the_run_goes_on_later(config, tmp_path, monkeypatch, capsys):
    whole = run(RunConfig(**{**config.to_json(), "out": tmp_path / "whole"}))
    usual, written = run_folder.append_metrics, []

    def full(path, content, *_):
        with path.open("a") as file:
            file.write(content[: len(content) // 2] if isinstance(content, str) else "")
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    def append(folder, line):
        written.append(line)
        if len(written) > 1:
            for name in ("write_text", "write_bytes"):
                patched.setattr(f"pathlib.Path.{name}", full)
            patched.setattr("safexp.core.files.write_bytes", full)
            full(folder / run_folder.METRICS, json.dumps(line))
        usual(folder, line)

    with monkeypatch.context() as patched:
        patched.setattr(run_folder, "append_metrics", append)
        words = shlex.split(config.command())[1:]
        assert main(words) == 2
    said = capsys.readouterr().err.strip()
    assert said.startswith("safexp: the run failed: OSError: [Errno 28] No space left on device")
    assert said.endswith("has no room for the traceback; --resume continues from its last checkpoint)")
    assert "\n" not in said
    assert len(run_folder.read(config.folder).metrics) == 1
    run(config, resume=True)
    for name in (run_folder.EPISODES, run_folder.METRICS):
        assert (config.folder / name).read_bytes() == (whole / name).read_bytes()


def test_clocks_that_jump_change_nothing_but_dates(config, tmp_path, monkeypatch):
    whole = run(RunConfig(**{**config.to_json(), "out": tmp_path / "whole"}))
    rng = np.random.default_rng(0)
    monkeypatch.setattr(time, "time", lambda: float(rng.uniform(0, 4e9)))
    run(config)
    for name in (run_folder.EPISODES, run_folder.METRICS):
        assert (config.folder / name).read_bytes() == (whole / name).read_bytes()
    assert 0 < run_folder.read(config.folder).timing["seconds"] < 100


def test_a_reader_who_has_seen_enough_is_no_error():
    program = "import sys; from safexp.cli import main; sys.exit(main(['tasks', '--json']))"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (141, "")
