"""Where the time of a run goes."""

from __future__ import annotations

import time
from collections.abc import Callable

from stable_baselines3.common.callbacks import BaseCallback


class Stopwatch:
    """Adds up the time spent in named spans; of nested ones, each has only what those inside it have not.

    `physics` are the task's steps, `records` the wrappers around it, `shield` is without the `quantifier`, which has
    predictions and learning, `update` is the learner's and what follows it; `Phases` tells `policy`. `seconds` are the
    totals by name, of the spans that have ended or were halted.
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

    def span(self, name: str) -> Span:
        """The context in which time is spent in this span."""
        return Span(self, name)

    def _book(self) -> None:
        now = self._clock()
        if self._open:
            name = self._open[-1]
            self.seconds[name] = self.seconds.get(name, 0.0) + now - self._since
        self._since = now


class Span:
    """Begins a span of a stopwatch, and ends it whatever happens inside."""

    def __init__(self, stopwatch: Stopwatch, name: str) -> None:
        self._stopwatch = stopwatch
        self._name = name

    def __enter__(self) -> None:
        self._stopwatch.begin(self._name)

    def __exit__(self, *_: object) -> None:
        self._stopwatch.end()


class Phases(BaseCallback):
    """Times what a learner does: `policy` is all of a rollout but its steps, `update` all between two rollouts."""

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
