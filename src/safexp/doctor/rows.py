"""Rows, episodes, sampling gaps and missing values of a log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from safexp.core.arrays import Array, Flags, Observations
from safexp.core.findings import Finding, listed, percent
from safexp.shield.logs import Log

JOINED = 1e-4
"""Largest distance in standard deviations at which a state after a step and the next state count as equal."""

EVEN = 0.9
"""Share of equal increments from which an always increasing column counts as a clock."""

LATE = 1.5
"""Multiple of the usual duration from which a step is a gap."""

MOST_GAPS = 0.05
"""Share of gaps above which a log does not show the effect of an action."""


@dataclass(frozen=True)
class Missing:
    """Rows of an array with a missing or infinite number."""

    name: str
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Rows:
    """Size and continuity of a log.

    Attributes:
        rows: number of steps.
        episodes: number of episodes; None if the log has no episode numbers.
        lengths: lengths of the shortest, the median and the longest episode.
        mixed: number of places where steps of an episode are not consecutive.
        torn: number of steps whose next state is not the state of the following step.
        clock: the column with the time, if there is one.
        late: number of steps of that clock that took much longer than usual.
    """

    rows: int
    episodes: int | None
    lengths: tuple[int, float, int]
    mixed: int
    torn: int
    clock: str | None
    late: int


def missing_values(log: Log) -> list[Missing]:
    """Rows with missing or infinite numbers, by array."""
    found = []
    for name, values in _columns(log):
        flat = np.asarray(values, dtype=np.float64).reshape(len(values), -1)
        if (rows := np.flatnonzero(~np.isfinite(flat).all(axis=1))).size:
            found.append(Missing(name, tuple(rows.tolist())))
    return found


def missing_findings(missing: list[Missing], rows: int, first_line: int | None) -> list[Finding]:
    """Findings on missing values; `first_line` is the line of the first row if the file has lines."""
    if not missing:
        return [Finding("missing values", "ok", "No value is missing.")]
    unit, offset = ("row", 0) if first_line is None else ("line", first_line)
    told = "; ".join(
        f"{one.name} in {len(one.rows):,} of {rows:,} rows ({unit} {listed(row + offset for row in one.rows)})"
        for one in missing
    )
    return [
        Finding(
            "missing values",
            "stop",
            f"Numbers are missing or infinite: {told}.",
            "Such a state cannot be certified, and no model can learn from it.",
            "Fix the sensor or its logging. Or remove those rows, give the rows after each gap a new episode number, "
            "and examine the log again.",
        )
    ]


def count_rows(log: Log) -> Rows:
    """Measure the size and continuity of a log."""
    n = len(log.actions)
    follows = _follows(log)
    if log.episodes is None:
        lengths, episodes, mixed = np.array([n]), None, 0
    else:
        numbers = np.asarray(log.episodes)
        lengths = np.unique(numbers, return_counts=True)[1]
        episodes, mixed = len(lengths), 1 + int((numbers[1:] != numbers[:-1]).sum()) - len(lengths)
    clock, late = _clock(log, follows)
    spread = (int(lengths.min()), float(np.median(lengths)), int(lengths.max()))
    return Rows(n, episodes, spread, mixed, _torn(log, follows), clock, late)


def rows_findings(rows: Rows) -> list[Finding]:
    """Findings on the size and continuity of a log."""
    shortest, median, longest = rows.lengths
    if rows.episodes is None:
        first = Finding(
            "rows",
            "caution",
            f"{rows.rows:,} rows; there are no episode numbers.",
            "Every row is taken as the step after the one above it, and stretches of 100 rows as independent.",
            "Add a column `episode` with their numbers.",
        )
    else:
        first = Finding(
            "rows",
            "ok",
            f"{rows.rows:,} rows in {rows.episodes:,} episodes of {shortest:,} to {longest:,} steps (median "
            f"{median:,.0f}).",
        )
    found = [first]
    if rows.mixed:
        found.append(
            Finding(
                "order",
                "stop",
                f"Steps of one episode are not consecutive ({rows.mixed:,} places).",
                "The signal before a step is read from the row above.",
                "Sort the log by episode and step, or give every piece its own episode number.",
            )
        )
    gaps = max(rows.torn, rows.late)
    if gaps:
        what = []
        if rows.torn:
            what.append(f"in {rows.torn:,} rows the state after the step is not the state before the next one")
        if rows.late:
            what.append(f"{rows.late:,} steps took over {LATE:g} times as long as usual, by {rows.clock}")
        share = gaps / max(rows.rows, 1)
        found.append(
            Finding(
                "gaps",
                "stop" if share > MOST_GAPS else "caution",
                f"{listed(what).capitalize()} ({percent(share)} of the log).",
                "Rows are missing there, or the sampling stalled: a model sees one step where there were several.",
                "Give the rows after each gap a new episode number, or log without dropping rows.",
            )
        )
    elif rows.clock is not None:
        found.append(Finding("gaps", "ok", f"No gaps: {rows.clock} increases by the same amount at every step."))
    return found


def _columns(log: Log) -> Iterator[tuple[str, Array]]:
    for name, part in (("states", log.observations), ("states after the step", log.next_observations)):
        if isinstance(part, dict):
            yield from ((f"{name} ({key})", values) for key, values in part.items())
        elif part is not None:
            yield from _each(name, part)
    yield from _each("actions", log.actions)
    for name, column in (("costs", log.costs), ("margins", log.margins), ("episodes", log.episodes)):
        if column is not None:
            yield name, column
    yield from (log.signals or {}).items()


def _each(name: str, values: Observations) -> Iterator[tuple[str, Array]]:
    """The columns of an array under their names in a file, if it has columns."""
    letter = {"states": "s", "states after the step": "n", "actions": "a"}[name]
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2:
        yield name, array
    else:
        yield from ((f"{letter}{k}", column) for k, column in enumerate(array.T))


def _follows(log: Log) -> Flags:
    """Which rows (n − 1,) are followed by the next step of their episode."""
    n = len(log.actions)
    if log.episodes is None:
        return np.ones(max(n - 1, 0), dtype=bool)
    numbers = np.asarray(log.episodes)
    return numbers[1:] == numbers[:-1]


def _torn(log: Log, follows: Flags) -> int:
    if log.next_observations is None or isinstance(log.observations, dict):
        return 0
    before = np.asarray(log.observations, dtype=np.float64).reshape(len(log.actions), -1)
    after = np.asarray(log.next_observations, dtype=np.float64).reshape(before.shape)
    spread = np.maximum(before.std(axis=0), JOINED * (1.0 + np.abs(before).max(axis=0)))
    apart = (np.abs(after[:-1] - before[1:]) / spread).max(axis=1, initial=0.0) > JOINED
    return int((apart & follows).sum())


def _clock(log: Log, follows: Flags) -> tuple[str | None, int]:
    """The column with the time, and the number of its steps that are much longer than usual."""
    if not follows.any():
        return None, 0
    for name, values in _columns(log):
        if np.ndim(values) != 1 or name in ("costs", "margins", "episodes"):
            continue
        steps = np.diff(np.asarray(values, dtype=np.float64))[follows]
        usual = float(np.median(steps))
        if usual > 0 and (steps > 0).all() and (np.abs(steps - usual) < 1e-3 * usual).mean() >= EVEN:
            return name, int((steps > LATE * usual).sum())
    return None, 0
