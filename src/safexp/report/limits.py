"""The cost that a run limits, which tables and curves show."""

from __future__ import annotations

from typing import Literal, NamedTuple

from safexp.runs.config import RunConfig

LimitedName = Literal["episode cost", "step cost"]


class LimitedQuantity(NamedTuple):
    """The limited quantity, and its limit if that is one number for the sum of costs, or the largest cost."""

    name: LimitedName
    limit: float | None


def limited_quantity(config: RunConfig) -> LimitedQuantity:
    """The limited quantity of a run; the cost of a margin is its distance below 0."""
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
