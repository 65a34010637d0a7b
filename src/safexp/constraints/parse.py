"""Limits on signals as text, for the command line: `current:-100:100`."""

from __future__ import annotations

from collections.abc import Sequence

from safexp.constraints.all_of import AllOf
from safexp.constraints.base import Constraint
from safexp.constraints.within import Within


def parse_within(text: str) -> Within:
    """Parse `name:low:high`, in which a number as name is an index into the observation and one limit may be empty.

    A limit that changes with the steps of an episode lists its changes: `100,50=80` is 100, and 80 from step 50 on.

    Raises:
        ValueError: if the text does not have this form.
    """
    name, *limits = (part.strip() for part in text.split(":"))
    try:
        low, high = (_limit(limit) if limit else None for limit in limits)
    except ValueError:
        low = high = None
    if not name or low is high is None:
        raise ValueError(
            f"--within {text} is not name:low:high, such as current:-100:100, temperature::335 for an upper limit "
            "only, or temperature::335,50=330 for one that changes at step 50."
        )
    return Within(int(name) if name.lstrip("-").isdigit() else name, low, high)


def _limit(text: str) -> float | dict[int, float]:
    first, *changes = text.split(",")
    if not changes:
        return float(first)
    return {0: float(first), **{int(step): float(limit) for step, limit in (one.split("=") for one in changes)}}


def parse_limits(texts: Sequence[str]) -> Constraint:
    """Parse one or more limits into one constraint."""
    parts = together([parse_within(text) for text in texts])
    return parts[0] if len(parts) == 1 else AllOf(*parts)


def together(parts: Sequence[Within]) -> list[Within]:
    """Constant limits of the same sides as one constraint, which one model answers for; others as they are."""
    found: list[Within] = []
    groups: dict[tuple[bool, bool], list[Within]] = {}
    for part in parts:
        if part.varies or part.scale is not None or len(part.sources) > 1:
            found.append(part)
        else:
            groups.setdefault((part.low is None, part.high is None), []).append(part)
    for (no_low, no_high), group in groups.items():
        sources = tuple(part.sources[0] for part in group)
        low, high = ([getattr(part, name) for part in group] for name in ("low", "high"))
        one = Within(sources, None if no_low else low, None if no_high else high)
        found.append(group[0] if len(group) == 1 else one)
    return found
