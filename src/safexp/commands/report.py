"""`safexp report`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import tyro

from safexp.runs.folder import Run, RunFolderError, folders_of, read


def report(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional],
    /,
    out: Path = Path("report.html"),
    figures: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
    reference: Annotated[str | None, tyro.conf.arg(metavar="METHOD")] = None,
) -> int:
    """Compare runs in a self-contained HTML file and in a table on the terminal.

    Args:
        runs: run folders, or their parent folders; unreadable ones are named and skipped. Runs that differ only in the
            seed are grouped.
        out: HTML file to write.
        figures: folder for figures in the paper's style (PNG, SVG, PDF) and tables of all numbers (CSV).
        reference: method to compare the others with; by default the one that most tasks have.
    """
    from safexp.report.html import write_report
    from safexp.report.terminal import print_summary

    if not runs:
        raise ValueError("nothing to report: give one or more run folders, such as runs/*.")
    readable: list[Run] = []
    problems: list[str] = []
    for path in folders_of(runs):
        try:
            readable.append(read(path))
        except RunFolderError as error:
            problems.append(str(error))
            print(f"left out: {error}", file=sys.stderr)
    if not readable:
        raise ValueError("none of these is a run folder that can be read; `safexp train` writes one.")
    write_report(out, readable, problems, reference)
    print_summary(readable)
    if figures is not None:
        from safexp.report.figures import write_figures
        from safexp.report.tables import write_tables

        write_figures(figures, readable)
        write_tables(figures, readable, reference)
        print(f"figures and tables: {figures}")
    print(f"report: {out}")
    return 1 if problems else 0
