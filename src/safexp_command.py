"""Entry point of the command `safexp`: signals and threads are set up before numpy and the package are imported.

The imports take over half a second, during which Ctrl-C must already work. This module is outside the package because
importing anything inside imports the package first.
"""

import os
import signal
import sys
from types import FrameType


def main() -> int:
    """Run the command given on the command line."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # a command in the background may ignore it
        signal.signal(signal.SIGINT, _leave)
    # The matrices are small: a second thread takes a core from other runs and makes nothing faster.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from safexp.core.extras import MissingExtraError, needed_for

    try:
        with needed_for("the command safexp"):
            from safexp.cli import main as run
    except MissingExtraError as error:
        print(f"safexp: {error}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGINT, before)
    return run()


def _leave(number: int, frame: FrameType | None) -> None:
    """Exit at once, since nothing has started; an exception might be swallowed by a module being imported."""
    print("interrupted.", file=sys.stderr, flush=True)
    os._exit(128 + number)
