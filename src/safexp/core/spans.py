"""Named spans of time: parts say what they are doing, and whoever measures listens."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

Spans = Callable[[str], AbstractContextManager[object]]
"""Makes the context in which something of this name is done."""

_NOTHING = nullcontext()


def untimed(name: str) -> AbstractContextManager[object]:
    """A span that nobody measures."""
    return _NOTHING
