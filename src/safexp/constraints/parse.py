"""Limits on signals as words of a command line: `current:-100:100`."""

from __future__ import annotations

from collections.abc import Sequence

from safexp.constraints.all_of import AllOf
from safexp.constraints.base import Constraint
from safexp.constraints.within import Within


def parse_within(text: str) -> Within:
    """The limit that `name:low:high` describes; a number names an entry of the observation, an empty limit none.

    Raises:
        ValueError: where it describes none.
    """
    name, *limits = text.split(":")
    try:
        low, high = (float(limit) if limit.strip() else None for limit in limits)
    except ValueError:
        raise ValueError(
            f"--within {text} is not name:low:high, such as current:-100:100, or temperature::335 for an upper limit "
            "alone."
        ) from None
    name = name.strip()
    return Within(int(name) if name.lstrip("-").isdigit() else name, low, high)


def parse_limits(texts: Sequence[str]) -> Constraint:
    """The constraint that several such words describe together."""
    parts = [parse_within(text) for text in texts]
    return parts[0] if len(parts) == 1 else AllOf(*parts)
