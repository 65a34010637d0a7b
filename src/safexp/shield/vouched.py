"""User's safe action and its outcomes."""

from __future__ import annotations

import logging
from threading import Lock
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array, Flags, Observations
from safexp.core.encoding import ActionSpace
from safexp.shield.candidates import SafeAction, vouched_actions

log = logging.getLogger("safexp")

KEPT = 1000
"""Number of latest outcomes of each kind that are remembered."""


class Vouched:
    """Action that the user declares safe in every state, trusted until its outcomes contradict that.

    An outcome is *broken* if the action cost more than its threshold allowed. With `verify`, the action is no longer
    trusted in states whose nearest outcome so far is a broken one, with distances scaled by the outcomes' spread.

    Args:
        space: action space.
        action: an action, or a function of the observations (n, ...); a row of NaN means no safe action there.
        verify: whether outcomes count.
        everywhere: False for a seed controller, which is trusted only from the first state of an episode for as long as
            it drives, not in states that other controllers led to.
    """

    _lock: ClassVar = Lock()  # threads share a shield; a class attribute, because a lock cannot be copied

    def __init__(self, space: ActionSpace, action: SafeAction, verify: bool = True, everywhere: bool = True) -> None:
        if not callable(action):
            vouched_actions(space, action, np.empty(1))  # raises if this is not an action
        self.space = space
        self.action = action
        self.verify = verify
        self.everywhere = everywhere
        self.runs = self.broken = 0
        self.cost = 0.0
        self._states: dict[bool, list[Array]] = {True: [], False: []}

    def actions(self, observations: Observations, states: Array, first: Flags | None = None) -> Array:
        """Trusted safe actions in n states, encoded (n, da), NaN where there is none.

        `first` (n,) marks first states and those that this action alone led to from there. A seed controller is trusted
        only in these, so that an episode can begin.
        """
        actions = vouched_actions(self.space, self.action, observations)
        if not self.everywhere:
            actions[np.ones(len(actions), dtype=bool) if first is None else ~first] = np.nan
        elif self.verify and self.broken:
            actions[self._doubted(states)] = np.nan
        return actions

    def note(self, states: Array, costs: Array, thresholds: Array) -> None:
        """Record outcomes of the action in these states (n, ds), with costs and thresholds (n,) or (n, K)."""
        rows = costs.reshape(len(states), -1)
        broken: Flags = np.any(rows > thresholds.reshape(rows.shape), axis=1)
        with self._lock:
            for state, is_broken in zip(states, broken.tolist(), strict=True):
                known = self._states[is_broken]
                known.append(state.copy())
                del known[:-KEPT]
            self.runs += len(states)
            self.cost += float(rows.sum())
            first, self.broken = not self.broken, self.broken + int(broken.sum())
        if broken.any():
            worst = int((rows - thresholds.reshape(rows.shape)).max(axis=1).argmax())
            log.log(
                logging.WARNING if first else logging.DEBUG,
                "the safe action broke its promise: it cost %s where %s was allowed (scaled by cost_max)%s",
                rows[worst],
                np.atleast_1d(thresholds[worst]),
                "; it is no longer trusted in states like that one" if self.verify else "",
            )

    def metrics(self) -> dict[str, float]:
        """Number of runs of the action, their total cost (scaled), and the number of broken promises."""
        return {"vouched": self.runs, "vouched_cost": self.cost, "vouched_broken": self.broken}

    def state(self) -> dict[str, NDArray[Any]]:
        """Counts and outcomes, to be saved."""
        counts = np.array([self.runs, self.broken, self.cost])
        outcomes = {("broken" if is_broken else "kept"): known for is_broken, known in self._states.items() if known}
        return {"counts": counts, **{name: np.stack(known) for name, known in outcomes.items()}}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Restore the output of `state`."""
        if "counts" in state:
            runs, broken, self.cost = state["counts"].tolist()
            self.runs, self.broken = int(runs), int(broken)
            self._states = {True: list(state.get("broken", ())), False: list(state.get("kept", ()))}

    def _doubted(self, states: Array) -> Flags:
        """States (n,) that are nearer to an outcome that broke the promise than to one that kept it."""
        with self._lock:
            broken, kept = (np.array(self._states[kind]).reshape(-1, states.shape[1]) for kind in (True, False))
        spread = np.concatenate([broken, kept]).std(axis=0)
        scale = np.where(spread > 0, spread, 1.0)
        return np.asarray(_nearest(states / scale, broken / scale) <= _nearest(states / scale, kept / scale))


def _nearest(states: Array, others: Array) -> Array:
    """Distances (n,) from these states to the nearest of the others."""
    distances = np.linalg.norm(states[:, None] - others[None], axis=2)
    return np.asarray(distances.min(axis=1, initial=np.inf))
