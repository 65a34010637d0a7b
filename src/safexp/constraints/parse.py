"""Limits on signals as words of a command line: `current:-100:100`."""

from __future__ import annotations

from collections.abc import Sequence

from safexp.constraints.all_of import AllOf
from safexp.constraints.base import Constraint
from safexp.constraints.within import Within


def parse_within(text: str) -> Within:
    """The limit that `name:low:high` describes; a number names an entry of the observation, an empty limit none.

    A limit that changes with the steps of an episode lists its changes: `100,50=80` is 100, and 80 from step 50 on.

    Raises:
        ValueError: where it describes none.
    """
    name, *limits = text.split(":")
    name = name.strip()
    try:
        if not name:
            raise ValueError
        low, high = (_limit(limit) if limit.strip() else None for limit in limits)
    except ValueError:
        raise ValueError(
            f"--within {text} is not name:low:high, such as current:-100:100, temperature::335 for an upper limit "
            "alone, or temperature::335,50=330 for one that changes at step 50."
        ) from None
    return Within(int(name) if name.lstrip("-").isdigit() else name, low, high)


def _limit(text: str) -> float | dict[int, float]:
    first, *changes = text.split(",")
    if not changes:
        return float(first)
    return {0: float(first), **{int(step): float(limit) for step, limit in (one.split("=") for one in changes)}}


def parse_limits(texts: Sequence[str]) -> Constraint:
    """The constraint that several such words describe together."""
    parts = [parse_within(text) for text in texts]
    return parts[0] if len(parts) == 1 else AllOf(*parts)
