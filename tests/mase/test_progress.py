import io
import time

import numpy as np
import pytest
from rich.console import Console
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

from safexp import MASE, AllOf, Budget, Instantaneous, Known, Margin, Schedule, Unknown
from safexp.backups.drills import Drills
from safexp.mase.progress import ProgressBar, snapshot, sparkline
from safexp.tasks.planar_robot import PlanarRobotVector


def learn_watched(console: Console, steps: int = 512, drills: Drills | None = None) -> MASE:
    options = {"n_steps": 64, "batch_size": 64, "n_epochs": 1}
    agent = MASE(PlanarRobotVector(4), Budget(1.0), Unknown(), PPO, learner_options=options, seed=0)
    with ProgressBar(steps, agent.guard.recorder, "the title", console, drills) as bar:
        return agent.learn(steps, bar)


def test_a_file_gets_plain_lines() -> None:
    output = io.StringIO()
    agent = learn_watched(Console(file=output, highlight=False))
    title, *_, last = output.getvalue().splitlines()
    assert title == "the title"
    assert last.startswith("      512 / 512 steps  return ")
    assert "violations 0  stops " in last
    assert last.endswith(" steps/s")
    assert "\x1b" not in output.getvalue()
    now = snapshot(agent.guard.recorder)
    assert now is not None
    assert now.cost == np.mean([episode.cost for episode in agent.episodes[-100:]])
    assert f"return {now.mean_return:.2f}  cost {now.cost:.2f}" in last


def test_where_every_step_is_limited_the_largest_step_cost_is_shown() -> None:
    output = io.StringIO()
    options = {"n_steps": 64, "batch_size": 64, "n_epochs": 1}
    quantifier = Known(lambda states, actions: np.zeros(len(states)))
    agent = MASE(PlanarRobotVector(4), Instantaneous(0.9), quantifier, PPO, learner_options=options, seed=0)
    with ProgressBar(512, agent.guard.recorder, console=Console(file=output, highlight=False)) as bar:
        agent.learn(512, bar)
    largest = max(episode.max_step_cost for episode in agent.episodes[-100:])
    assert 0 < largest < max(episode.cost for episode in agent.episodes)
    assert f"  largest step cost {largest:.2f}  violations " in output.getvalue().splitlines()[-1]


def test_several_limits_are_of_every_step_if_all_are() -> None:
    every = AllOf(Instantaneous(1.0), Margin(), Schedule([0.5]))
    assert every.on_every_step
    assert not AllOf(*every.parts, Budget(1.0)).on_every_step


def test_before_an_episode_has_ended_there_is_little_to_say() -> None:
    output = io.StringIO()
    learn_watched(Console(file=output, highlight=False), steps=1)
    assert "steps" in output.getvalue()


class PutBack(BaseCallback):
    """Lets a run stand where its checkpoint says, when it begins to collect, as a resumed one does."""

    def _on_rollout_start(self) -> None:
        if self.model.num_timesteps < 10_000_000:
            self.model.num_timesteps += 10_000_000

    def _on_step(self) -> bool:
        return True


def test_the_speed_of_a_resumed_run_is_that_of_its_own_steps() -> None:
    output = io.StringIO()
    options = {"n_steps": 64, "batch_size": 64, "n_epochs": 1}
    agent = MASE(PlanarRobotVector(4), Budget(1.0), Unknown(), PPO, learner_options=options, seed=0)
    began = time.perf_counter()
    with ProgressBar(10_000_256, agent.guard.recorder, console=Console(file=output, highlight=False)) as bar:
        agent.learn(256, [PutBack(), bar])
    slowest = 256 / (time.perf_counter() - began)
    last = output.getvalue().splitlines()[-1]
    assert last.startswith("10,000,256 / 10,000,256 steps  ")
    speed = float(last.split()[-2].replace(",", ""))
    assert slowest - 1 <= speed < 1_000_000


def test_a_terminal_gets_a_panel_and_its_cursor_back() -> None:
    output = io.StringIO()
    learn_watched(Console(file=output, force_terminal=True, width=100, color_system=None))
    text = output.getvalue()
    for part in ("the title", "512 / 512 steps", "violations", "interventions", "return so far"):
        assert part in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1


@pytest.mark.parametrize("terminal", [False, True])
def test_missed_drills_are_shown_once_there_are_drills(terminal: bool) -> None:
    output, drills = io.StringIO(), Drills(4, 20, 0.01)
    console = Console(file=output, force_terminal=terminal, width=120, color_system=None, highlight=False)
    learn_watched(console, drills=drills)
    assert "drills" not in output.getvalue()
    drills.judged, drills.missed = 12, 3
    learn_watched(console, drills=drills)
    last = output.getvalue()
    assert "drills missed" in last
    assert "3 of 12" in last


def test_a_sparkline_goes_from_the_least_to_the_largest() -> None:
    assert sparkline([], 8) == ""
    assert sparkline([1.0], 8) == "▁"
    assert sparkline(list(np.linspace(0, 1, 80)), 8) == "▁▂▃▄▅▆▇█"
