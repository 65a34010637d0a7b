"""safexp in a virtual environment with its core dependencies alone: what runs a shield, and nothing that trains."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

from safexp import Log, Shield, SparseGP

ROOT = Path(__file__).parents[1]
CORE = {"gymnasium", "numpy", "safetensors", "scipy"}
AND_THEIRS = {"cloudpickle", "Farama-Notifications", "typing_extensions"}

PROGRAM = """
import json, sys
from importlib.metadata import distributions

import gymnasium
import numpy as np
import safexp
from gymnasium import spaces

state, action = np.array([0.2, -0.1]), np.array([0.9], dtype=np.float32)
trained = safexp.Shield.load("trained.safexp")
decision = trained.filter(state, action, 0.5)
trained.save("again.safexp")
assert safexp.Shield.load("again.safexp").filter(state, action, 0.5).upper_bound == decision.upper_bound

shield = safexp.Shield(safexp.ExactGP(0.5), spaces.Box(-1.0, 1.0, (2,)), spaces.Box(-1.0, 1.0, (1,)))
shield.fit("log.csv")
shield.save("fitted.safexp")
policy = safexp.ShieldedPolicy.load(
    "fitted.safexp", lambda observation: action, np.zeros(1), constraint=safexp.Instantaneous(0.5), deadline=10.0
)
policy.reset(state)
outcome = policy.act(state).outcome

robot = gymnasium.make("safexp/PlanarRobot-v0")
robot.reset(seed=0)
robot.step(robot.action_space.sample())
problems = []
for name in ("MASE", "Player", "Layout"):
    try:
        getattr(safexp, name)
    except ImportError as error:
        problems.append(str(error))
print(json.dumps({
    "bound": float(decision.upper_bound),
    "points": shield.quantifier.size,
    "outcome": outcome,
    "problems": problems,
    "installed": sorted(one.name for one in distributions()),
}))
"""


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with safexp and its core dependencies."""
    folder = tmp_path_factory.mktemp("core")
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
    for words in (
        [sys.executable, "-m", "venv", "--without-pip", str(folder)],
        [*pip, "--constraint", str(ROOT / "constraints.txt"), *wanted],
        [*pip, "--no-deps", str(ROOT)],
    ):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return folder / "bin"


@pytest.mark.slow
def test_a_shield_runs_with_the_core_alone(core: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    states, actions = rng.uniform(-1, 1, (60, 2)), rng.uniform(-1, 1, (60, 1))
    costs = 0.5 + 0.5 * states[:, 0] * actions[:, 0]
    table = np.column_stack([states, actions, costs])
    np.savetxt(tmp_path / "log.csv", table, delimiter=",", header="s0,s1,a0,cost", comments="")
    shield = Shield(SparseGP(num_inducing=8, first_steps=20), spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (1,)))
    shield.fit(Log(states, actions, costs))
    shield.save(tmp_path / "trained.safexp")
    done = subprocess.run(
        [str(core / "python"), "-c", PROGRAM], cwd=tmp_path, env={}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found["installed"]) == {"safexp", *CORE, *AND_THEIRS}
    here = shield.filter(np.array([0.2, -0.1]), np.array([0.9], dtype=np.float32), 0.5)
    assert found["bound"] == pytest.approx(here.upper_bound, rel=1e-12)
    assert 0 < found["points"] <= 60
    assert found["outcome"] in ("proposal", "replacement", "stop")
    assert found["problems"] == [
        "safexp.MASE needs sb3_contrib: pip install 'safexp[train]'.",
        "safexp.Player needs stable_baselines3: pip install 'safexp[train]'.",
        "a navigation task needs mujoco: pip install 'safexp[tasks]'.",
    ]


@pytest.mark.slow
def test_the_command_says_which_extra_it_needs(core: Path) -> None:
    done = subprocess.run([str(core / "safexp"), "train"], env={}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "safexp: the command safexp needs tyro: pip install 'safexp[train]'.\n",
    )
