"""`safexp tasks`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro


def tasks(
    what: Annotated[Literal["list", "verify"], tyro.conf.Positional] = "list",
    files: Annotated[tuple[Path, ...], tyro.conf.Positional] = (),
    /,
    json: bool = False,
) -> int:
    """List the tasks that come with safexp, or replay recorded transitions on them.

    Args:
        what: `list`, or `verify` to replay recordings of Safety-Gymnasium and compare; the exit code is 1 if an
            observation differs by more than 1e-8 or anything else differs at all.
        files: recordings to verify, .npz.
        json: print JSON instead of a table.
    """
    from safexp.report.terminal import print_rows
    from safexp.tasks.listing import task_rows

    if what == "list":
        if files:
            raise ValueError(f"listing takes no files; did you mean `safexp tasks verify {files[0]}`?")
        print_rows(task_rows(), json)
        return 0
    if not files:
        raise ValueError("nothing to verify: give one or more recordings, such as tests/data/static_point.npz.")
    from safexp.tasks.navigation.recordings import verify

    found = [verify(file) for file in files]
    print_rows([{"file": str(file), **one.row()} for file, one in zip(files, found, strict=True)], json)
    return 0 if all(one.ok for one in found) else 1
