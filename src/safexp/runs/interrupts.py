"""Clean exit of a command on Ctrl-C or SIGTERM."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Terminated(KeyboardInterrupt):
    """SIGTERM, handled like Ctrl-C."""


def exit_code(reason: KeyboardInterrupt) -> int:
    """Exit code of a command ended by a signal: 128 plus its number."""
    return 128 + (signal.SIGTERM if isinstance(reason, Terminated) else signal.SIGINT)


@contextmanager
def ending_on_sigterm() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C: written files are complete, and the run can be resumed.

    A signal that arrives where Python cannot raise, such as in a destructor, is sent again.
    """

    def terminate(*_: Any) -> None:
        raise Terminated

    def send_again(lost: sys.UnraisableHookArgs) -> None:
        if isinstance(lost.exc_value, KeyboardInterrupt):
            number = exit_code(lost.exc_value) - 128
            later = threading.Timer(0.01, os.kill, (os.getpid(), number))  # sent at once it would be lost again
            later.daemon = True
            later.start()
        else:
            said(lost)

    if threading.current_thread() is not threading.main_thread():  # signals can only be handled in the main thread
        yield
        return
    said, sys.unraisablehook = sys.unraisablehook, send_again
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        sys.unraisablehook = said
