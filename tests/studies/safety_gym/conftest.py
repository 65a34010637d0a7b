"""Results without training, and a few short runs of the study."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from safexp.runs.config import RunConfig
from safexp.runs.run import run
from safexp.studies.safety_gym.results import Line, Result
from safexp.studies.safety_gym.study import SafetyGymStudy

EPOCHS = 2
"""Of the short runs, in each of which 50 episodes end."""

BUDGET = 2.0


def made(
    task: str = "point",
    method: str = "mase",
    seed: int = 1000,
    *,
    epochs: int = 4,
    lines: tuple[int, ...] | None = None,
    budget: float = 20.0,
    final_return: float | None = 2.0,
    stops: tuple[int, ...] = (3, 0, 1, 0),
    **changes: object,
) -> Result:
    """A result whose epochs have ten episodes each, of which so many are stopped, epoch by epoch."""
    config = SafetyGymStudy(budget=budget).config(task, method, seed).settled()
    usual = RunConfig().to_json()
    settings = {name: value for name, value in config.to_json().items() if value != usual[name]}
    counted = [sum(stops[: epoch + 1]) for epoch in range(epochs)]
    metrics = [
        {"epoch": epoch + 1, "steps": 10_000 * (epoch + 1), "episodes": 10 * (epoch + 1), "mean_return": 1.0 + epoch}
        | {"mean_cost": 0.5, "max_cost": 20.0, "stop_rate": None, "violations": 0, "stops": counted[epoch]}
        for epoch in range(epochs)
    ]
    found = {
        horizon: Line(
            **{
                "task": task,
                "method": method,
                "seed": seed,
                "epochs": horizon,
                "episodes": 10 * horizon,
                "violated": 0,
                "unfinished": 0,
                "above": 0,
                "stops": counted[horizon - 1],
                "final_episodes": 10 * horizon,
                "final_return": final_return,
                "final_cost": 0.5,
                "final_max_cost": 20.0,
                "final_violated": 0,
                "final_stopped": 1,
                "hundred_stopped": 1,
                "deterministic": 2.5,
                "interventions": 7,
                "takeovers": 0,
                "seconds": 12.5,
                "commit": "abc",
                "settings": json.dumps(settings),
                **changes,
            }
        )
        for horizon in lines or (epochs,)
    }
    return Result(found, metrics)


@pytest.fixture
def make_result() -> Callable[..., Result]:
    return made


@pytest.fixture(scope="module")
def study_runs(tmp_path_factory):
    """The folder of two short runs of the study, of TRPO and of MASE."""
    folder = tmp_path_factory.mktemp("study") / "runs"
    study = SafetyGymStudy(("point",), ("trpo", "mase"), seeds=1, epochs=EPOCHS, budget=BUDGET, out=folder)
    for config in study.in_order():
        run(config)
    return folder
