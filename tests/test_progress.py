import io

import numpy as np
from rich.console import Console

from safexp import MASE, Budget, Unknown
from safexp.progress import ProgressBar, snapshot, sparkline
from safexp.tasks.planar_robot import PlanarRobotVector


def learn_watched(console: Console, steps: int = 512) -> MASE:
    from stable_baselines3 import PPO

    options = {"n_steps": 64, "batch_size": 64, "n_epochs": 1}
    agent = MASE(PlanarRobotVector(4), Budget(1.0), Unknown(), PPO, options, seed=0)
    with ProgressBar(steps, agent.guard.recorder, "the title", console) as bar:
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
    assert f"return {now.mean_return:.2f}  cost {now.mean_cost:.2f}" in last


def test_before_an_episode_has_ended_there_is_little_to_say() -> None:
    output = io.StringIO()
    learn_watched(Console(file=output, highlight=False), steps=1)
    assert "steps" in output.getvalue()


def test_a_terminal_gets_a_panel_and_its_cursor_back() -> None:
    output = io.StringIO()
    learn_watched(Console(file=output, force_terminal=True, width=100, color_system=None))
    text = output.getvalue()
    for part in ("the title", "512 / 512 steps", "violations", "interventions", "return so far"):
        assert part in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1


def test_a_sparkline_goes_from_the_least_to_the_largest() -> None:
    assert sparkline([], 8) == ""
    assert sparkline([1.0], 8) == "▁"
    assert sparkline(list(np.linspace(0, 1, 80)), 8) == "▁▂▃▄▅▆▇█"
