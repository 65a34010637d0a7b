"""The command `safexp`: what must be settled before numpy and the package are imported.

Ctrl-C is heard from the first moment, since the imports take over half a second. Outside of the package, since whatever
is inside is imported after it.
"""

import os
import signal
import sys
from types import FrameType


def main() -> int:
    """Run the command that the words of the command line ask for."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # a command in the background may ignore it
        signal.signal(signal.SIGINT, _leave)
    # Matrices here are small: a second thread takes a core, and time from other runs, and makes nothing faster.
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
    """End at once, since nothing has begun; an exception might be swallowed by what is being imported."""
    print("interrupted.", file=sys.stderr, flush=True)
    os._exit(128 + number)
