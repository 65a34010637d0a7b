"""Signals that arrive where nothing can be raised."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from safexp.runs.interrupts import Terminated, ending_on_sigterm


class Signalled:
    """Is told to end while it is being destroyed."""

    def __init__(self, number: signal.Signals) -> None:
        self.number = number

    def __del__(self) -> None:
        os.kill(os.getpid(), self.number)
        time.sleep(0.001)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Python's own handler of SIGINT, which a shell's background job does not have."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_a_signal_in_a_destructor_ends_the_command_a_moment_later(
    number: signal.Signals, kind: type[KeyboardInterrupt], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(kind), ending_on_sigterm():
        Signalled(number)
        time.sleep(10)
    assert capfd.readouterr().err == ""
