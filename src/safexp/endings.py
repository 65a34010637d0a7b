"""How a command ends when it is told to: by Ctrl-C or by SIGTERM, with what it wrote whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does."""


def exit_code(reason: KeyboardInterrupt) -> int:
    """What a shell expects of a command that a signal ended: 128 and its number."""
    return 128 + (signal.SIGTERM if isinstance(reason, Terminated) else signal.SIGINT)


@contextmanager
def ending_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end a command as Ctrl-C does: what is written is whole, and the run can go on later."""

    def terminate(*_: Any) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():  # where signals cannot be handled
        yield
        return
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
