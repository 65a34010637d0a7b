"""The command line: `safexp train | sweep | play | reproduce | report | audit | check | doctor | export | …`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence

import tyro

from safexp.commands.audit import audit
from safexp.commands.bench import bench
from safexp.commands.check import check
from safexp.commands.doctor import doctor
from safexp.commands.export import export
from safexp.commands.play import play
from safexp.commands.report import report
from safexp.commands.reproduce import reproduce, reproductions
from safexp.commands.tasks import tasks
from safexp.commands.train import sweep, train, with_preset
from safexp.commands.working_directory import import_from_working_directory
from safexp.core.extras import MissingExtraError, needed_for
from safexp.runs.folder import RunFailedError
from safexp.runs.interrupts import ending_on_sigterm, exit_code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; expected errors are reported in one line on stderr with exit code 2."""
    with ending_on_sigterm():
        return run_command(list(sys.argv[1:] if arguments is None else arguments))


def run_command(words: list[str]) -> int:
    """Run a command, and return its exit code."""
    commands: dict[str, Callable[..., int]] = {
        "train": train,
        "sweep": sweep,
        "play": play,
        "reproduce": reproduce,
        "report": report,
        "audit": audit,
        "check": check,
        "doctor": doctor,
        "tasks": tasks,
        "export": export,
        "bench": bench,
    }
    program = "safexp"
    try:
        commands |= with_preset(words)
        if words[:1] == ["reproduce"] and len(words) > 1:
            import_from_working_directory()
            program, words, commands = "safexp reproduce", words[1:], reproductions()
        with needed_for(f"`{' '.join([program, *words[:1]])}`"):
            code = tyro.extras.subcommand_cli_from_dict(
                commands, prog=program, description="Learn without breaking the constraint.", args=words
            )
        sys.stdout.flush()
        return code
    except KeyboardInterrupt as reason:
        print("interrupted.", file=sys.stderr)
        return exit_code(reason)
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python's flush at exit fails
        return 128 + signal.SIGPIPE
    except (ValueError, OSError, RunFailedError, MissingExtraError) as error:
        print(f"safexp: {error}", file=sys.stderr)
        return 2
