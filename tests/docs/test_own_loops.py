"""The shield in foreign training loops: the examples keep the budget, with the record that MASE gives."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

import safexp
from support.tally import Tally

EXAMPLES = Path(__file__).parents[2] / "examples"
TASKS = [("safexp/PlanarRobot-v0", 3.0), ("safexp/PointGoalStatic-v0", 20.0)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # of TorchRL, about itself
@pytest.mark.parametrize(("task", "budget"), TASKS, ids=["robot", "point"])
@pytest.mark.parametrize("example", ["cleanrl_ppo.py", "torchrl_ppo.py"])
def test_an_example_trains_without_violations_and_with_the_record_of_mase(example, task, budget, monkeypatch, capsys):
    if example.startswith("torchrl"):
        pytest.importorskip("torchrl")
    inside: list[Tally] = []
    proposals: list[np.ndarray] = []
    wrap = safexp.wrap

    def counted() -> Tally:
        inside.append(Tally(gym.make(task)))
        return inside[-1]

    def observed(*args, **named):
        envs = wrap(*args, **named)
        envs.guard.pupil = lambda shown, proposed, executed, replaced: proposals.append(proposed.copy())
        return envs

    monkeypatch.setattr(gym, "make_vec", lambda name, num_envs: SyncVectorEnv([counted] * num_envs))
    monkeypatch.setattr(safexp, "wrap", observed)
    words = ["--task", task, "--budget", budget, "--num-envs", 2, "--steps", 800, "--rollout", 400, "--seed", 1]
    monkeypatch.setattr(sys, "argv", [example, *map(str, words)])
    found = runpy.run_path(str(EXAMPLES / example), run_name="__main__")["envs"]
    assert "0 violations in" in capsys.readouterr().out
    assert len(proposals) == 400 and found.episodes

    driven = inside.copy()
    envs = SyncVectorEnv([counted] * 2)
    agent = safexp.MASE(envs, safexp.Budget(budget), safexp.Unknown(), safexp.TRPO, penalty=found.guard.penalty, seed=1)
    agent.guard.reset()
    for step, proposed in enumerate(proposals, 1):
        agent.guard.step(proposed)
        if step % 200 == 0:
            agent.update()
    assert found.episodes == agent.episodes
    for ours, theirs in zip(driven, inside[len(driven) :], strict=True):
        assert ours.sums == theirs.sums and max(ours.sums) <= budget
        np.testing.assert_array_equal(ours.actions, theirs.actions)


def test_the_whole_algorithm_is_a_short_file():
    assert len((EXAMPLES / "cleanrl_ppo.py").read_text().splitlines()) <= 200
