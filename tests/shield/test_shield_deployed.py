"""A shield away from home: in a file, in threads, in little memory, and without torch."""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from stable_baselines3 import PPO

import safexp
from safexp import MASE, Budget, ExactGP, FeatureRegression, Log, Shield, ShieldedPolicy, SparseGP, Unknown
from safexp.backups.recovery import Reset
from safexp.core import files
from support.line import Line
from support.square import BRAKE, HERE, SQUARE, STATES, WILD, Raising


def logged(count=60):
    rng = np.random.default_rng(0)
    margins = rng.normal(size=count)
    return Log(rng.uniform(-1, 1, (count, 2)), rng.uniform(-1, 1, (count, 2)), (margins < 0).astype(float), margins)


def test_a_saved_shield_is_loaded_with_a_constraint(tmp_path):
    shield = Shield(ExactGP(1.0), STATES, SQUARE)
    shield.fit(logged())
    shield.save(tmp_path / "shield.safexp")
    loaded = Shield.load(tmp_path / "shield.safexp")
    for state in logged().observations:
        one, other = (each.filter(state, WILD, 0.9) for each in (shield, loaded))
        np.testing.assert_array_equal(one.action, other.action)
        assert one[1:] == other[1:]
    with pytest.raises(files.CheckpointError, match="holds a shield alone: load it with constraint="):
        ShieldedPolicy.load(tmp_path / "shield.safexp", lambda seen: HERE, BRAKE)
    policy = ShieldedPolicy.load(tmp_path / "shield.safexp", lambda seen: HERE, BRAKE, constraint=Budget(1.0))
    assert policy.constraint == Budget(1.0)
    with pytest.raises(files.CheckpointError, match=r"without policy: load it with safexp\.Shield\.load"):
        MASE.load(tmp_path / "shield.safexp")


@pytest.mark.parametrize(
    "quantifier",
    [
        SparseGP("margin", num_inducing=8, capacity=40, first_steps=5),
        FeatureRegression(num_features=8, capacity=40),
        ExactGP(1.0),
        Raising(),
    ],
    ids=lambda one: type(one).__name__,
)
def test_threads_get_the_answers_of_one(quantifier):
    rng = np.random.default_rng(1)
    shields = [Shield(quantifier, STATES, SQUARE, num_candidates=count) for count in (8, 16)]
    if not isinstance(quantifier, Raising):
        shields[0].fit(logged())
    # Two sets of candidates for one quantifier, so that what it remembers of the last question is often another's.
    questions = [(shields[k % 2], rng.uniform(-1, 1, 2), rng.uniform(-1, 1, 2)) for k in range(400)]

    def ask(question):
        shield, state, action = question
        return shield.filter(state, action, 0.6)

    alone = [ask(question) for question in questions]
    failures = [shield.failures for shield in shields]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(ask, questions))
    finally:
        sys.setswitchinterval(interval)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one.action, other.action)
        assert one[1:] == other[1:]
    assert [shield.failures for shield in shields] == [2 * count for count in failures]


@pytest.mark.slow
@pytest.mark.parametrize("deadline", [None, 10.0])
def test_memory_does_not_grow(deadline):
    shield = Shield(SparseGP("margin", num_inducing=8, capacity=40, first_steps=5), STATES, SQUARE)
    shield.fit(logged())
    policy = ShieldedPolicy(lambda observation: WILD, shield, Budget(1e9), BRAKE, deadline=deadline)
    rng = np.random.default_rng(0)

    def decide(count):
        policy.reset(HERE)
        for state in rng.uniform(-1, 1, (count, 2)):
            policy.act(state)
            shield.filter(state, WILD, 0.5)
            policy.observe(0.5)
        gc.collect()  # which also empties the interpreter's lists of freed tuples, kept for the next ones

    decide(100)
    tracemalloc.start()
    traced = []
    try:
        for _ in range(5):
            decide(500)
            traced.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    grown = min(np.diff(traced))  # a leak grows every time, numpy's caches of small arrays only until they are full
    policy.close()
    assert grown < 5_000, f"{grown} bytes more after 500 decisions"


@pytest.mark.slow
@pytest.mark.parametrize(
    "quantifier",
    [
        Unknown(),
        ExactGP(1.0),
        SparseGP("margin", num_inducing=8, capacity=40, first_steps=5),
        FeatureRegression(num_features=8, capacity=40),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_deployed_shield_needs_neither_torch_nor_stable_baselines(quantifier, tmp_path):
    shield = Shield(quantifier, STATES, SQUARE)
    shield.fit(logged())
    shield.save(tmp_path / "shield.safexp")
    program = f"""
import sys
import numpy as np
import safexp
policy = safexp.ShieldedPolicy.load(
    {str(tmp_path / "shield.safexp")!r},
    lambda observation: np.ones(2),
    np.zeros(2),
    constraint=safexp.Instantaneous(0.6),
    deadline=10.0,
)
policy.reset(np.zeros(2))
print(policy.act(np.zeros(2)).outcome, *sorted({{"torch", "stable_baselines3", "sb3_contrib"}} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() in (["stop"], ["replacement"], ["proposal"])


@pytest.fixture(scope="module")
def without_learners(tmp_path_factory):
    """A folder with every installed package but torch and Stable-Baselines3, as if they had never been installed."""
    folder = tmp_path_factory.mktemp("site-packages")
    (folder / "safexp").symlink_to(Path(safexp.__file__).parent)
    for path in Path(np.__file__).parent.parent.iterdir():
        if path.name != "safexp" and not path.name.startswith(("torch", "stable_baselines3", "sb3_contrib")):
            (folder / path.name).symlink_to(path)
    return folder


@pytest.mark.slow
def test_a_shield_is_fitted_and_saved_where_torch_and_stable_baselines_are_not_installed(without_learners, tmp_path):
    program = f"""
import importlib.util
import numpy as np
import safexp
from gymnasium import spaces
assert not any(map(importlib.util.find_spec, ("torch", "stable_baselines3", "sb3_contrib")))
shield = safexp.Shield(safexp.ExactGP(1.0), spaces.Box(-1.0, 1.0, (2,)), spaces.Box(-1.0, 1.0, (2,)))
shield.fit(safexp.Log(np.zeros((3, 2)), np.eye(3, 2), np.zeros(3)))
shield.save({str(tmp_path / "shield.safexp")!r})
"""
    here = {"PYTHONPATH": str(without_learners), "PATH": ""}
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, env=here)
    assert done.returncode == 0, done.stderr
    document, _ = files.read(tmp_path / "shield.safexp")
    assert document["versions"].keys() == {"safexp", "gymnasium", "numpy"}
    assert Shield.load(tmp_path / "shield.safexp").quantifier.size == 3


def test_an_agent_keeps_its_braking_in_its_file(tmp_path):
    agent = MASE(Line(), Budget(5.0), Unknown(), PPO, backup=Reset(braking=3.0))
    agent.save(tmp_path / "a.safexp")
    here, limit = np.zeros(1), 2.5
    assert agent.predict(here, limit).stopped
    assert MASE.load(tmp_path / "a.safexp").predict(here, limit).stopped
    with pytest.raises(files.CheckpointError, match=r"was trained with braking=3, and backup=.* has 1: give it"):
        MASE.load(tmp_path / "a.safexp", backup=Reset(braking=1.0))
    policy = ShieldedPolicy.load(tmp_path / "a.safexp", agent.propose, np.zeros(1))
    assert policy.braking == 3.0
    plain = ShieldedPolicy.load(tmp_path / "a.safexp", lambda observation: np.zeros(1), [0.0], show_threshold=False)
    plain.reset(here)
    assert plain.act(here).outcome == "proposal"
