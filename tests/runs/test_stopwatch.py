from pathlib import Path

import pytest

from safexp.runs import folder as run_folder
from safexp.runs.config import RunConfig
from safexp.runs.run import run
from safexp.runs.stopwatch import Stopwatch


class Hand:
    """A clock that is set by hand."""

    time = 100.0

    def __call__(self) -> float:
        return self.time


class Worker:
    def __init__(self, clock: Hand, stopwatch: Stopwatch) -> None:
        self.clock = clock
        self.stopwatch = stopwatch

    def outer(self, before: float, after: float) -> None:
        with self.stopwatch.span("shield"):
            self.clock.time += before
            self.inner(fail=False)
            self.clock.time += after

    def inner(self, fail: bool) -> None:
        with self.stopwatch.span("quantifier"):
            self.clock.time += 7
            if fail:
                raise ZeroDivisionError


def watched() -> tuple[Worker, Stopwatch]:
    clock = Hand()
    stopwatch = Stopwatch(clock)
    return Worker(clock, stopwatch), stopwatch


def test_a_span_has_what_those_inside_it_have_not() -> None:
    worker, stopwatch = watched()
    worker.outer(1, after=2)
    worker.clock.time += 1000
    worker.outer(10, after=20)
    assert stopwatch.seconds == {"shield": 33, "quantifier": 14}


def test_a_span_in_which_something_raises_is_over() -> None:
    worker, stopwatch = watched()
    with pytest.raises(ZeroDivisionError):
        worker.inner(fail=True)
    worker.clock.time += 1000
    worker.inner(fail=False)
    assert stopwatch.seconds == {"quantifier": 14}


def test_phases_halt_while_others_run() -> None:
    worker, stopwatch = watched()
    stopwatch.end()
    stopwatch.begin("policy")
    worker.clock.time += 3
    worker.outer(1, after=2)
    worker.clock.time += 4
    stopwatch.end()
    assert stopwatch.seconds == {"policy": 7, "shield": 3, "quantifier": 7}


@pytest.mark.parametrize("method", ["mase", "trpo"])
def test_a_run_says_where_its_time_went(tmp_path: Path, method: str) -> None:
    settings = {"num_envs": 4, "steps": 512, "learner": "TRPO", "learner_options": {"n_steps": 64}}
    if method == "mase":
        settings |= {"quantifier": "exact-gp", "quantifier_options": {"capacity": 50}}
    else:
        settings |= {"learner": "PPO"}
    timing = run_folder.read(run(RunConfig(method=method, out=tmp_path / method, **settings))).timing
    spent = timing["seconds_in"]
    expected = {"physics", "records", "policy", "update", "files"}
    assert set(spent) == expected | ({"shield", "quantifier"} if method == "mase" else set())
    assert all(seconds > 0 for seconds in spent.values())
    assert sum(spent.values()) <= timing["seconds"]
