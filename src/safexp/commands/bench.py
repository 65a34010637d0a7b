"""`safexp bench`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

import tyro


def bench(
    what: Annotated[Literal["tasks", "learners", "quantifiers", "coverage", "shield"], tyro.conf.Positional],
    /,
    decisions: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None,
    peer: Annotated[Path | None, tyro.conf.arg(metavar="PYTHON")] = None,
    logs: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="FILE...")] = (),
    within: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME:LOW:HIGH...")] = (),
    splits: Annotated[tuple[str, ...], tyro.conf.arg(metavar="{bold,random}...")] = (),
    quantifiers: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME...")] = (),
    compiled: bool = False,
    json: bool = False,
) -> int:
    """Measure speed as ratios within one run, or the coverage of quantifiers.

    Args:
        what: `tasks`: steps per second of the navigation tasks, compared with MuJoCo's physics alone;
            `learners`: TRPO's policy step compared with sb3-contrib's, the critic schedules, and steps per second of
            training;
            `quantifiers`: microseconds per prediction, compared with gpytorch, per refit, and per shield decision;
            `coverage`: miss rates on held-out episodes, random ones and the boldest, with and without calibration;
            `shield`: latency and memory of a deployed shield, in absolute numbers.
        decisions: number of shield decisions to measure; a million by default.
        peer: for `tasks`: a Python interpreter with Safety-Gymnasium, whose tasks are stepped in the same run.
        logs: for `coverage`: logs to measure instead of the built-in tasks.
        within: limits on signals of the logs, such as current:-100:100 or temperature::335, each measured separately.
        splits: for `coverage`: kinds of held-out episodes; both by default.
        quantifiers: for `coverage`: quantifiers to measure, such as SparseGP; all by default.
        compiled: for `shield`: measure the same decisions in C, too, with the size of the code and its stack.
        json: print JSON instead of a table.
    """
    from safexp.report.terminal import print_rows

    options = {"decisions": decisions, "peer": peer, "logs": logs, "within": within}
    options |= {"splits": splits, "quantifiers": quantifiers, "compiled": compiled or None}
    given = {name: value for name, value in options.items() if value not in (None, ())}
    for name, value in given.items():
        if what != (belongs := {"decisions": "shield", "compiled": "shield", "peer": "tasks"}.get(name, "coverage")):
            raise ValueError(f"--{name} {value} is for `safexp bench {belongs}`: leave it out.")
    try:
        rows = import_module(f"safexp.bench.{what}").measure(**given)
    except ModuleNotFoundError as error:
        if error.name != "gpytorch":  # the reference for some measurements; no extra installs it
            raise
        raise ValueError("this measurement needs gpytorch: pip install gpytorch.") from error
    print_rows(rows, json)
    return 0
