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
    width: Annotated[float | None, tyro.conf.arg(metavar="INCHES")] = None,
    font: float = 8.0,
    panels: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME...")] = (),
    reference: Annotated[str | None, tyro.conf.arg(metavar="METHOD")] = None,
) -> int:
    """Compare runs in a self-contained HTML file and in a table on the terminal.

    Args:
        runs: run folders, or their parent folders; unreadable ones are named and skipped. Runs that differ only in the
            seed are grouped.
        out: HTML file to write.
        figures: folder for figures in the paper's style (PNG, SVG, PDF), a table for it (LaTeX), and tables of all
            numbers (CSV).
        width: width of the figures, such as 3.3 for a column; by default as wide as their panels need.
        font: font size of the figures in points.
        panels: metrics to show in the figures, such as return cost violations; by default the paper's.
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
        from safexp.report.figures import Look, write_figures
        from safexp.report.latex import write_latex
        from safexp.report.tables import write_tables

        write_figures(figures, readable, Look(width, font, panels))
        write_latex(figures / "table.tex", readable)
        write_tables(figures, readable, reference)
        print(f"figures and tables: {figures}")
    print(f"report: {out}")
    return 1 if problems else 0
