"""Parsing of the files of a run; what is damaged raises a `ValueError` that names the file and the line."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

from safexp.records.coverage import Coverage
from safexp.records.episodes import Episode
from safexp.runs.trajectories import Trajectories

JUDGED_COLUMNS = tuple("return" if name == "true_return" else name for name in Episode._fields)
"""Header of episodes.csv, whose flags are 0 or 1, so that any tool can sum them, if stops are judged."""
COLUMNS = JUDGED_COLUMNS[:-3]
"""Header if stops are taken to be free."""
OLDER_COLUMNS = (COLUMNS[:-1], COLUMNS[:-2])
"""Headers of older versions, without columns that were added later, which are read as 0."""

LARGEST_COUNT = 2**63 - 1
"""Largest number of steps or episodes: a whole number that every table and figure can represent."""


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        document = _parse(path.read_text())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path.name} is not JSON ({error})") from error
    if not isinstance(document, dict):
        raise ValueError(f"{path.name} is not a JSON object")
    return document


def _parse(text: str) -> Any:
    """Parse standard JSON, without NaN and infinity."""
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _check_numbers(values: Mapping[str, Any]) -> None:
    """Raise `ValueError` if a value is neither a finite number nor null."""
    for name, value in values.items():
        if value is not None and (isinstance(value, bool) or not math.isfinite(value)):
            raise ValueError(f"{name} is {value!r}")
    _check_counts(values)


def _check_counts(values: Mapping[str, Any]) -> None:
    """Raise `ValueError` if a whole number is too large."""
    for name, value in values.items():
        if isinstance(value, int) and abs(value) > LARGEST_COUNT:
            raise ValueError(f"{name} is {float(value):g}, too large for a whole number")


def read_timing(path: Path) -> dict[str, Any]:
    """Read timing.json."""
    document = read_json(path)
    try:
        _check_numbers({name: document.get(name) for name in ("seconds", "steps", "steps_per_second")})
        if parts := document.get("seconds_in"):
            _check_numbers(dict(parts.items()))
            float(document["seconds"]), int(document["steps"]), *map(float, parts.values())
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path.name} is damaged ({type(error).__name__}: {error})") from error
    return document


def read_trajectories(path: Path) -> Trajectories:
    """Read trajectories.json; empty if there is none."""
    if not path.exists():
        return Trajectories()
    document = read_json(path)
    try:
        return Trajectories.from_json(document)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path.name} is damaged ({type(error).__name__}: {error})") from error


def read_metrics(path: Path) -> list[Mapping[str, Any]]:
    """Read the complete lines of metrics.jsonl."""
    lines = []
    for number, text in enumerate(whole_lines(path), start=1):
        try:
            lines.append(line := _parse(text))
            _check_numbers(dict(line))
            counted = ["steps", "violations"]
            if "coverage_rows" in line:
                float(line["delta"])
                counted += [f"coverage_{name}" for name in Coverage._fields]
            _check_counts({name: int(line[name]) for name in counted})
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ValueError(f"line {number} of {path.name} is damaged ({type(error).__name__}: {error})") from error
    return lines


def read_episodes(path: Path) -> list[Episode]:
    """Read episodes.csv."""
    lines = whole_lines(path)
    if not lines:
        return []
    try:
        header, *rows = csv.reader(lines)
    except csv.Error as error:
        raise ValueError(f"{path.name} is not a CSV file ({error})") from error
    if tuple(header) not in (JUDGED_COLUMNS, COLUMNS, *OLDER_COLUMNS):
        raise ValueError(f"{path.name} has the columns {', '.join(header)}; expected {', '.join(COLUMNS)}")
    kinds = get_type_hints(Episode).values()
    episodes = []
    for number, row in enumerate(rows, start=2):
        try:
            values = [kind(float(text)) for kind, text in zip(list(kinds)[: len(header)], row, strict=True)]
            _check_counts(dict(zip(header, values, strict=True)))
        except (ValueError, OverflowError) as error:
            raise ValueError(f"line {number} of {path.name} is damaged ({error})") from error
        episodes.append(Episode(*values))
    return episodes


def whole_lines(path: Path) -> list[str]:
    """The complete lines of a file."""
    if not path.exists():
        return []
    return [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
