"""What a run limits of its episodes: the costs that tables and curves show of it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from safexp.runs.config import RunConfig

LimitedName = Literal["episode cost", "step cost"]


class LimitedQuantity(NamedTuple):
    """The limited quantity, and its limit where that is one number for what is shown: the plain sum, or the largest."""

    name: LimitedName
    limit: float | None


def limited_quantity(config: RunConfig) -> LimitedQuantity:
    """What a run of this description limits; the cost of a margin is how far it falls below 0."""
    match config.constraint:
        case "budget":
            return LimitedQuantity("episode cost", config.limit if config.discount == 1 else None)
        case "instantaneous":
            return LimitedQuantity("step cost", config.limit)
        case "margin":
            return LimitedQuantity("step cost", 0.0)
        case "within":
            return LimitedQuantity("step cost", 0.0)
        case "schedule":
            return LimitedQuantity("step cost", None)
