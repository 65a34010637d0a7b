"""Where the time of a run goes."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback

from safexp.mase.mase import MASE
from safexp.runs.build import Agent


class Stopwatch:
    """Adds up the time spent in named spans; of nested ones, each has only what those inside it have not.

    `seconds` are the totals by name, of the spans that have ended or were halted.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds: dict[str, float] = {}
        self._clock = clock
        self._open: list[str] = []
        self._since = 0.0

    def begin(self, name: str) -> None:
        """From now on time is spent in this span; the one around it is halted."""
        self._book()
        self._open.append(name)

    def end(self) -> None:
        """The innermost span is over, and the one around it goes on; where there is none, nothing happens."""
        self._book()
        del self._open[-1:]

    def around(self, owner: Any, method: str, name: str) -> None:
        """Time every call of a method of this one object."""
        timed = getattr(owner, method)

        @wraps(timed)
        def call(*arguments: Any, **named: Any) -> Any:
            self.begin(name)
            try:
                return timed(*arguments, **named)
            finally:
                self.end()

        setattr(owner, method, call)

    def _book(self) -> None:
        now = self._clock()
        if self._open:
            name = self._open[-1]
            self.seconds[name] = self.seconds.get(name, 0.0) + now - self._since
        self._since = now


def watch(agent: Agent, stopwatch: Stopwatch) -> Phases:
    """Time all parts of a run; hand what this returns to the learner as the last of its callbacks.

    `physics` are the task's steps, `records` the wrappers around it, `shield` is without the `quantifier`, which has
    predictions and learning; `Phases` tells `policy` and `update`.
    """
    spans: list[tuple[Any, tuple[str, ...], str]] = [
        (agent.envs, ("step_async", "step_wait"), "records"),
        (agent.envs.venv, ("step_async", "step_wait", "reset_some"), "physics"),
    ]
    if isinstance(agent, MASE):
        spans += [
            (agent.shield, ("filter_batch", "glance", "outlook"), "shield"),
            (agent.quantifier, ("predict", "update"), "quantifier"),
        ]
    for owner, methods, name in spans:
        for method in methods:
            stopwatch.around(owner, method, name)
    return Phases(stopwatch)


class Phases(BaseCallback):
    """Times what a learner does: `policy` is all of a rollout but its steps, `update` all between two rollouts.

    As the last of the callbacks it lets the end of an epoch belong to the update, and not to the next rollout.
    """

    def __init__(self, stopwatch: Stopwatch) -> None:
        super().__init__()
        self.stopwatch = stopwatch

    def _on_rollout_start(self) -> None:
        self.stopwatch.end()
        self.stopwatch.begin("policy")

    def _on_rollout_end(self) -> None:
        self.stopwatch.end()
        self.stopwatch.begin("update")

    def _on_training_end(self) -> None:
        self.stopwatch.end()

    def _on_step(self) -> bool:
        return True
