"""What a shield says about proposals."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from safexp.core.arrays import Array, Flags


class Decision(NamedTuple):
    """What the shield says about one proposal.

    `action` is the proposal or its replacement (`intervened`), or None where nothing is safe (`stopped`); `vouched`
    says that it is safe on the user's word alone; `upper_bound` bounds its cost, or the proposal's where nothing is
    safe; `state` is what a recurrent policy remembers (`MASE.predict`). Where nothing is certified and the shield has a
    backup, `action` is the backup's (`takeover`).
    """

    action: Any
    intervened: bool
    stopped: bool
    vouched: bool
    upper_bound: float | Array
    state: Any = None
    takeover: bool = False


class Decisions(NamedTuple):
    """`Decision`s for n states at once; the actions (n, ...) of stopped rows are the proposals and must not be run."""

    actions: NDArray[Any]
    intervened: Flags
    stopped: Flags
    vouched: Flags
    upper_bounds: Array
