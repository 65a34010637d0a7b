"""How a command ends when it is told to: by Ctrl-C or by SIGTERM, with what it wrote whole."""

from __future__ import annotations

import os
import signal
import sys
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
    """Let SIGTERM end a command as Ctrl-C does: what is written is whole, and the run can go on later.

    A signal that arrives where Python can raise nothing, such as in a destructor, is not lost, but sent again.
    """

    def terminate(*_: Any) -> None:
        raise Terminated

    def send_again(lost: sys.UnraisableHookArgs) -> None:
        if isinstance(lost.exc_value, KeyboardInterrupt):
            number = exit_code(lost.exc_value) - 128
            later = threading.Timer(0.01, os.kill, (os.getpid(), number))  # at once it would be lost here
            later.daemon = True
            later.start()
        else:
            said(lost)

    if threading.current_thread() is not threading.main_thread():  # where signals cannot be handled
        yield
        return
    said, sys.unraisablehook = sys.unraisablehook, send_again
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        sys.unraisablehook = said
