"""Named spans of time: code marks what it is doing, and a stopwatch may listen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

Spans = Callable[[str], AbstractContextManager[object]]
"""Makes the context in which an activity of this name runs."""

_NOTHING = nullcontext()


def untimed(name: str) -> AbstractContextManager[object]:
    """A span that is not measured."""
    return _NOTHING
