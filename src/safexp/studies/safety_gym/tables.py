"""The comparison as Markdown, beside the paper's numbers, and into the pages that quote it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

from safexp.core.files import write_bytes
from safexp.studies.safety_gym.comparison import HUNDRED, REFERENCE, ComparisonRow
from safexp.studies.safety_gym.study import TASKS

LABELS = MappingProxyType(
    {
        "trpo": "TRPO",
        "trpo-lagrangian": "TRPO-Lagrangian",
        "cpo": "CPO",
        "saute": "Sauté",
        "early-termination": "early termination",
        "mase-published": "MASE as published",
        "mase": "MASE",
        "mase-fallback": "MASE, fallback",
    }
)
TASK_LABELS = MappingProxyType({"point": "Point", "car": "Car"})

PAPER_TABLE_2 = MappingProxyType({"point": ("154 of 500", "24 of 100"), "car": ("397 of 500", "46 of 100")})
"""Emergency stops by the paper's Table 2: in all, and of the "last 100 episodes"; it does not say 500 of what."""


def label(method: str) -> str:
    """Name of a method in tables and figures."""
    return LABELS.get(method, method)


def task_label(task: str) -> str:
    """Name of a task in tables and figures: that of a robot, or of an id without namespace and version."""
    return TASK_LABELS.get(task, re.sub(r"-v\d+$", "", task.rpartition("/")[2]))


def all_tables(rows: Sequence[ComparisonRow], missing: Sequence[str]) -> dict[str, str]:
    """The tables in Markdown, by the names that pages mark their places with.

    There is one for each task, `tasks` of all of them, `table-2` beside the paper's, `short`, and `missing`, which is a
    list of what is.
    """
    tasks = list(dict.fromkeys(row.task for row in rows))
    tables = {task: task_table([row for row in rows if row.task == task]) for task in tasks}
    if stopped := [row for row in rows if row.method.startswith("mase") and row.task in TASKS]:
        tables["table-2"] = table_2(stopped)
    tables["tasks"] = tasks_table(rows)
    tables["short"] = short_table(rows)
    tables["missing"] = "".join(f"- {line}\n" for line in missing) or "None is missing.\n"
    return tables


def task_table(rows: Sequence[ComparisonRow]) -> str:
    """All methods on one task."""
    headings = ["violated", "95% interval", "return", "of TRPO's", "deterministic", "cost, largest", "stopped"]
    return _table(
        [f"{task_label(rows[0].task)}, {rows[0].epochs:,} epochs", "seeds", *headings, "stops per epoch"],
        [
            [
                *(label(row.method), str(row.seeds), _violated(row)),
                f"{_percent(row.interval_low)} to {_percent(row.interval_high)}",
                _spread(row.returns, row.deviation if row.seeds > 1 else None),
                "" if row.method == REFERENCE else _share(row),
                _number(row.deterministic, 3),
                f"{_number(row.cost, 2)}, {_number(row.max_cost, 0)}",
                f"{row.stopped:.1%} (≤ {row.at_most:.1%})" if row.stops else "",
                f"{row.late_stops:.1f}" if row.stops else "",
            ]
            for row in rows
        ],
    )


def tasks_table(rows: Sequence[ComparisonRow]) -> str:
    """All methods on all tasks, a line for each."""
    headings = ["task", "method", "return", "deterministic", "violated", "95% interval", "cost, largest", "stopped"]
    lines = []
    before = None
    for row in rows:
        lines.append(
            [
                "" if row.task == before else task_label(row.task),
                *(label(row.method), _number(row.returns, 2), _number(row.deterministic, 2), _violated(row)),
                f"{_percent(row.interval_low)} to {_percent(row.interval_high)}",
                f"{_number(row.cost, 2)}, {_number(row.max_cost, 0)}",
                f"{row.stops:,} ({_percent(row.stops / max(row.episodes, 1))})" if row.stops else "",
            ]
        )
        before = row.task
    return _table(headings, lines)


def table_2(rows: Sequence[ComparisonRow]) -> str:
    """The paper's Table 2 beside ours, which counts episodes and epochs; of several seeds, the mean."""
    tasks = [task for task in TASKS if any(row.task == task for row in rows)]
    by_key = {(row.task, row.method): row for row in rows}
    headings = [f"{task_label(task)}: {part}" for task in tasks for part in ("in all", "last 100")]
    lines = [["the paper", *(cell for task in tasks for cell in PAPER_TABLE_2[task])]]
    for method in dict.fromkeys(row.method for row in rows):
        found = [by_key.get((task, method)) for task in tasks]
        lines.append([f"{label(method)}, episodes stopped", *(cell for row in found for cell in _episodes(row))])
        lines.append([f"{label(method)}, epochs with a stop", *(cell for row in found for cell in _epochs(row))])
    return _table(["", *headings], lines)


def short_table(rows: Sequence[ComparisonRow]) -> str:
    """Violations and returns of all methods, the tasks beside each other, under a sentence that says how many runs."""
    tasks = list(dict.fromkeys(row.task for row in rows))
    by_key = {(row.task, row.method): row for row in rows}
    headings = [cell for task in tasks for cell in (f"{task_label(task)}: violated", "return")]
    lines = []
    for method in dict.fromkeys(row.method for row in rows):
        found = [by_key.get((task, method)) for task in tasks]
        cells = [cell for row in found for cell in ((_violated(row), _number(row.returns, 2)) if row else ("", ""))]
        lines.append([label(method), *cells])
    seeds = sorted({row.seeds for row in rows})
    many = "1 seed" if seeds == [1] else f"{seeds[0]} seeds" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    caption = (
        f"{rows[0].epochs:,} epochs of 10,000 steps, {many}; violations over all of training, return of the last 1,000 "
        "episodes of each seed.\n\n"
    )
    return caption + _table(["", *headings], lines)


def fill(path: Path, tables: Mapping[str, str]) -> list[str]:
    """Write tables into a page, each between `<!-- results: NAME -->` and `<!-- end of results -->`; returns which.

    Raises:
        ValueError: where the page marks no place for any of them.
    """
    text = path.read_text()
    filled = []
    for name, table in tables.items():
        place = rf"(<!-- results: {re.escape(name)} -->\n).*?(<!-- end of results -->)"
        text, count = re.subn(place, partial(_put, table), text, flags=re.DOTALL)
        filled += [name] * count
    if not filled:
        marks = ", ".join(f"<!-- results: {name} -->" for name in tables)
        raise ValueError(f"{path} has no place for a table: mark one with {marks}, and <!-- end of results --> below.")
    write_bytes(path, text.encode())
    return filled


def _put(table: str, place: re.Match[str]) -> str:
    return f"{place[1]}\n{table}\n{place[2]}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _violated(row: ComparisonRow) -> str:
    count = f"{row.violated:,}" if row.violated else "**0**"
    plain = f"; {row.above:,} above the budget undiscounted" if row.above > row.violated else ""
    return f"{count} of {row.episodes:,}{plain}"


def _spread(value: float | None, deviation: float | None) -> str:
    return _number(value, 3) + ("" if deviation is None else f" ± {deviation:.3f}")


def _share(row: ComparisonRow) -> str:
    if row.share is None:
        return ""
    if row.share_low is None or row.share_high is None:
        return f"{row.share:.1%}"
    return f"{row.share:.1%} ({100 * row.share_low:.1f} to {100 * row.share_high:.1f})"


def _episodes(row: ComparisonRow | None) -> tuple[str, str]:
    if row is None:
        return "", ""
    return (
        f"{row.stops:,} of {row.episodes:,} ({_percent(row.stops / max(row.episodes, 1))})",
        f"{row.last_hundred:.1%}",
    )


def _epochs(row: ComparisonRow | None) -> tuple[str, str]:
    if row is None:
        return "", ""
    return f"{row.stopped_epochs:.1f} of {row.epochs:,}", f"{row.late_stopped_epochs:.1f} of {min(row.epochs, HUNDRED)}"


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _percent(value: float) -> str:
    """A share with as many digits as one near 0 needs."""
    return f"{100 * value:.3g}%"
