"""Decisions of a shield about proposed actions."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from safexp.core.arrays import Array, Flags


class Decision(NamedTuple):
    """Decision of the shield about one proposal.

    `action` is the proposal or its replacement (`intervened`), or None if nothing is safe (`stopped`). If nothing is
    certified and the shield has a backup, `action` is the backup's (`takeover`). `vouched` is true if the action is
    safe on the user's word alone. `upper_bound` bounds the action's cost, or the proposal's if nothing is safe. `state`
    is the memory of a recurrent policy (`MASE.predict`).

    Example:
        >>> box = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
        >>> shield = safexp.Shield(safexp.Known(lambda states, actions: actions[:, 0]), box, box)
        >>> decision = shield.filter(np.array([0.5]), np.array([0.9]), 0.25)
        >>> print(decision.action.round(3), decision.intervened, decision.stopped)
        [0.247] True False
    """

    action: Any
    intervened: bool
    stopped: bool
    vouched: bool
    upper_bound: float | Array
    state: Any = None
    takeover: bool = False


class Decisions(NamedTuple):
    """`Decision`s for n states at once; the actions (n, ...) of stopped rows are the proposals and must not be run.

    Example:
        >>> box = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
        >>> shield = safexp.Shield(safexp.Known(lambda states, actions: actions[:, 0]), box, box)
        >>> decisions = shield.filter_batch(np.full((2, 1), 0.5), np.array([[0.9], [0.1]]), np.full(2, 0.25))
        >>> decisions.intervened
        array([ True, False])
    """

    actions: NDArray[Any]
    intervened: Flags
    stopped: Flags
    vouched: Flags
    upper_bounds: Array

    def first(self, single: bool) -> Decision:
        """First decision; its bound is a number if there is a `single` cost."""
        stopped, bounds = bool(self.stopped[0]), self.upper_bounds[0]
        return Decision(
            None if stopped else self.actions[0],
            bool(self.intervened[0]),
            stopped,
            bool(self.vouched[0]),
            float(bounds[0]) if single else bounds,
        )
