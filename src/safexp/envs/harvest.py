"""Executed steps of an epoch as transitions for a quantifier."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array, Flags
from safexp.core.costs import refuse
from safexp.core.encoding import ActionSpace, encode_actions
from safexp.envs.infos import Infos
from safexp.envs.recording import Harvest, Taken
from safexp.quantifiers.base import Transitions, rows_of

MOST_STEPS = 100_000
"""Number of environment steps kept for the quantifier until they are taken; the oldest are dropped first."""


class RecentSteps:
    """Executed steps of n environments since they were last taken, with the numbers of their episodes."""

    def __init__(self, num_envs: int) -> None:
        self._steps: deque[tuple[NDArray[Any], ...]] = deque(maxlen=max(MOST_STEPS // num_envs, 1))
        self._episodes = np.zeros(num_envs, dtype=np.int64)
        self._tells_margins: bool | None = None

    def begin(self, fresh: Flags) -> None:
        """Give new numbers to the episodes that begin in these environments (n,)."""
        self._episodes[fresh] = self._episodes.max() + 1 + np.arange(np.count_nonzero(fresh))

    def add(self, taken: Taken, states: Array, executed: NDArray[Any], measured: Array, following: Array) -> None:
        """Keep a step: executed actions (n, ...) in states (n, ds), the signals (n, S) and states (n, ds) after it."""
        margins = self._margins(taken.received.infos)
        columns = (states, executed, taken.costs, taken.thresholds, self._episodes.copy(), measured, following)
        self._steps.append((*columns, *margins))

    def taken(self, action_space: ActionSpace) -> Harvest | None:
        """All steps so far, which are then forgotten; None if there are none."""
        if not self._steps:
            return None
        found = harvest_of(self._steps, action_space)
        self._steps.clear()
        return found

    def _margins(self, infos: Infos) -> list[Array]:
        """Signed distances (n,) after a step, or nothing if the task's first step did not report them."""
        if self._tells_margins is None:
            self._tells_margins = infos.gives("margin")
        if not self._tells_margins:
            return []
        margins = infos.column("margin").astype(np.float64)
        refuse(~np.isfinite(margins), margins, "info['margin'] must be a finite signed distance")
        return [margins]


def harvest_of(steps: Iterable[tuple[NDArray[Any], ...]], action_space: ActionSpace) -> Harvest:
    """Transitions of vector steps, and the thresholds of their costs.

    A step is a tuple of columns of n rows: states, executed actions, costs, thresholds, episodes, signals, next states
    and, if the task reports them, margins. Rows whose signals are unknown, as in a first state, are left out.
    """
    columns = [np.concatenate(parts) for parts in zip(*steps, strict=True)]
    states, actions, costs, thresholds, episodes, signals, following, *margins = columns
    told = Transitions(
        states,
        encode_actions(action_space, actions),
        costs,
        margins[0] if margins else None,
        episodes,
        signals if signals.shape[1] else None,
        following if following.shape[1] else None,
    )
    known = np.isfinite(states).all(axis=1)
    return Harvest(told, thresholds) if known.all() else Harvest(rows_of(told, known), thresholds[known])
