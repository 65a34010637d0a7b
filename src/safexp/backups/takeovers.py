"""Takeovers: which backup drives in each environment, and what it does there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp.backups.options import Option
from safexp.core.arrays import Array, Flags, Observations, take

Choose = Callable[[Array, NDArray[Any]], NDArray[np.int64]]
"""Index (n,) of the option on which the certificate of each action (n, ...) in its state (n, ds) rests."""


class Takeovers:
    """Options of a backup in n environments: the one that follows the last certified action, and how far it is.

    The option is only looked up when it is needed, with the state and the action that were certified; `settle` looks it
    up before the certificates change.

    Replacements of refused proposals are kept for `keep` steps: `kept` proposes them again.

    Args:
        options: the backup's options; the first drives where no certificate says otherwise.
        num_envs: n.
        choose: returns the option of a certified action.
        keep: number of steps for which a replacement is kept.
    """

    def __init__(self, options: Sequence[Option], num_envs: int, choose: Choose, keep: int = 0) -> None:
        self._options = options
        self._choose = choose
        self._keep = keep
        self._left = np.zeros(num_envs, dtype=np.int64)
        self._which = np.zeros(num_envs, dtype=np.int64)  # -1 where it has not been looked up
        self._since = np.full(num_envs, np.iinfo(np.int32).max, dtype=np.int64)
        self._held: NDArray[Any] | None = None
        self._states: Array = np.empty((num_envs, 0))

    def certify(self, rows: Flags, states: Array, actions: NDArray[Any]) -> None:
        """Note certified actions (n, ...) in states (n, ds) that are about to be run in these rows (n,)."""
        self._since += 1
        if self._held is None:
            self._held = np.array(actions)
            self._states = np.array(states)
        self._held[rows], self._states[rows] = actions[rows], states[rows]
        self._since[rows] = 0
        self._which[rows] = -1 if len(self._options) > 1 else 0

    def kept(self, proposals: NDArray[Any]) -> tuple[NDArray[Any], Flags]:
        """Proposals (n, ...), with replacements that are kept in place of some, and which (n,) these are."""
        rows = self._left > 0
        if not rows.any():
            return proposals, rows
        assert self._held is not None, "an action was certified before"
        return np.where(rows.reshape(-1, *[1] * (proposals.ndim - 1)), self._held, proposals), rows

    def replaced(self, rows: Flags, over: Flags) -> None:
        """Keep the replacements of these rows (n,); in those marked `over` nothing is kept any longer."""
        self._left = np.where(rows, self._keep, np.maximum(self._left - 1, 0))
        self._left[over] = 0

    def reset(self, rows: Flags) -> None:
        """Let the first option drive in these rows, with nothing to hold: no certificate says otherwise."""
        self._which[rows] = 0
        self._since[rows] = np.iinfo(np.int32).max
        self._left[rows] = 0

    def settle(self, rows: Flags) -> None:
        """Look up the options of these rows."""
        unknown = rows & (self._which < 0)
        if unknown.any():
            assert self._held is not None, "an action was certified before"
            self._which[unknown] = self._choose(self._states[unknown], self._held[unknown])

    def steps(self, rows: Flags) -> NDArray[np.int64]:
        """Number of steps for which the options of these rows drive."""
        self.settle(rows)
        return np.array([option.steps for option in self._options])[self._which[rows]]

    def act(self, observations: Observations, rows: Flags) -> NDArray[Any]:
        """Actions (k, ...) of the backup in the marked k of n rows, for the observations of all."""
        self.settle(rows)
        found: NDArray[Any] | None = None
        for k, option in enumerate(self._options):
            own = rows & (self._which == k)
            if not own.any():
                continue
            actions = np.asarray(option.act(take(observations, own)))
            if option.hold and self._held is not None:
                holding = self._since[own] < option.hold
                actions = np.where(holding.reshape(-1, *[1] * (actions.ndim - 1)), self._held[own], actions)
            if found is None:
                found = np.empty((len(rows), *actions.shape[1:]), dtype=actions.dtype)
            found[own] = actions
        assert found is not None, "asked about at least one row"
        return found[rows]
