"""Time spent in the parts of a run."""

from __future__ import annotations

import time
from collections.abc import Callable

from stable_baselines3.common.callbacks import BaseCallback


class Stopwatch:
    """Sums the time spent in named spans, each without the spans nested inside it.

    `physics` is the task's steps, `records` the wrappers around it, `shield` excludes the `quantifier`, which includes
    predictions and learning, `update` is the learner's update and everything after it; `Phases` measures `policy`.
    `seconds` are the totals by name, of the spans that have ended or are paused.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds: dict[str, float] = {}
        self._clock = clock
        self._open: list[str] = []
        self._since = 0.0

    def begin(self, name: str) -> None:
        """Start a span; the one around it is paused."""
        self._book()
        self._open.append(name)

    def end(self) -> None:
        """End the innermost span and continue the one around it; without any span, do nothing."""
        self._book()
        del self._open[-1:]

    def span(self, name: str) -> Span:
        """Context that measures a span."""
        return Span(self, name)

    def _book(self) -> None:
        now = self._clock()
        if self._open:
            name = self._open[-1]
            self.seconds[name] = self.seconds.get(name, 0.0) + now - self._since
        self._since = now


class Span:
    """Context manager of a span, which also ends it on an exception."""

    def __init__(self, stopwatch: Stopwatch, name: str) -> None:
        self._stopwatch = stopwatch
        self._name = name

    def __enter__(self) -> None:
        self._stopwatch.begin(self._name)

    def __exit__(self, *_: object) -> None:
        self._stopwatch.end()


class Phases(BaseCallback):
    """Times a learner: `policy` is a rollout without its steps, `update` the time between two rollouts."""

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
