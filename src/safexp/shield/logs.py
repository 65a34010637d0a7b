"""Logged transitions as a user has them: arrays in memory, or a CSV, Parquet or npz file."""

from __future__ import annotations

import csv
import logging
import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from safexp.core.arrays import Array, Observations
from safexp.core.encoding import encode_actions, encode_observations
from safexp.core.extras import needed_for
from safexp.quantifiers.base import Transitions

ARRAYS = ("states", "actions", "costs", "margins", "episodes", "next_states")
"""Array names of a .npz file that do not denote signals."""

ZIP = (zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, struct.error, lzma.LZMAError)
"""Exceptions that damaged archives raise."""

LARGEST_RATIO, ALWAYS = 100, 1 << 26
"""Largest allowed ratio of unpacked to packed size, and the size in bytes below which any ratio is allowed."""

HEADER = (
    "s0, s1, … for the states, a0, a1, … for the actions, optionally n0, n1, … for the states after each step, cost "
    "(or cost0, cost1, …), margin, episode, and signals under names of your own"
)


logger = logging.getLogger("safexp")


class Log(NamedTuple):
    """Logged transitions as the user has them: steps in order, one episode after another.

    The log must contain what the constraint reads: `costs` for a limit on costs, `signals` or the observations for
    `Within`. The value after a step of a signal that is an entry of the observation is taken from `next_observations`
    or, without them, from the next step of the same episode.

    If a shield refuses the log, `examine` names the rows or columns at fault.

    Attributes:
        observations: batch (n, ...) of the environment's observations before each step.
        actions: executed actions (n, ...).
        costs: cost of each step, (n,) or (n, K).
        margins: signed distances (n,) to a limit after each step.
        episodes: episode number of each step (n,), integers.
        signals: measured values (n,) after each step, by name.
        next_observations: observations (n, ...) after each step.

    Example:
        >>> log = safexp.Log(np.zeros((4, 2)), np.ones((4, 1)), costs=np.zeros(4), episodes=np.array([0, 0, 1, 1]))
        >>> log.actions.shape
        (4, 1)
    """

    observations: Observations
    actions: NDArray[Any]
    costs: NDArray[Any] | None = None
    margins: NDArray[Any] | None = None
    episodes: NDArray[Any] | None = None
    signals: Mapping[str, NDArray[Any]] | None = None
    next_observations: Observations = None


def encode_log(log: Log, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> Transitions:
    """Encode logged transitions for a quantifier; raises `ValueError` if they do not fit the spaces."""
    if log.costs is None and log.margins is not None:
        log = log._replace(costs=(np.asarray(log.margins) < 0).astype(np.float64))
    if log.costs is None:
        raise ValueError(
            "the log has no costs to learn: give Log(..., costs=...), or a constraint that reads its signals."
        )
    transitions = Transitions(
        encode_observations(observation_space, log.observations),
        encode_actions(action_space, np.asarray(log.actions)),
        np.asarray(log.costs, dtype=np.float64),
        None if log.margins is None else np.asarray(log.margins, dtype=np.float64),
        None if log.episodes is None else np.asarray(log.episodes, dtype=np.int64),
    )
    _warn_of_clipped(np.asarray(log.actions), transitions.actions, action_space)
    lengths = {name: len(part) for name, part in zip(Log._fields, transitions, strict=False) if part is not None}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"logged transitions have different lengths: {lengths}.")
    costs = transitions.costs
    if costs.ndim not in (1, 2) or not np.all(np.isfinite(transitions.actions)):
        raise ValueError(
            f"logged costs have shape {costs.shape}, expected (n,) or (n, K), and actions must be finite numbers."
        )
    wrong = np.flatnonzero(~((costs >= 0) & (costs <= 1)).reshape(len(costs), -1).all(axis=1))
    if wrong.size:
        raise ValueError(
            f"logged costs must lie in [0, 1], but transition {wrong[0]} (line {wrong[0] + 2} of a CSV file) has "
            f"{costs[wrong[0]]} ({wrong.size} such transitions in all): divide by the largest possible cost."
        )
    return transitions


def _warn_of_clipped(given: NDArray[Any], encoded: Array, space: spaces.Space[Any]) -> None:
    if isinstance(space, spaces.Box):
        same = given.astype(space.dtype).reshape(encoded.shape) == encoded
        if outside := int((~same).any(axis=1).sum()):
            share = f"{outside:,} of {len(encoded):,} logged actions lie outside {space}"
            logger.warning("%s and are clipped to the nearest ones inside: are they in other units?", share)


def read_log(path: str | Path, *, finite: bool = True) -> Log:
    """Read a logged data set: a .csv or .parquet file with one row per step, or a .npz file of arrays.

    Columns are s0, s1, … (the state before the step), a0, a1, … (the action), n0, n1, … (the state after it, optional),
    cost (or cost0, cost1, …), margin and episode; any other column is a signal after the step, under its own name. A
    .npz file has the arrays `states`, `actions`, `next_states`, `costs`, `margins`, `episodes`, and signals likewise.
    Nothing in a file is ever unpickled.

    With `finite=False`, `examine` can report where values are missing.

    Args:
        path: the file.
        finite: refuse missing or infinite values; if False, they are kept as NaN or infinity, for checks that look for
            them.

    Raises:
        ValueError: if a column is missing or a value is not a finite number, with the place in the file.

    Example:
        >>> rows = [[0.1, 0.5, 0.0, 0], [0.6, 0.2, 0.3, 0]]
        >>> np.savetxt("log.csv", rows, delimiter=",", header="s0,a0,cost,episode", comments="")
        >>> log = safexp.read_log("log.csv")
        >>> log.observations.shape, log.costs
        ((2, 1), array([0. , 0.3]))
    """
    path = Path(path)
    readers: dict[str, Callable[[Path, bool], Log]] = {".csv": _read_csv, ".parquet": _read_parquet, ".npz": _read_npz}
    if path.suffix not in readers:
        raise ValueError(f"{path} is not a readable log: expected one of {', '.join(readers)}.")
    if not path.is_file():
        raise ValueError(f"{path} is not a file.")
    return readers[path.suffix](path, finite)


def signal_names(log: Log) -> list[str]:
    """Signals of a log that `Within` can limit: those with names, and the entries of its observations."""
    named = [*(log.signals or {}), *(name for name in ("margins", "costs") if getattr(log, name) is not None)]
    named = [{"margins": "margin", "costs": "cost"}.get(name, name) for name in named]
    if isinstance(log.observations, dict):
        return [*named, *log.observations]
    size = int(np.prod(np.shape(log.observations)[1:]))
    return [*named, f"observation entries 0 to {size - 1}"]


def _read_csv(path: Path, finite: bool) -> Log:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:  # spreadsheets write a byte order mark
            header, *rows = list(csv.reader(file)) or [[]]
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read as a CSV file: {error}") from error
    if len(header) == 1 and ";" in header[0]:
        raise ValueError(f"{path} separates its columns with semicolons; expected commas.")
    for line, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise ValueError(f"line {line} of {path} has {len(row)} values for {len(header)} columns.")
    if not finite:
        rows = [[text.strip() or "nan" for text in row] for row in rows]
    try:
        table = np.array(rows, dtype=np.float64).reshape(len(rows), len(header))
    except ValueError:
        line, column = next(
            (line, k) for line, row in enumerate(rows, start=2) for k, text in enumerate(row) if not _is_number(text)
        )
        raise ValueError(
            f"line {line} of {path}: {header[column]} is {rows[line - 2][column]!r}, expected a number."
        ) from None
    return _from_columns(path, [name.strip() for name in header], table, 2, finite)


def _read_parquet(path: Path, finite: bool) -> Log:
    with needed_for(f"reading {path}", instead=", or save the log as .csv or .npz"):
        from pyarrow import ArrowException, parquet
    try:
        about = parquet.read_metadata(path)
        _check_size(path, 8 * about.num_rows * about.num_columns)
        table = parquet.read_table(path)
        columns = [table[name].to_numpy().astype(np.float64) for name in table.column_names]
    except (ArrowException, ValueError, TypeError, OSError) as error:
        raise ValueError(f"{path} cannot be read as a table of numbers: {error}") from error
    return _from_columns(path, table.column_names, np.stack(columns, axis=1), 0, finite)


def _read_npz(path: Path, finite: bool) -> Log:
    try:
        with zipfile.ZipFile(path) as archive:
            _check_size(path, sum(part.file_size for part in archive.infolist()))
        with np.load(path, allow_pickle=False) as file:
            parts = {name: file[name] for name in file.files}
    except (ValueError, OSError, LookupError, EOFError, ArithmeticError, RuntimeError, MemoryError, *ZIP) as error:
        raise ValueError(f"{path} cannot be read as arrays of numbers, without pickled objects: {error}") from error
    for name, part in parts.items():
        if part.dtype.kind not in "iuf" or not part.ndim:
            raise ValueError(f"{path}: {name} are {part.dtype} of shape {part.shape}, expected rows of numbers.")
        if finite:
            _check_finite(path, name, part.reshape(len(part), -1), "row", 0)
    signals = {name: part for name, part in parts.items() if name not in ARRAYS}
    for name, part in signals.items():
        if part.ndim != 1:
            raise ValueError(f"{path}: the signal {name} has shape {part.shape}, expected (n,).")
    return _assembled(path, parts, signals)


def _check_size(path: Path, unpacked: int) -> None:
    """Raise if unpacking would need more memory than arrays of numbers in a file of this size should."""
    if unpacked > max(LARGEST_RATIO * path.stat().st_size, ALWAYS):
        raise ValueError(
            f"it would unpack to {unpacked:,} bytes, over {LARGEST_RATIO} times its size: save it without compression"
        )


def _from_columns(path: Path, header: Sequence[str], table: Array, first_line: int, finite: bool) -> Log:
    """Log from a table (n, columns) with these column names; rows are counted from `first_line`."""
    if header and all(_is_number(name) for name in header):
        raise ValueError(f"{path} starts with numbers, not with column names; expected {HEADER}.")
    if len(set(header)) != len(header):
        raise ValueError(f"{path} has a duplicate column: {', '.join(header)}.")
    for column, name in enumerate(header if finite else ()):
        _check_finite(path, name, table[:, column : column + 1], "line" if first_line else "row", first_line)

    def numbered(prefix: str) -> Array | None:
        count = sum(bool(re.fullmatch(rf"{prefix}\d+", name)) for name in header)
        missing = [f"{prefix}{k}" for k in range(count) if f"{prefix}{k}" not in header]
        if missing:
            raise ValueError(f"{path} has {count} columns {prefix}…, but no {missing[0]}: number them from 0.")
        return table[:, [header.index(f"{prefix}{k}") for k in range(count)]] if count else None

    def single(name: str) -> Array | None:
        return table[:, header.index(name)] if name in header else None

    parts = {
        "states": numbered("s"),
        "actions": numbered("a"),
        "costs": single("cost") if "cost" in header else numbered("cost"),
        "margins": single("margin"),
        "episodes": single("episode"),
        "next_states": numbered("n"),
    }
    signals = {
        name: table[:, column]
        for column, name in enumerate(header)
        if not re.fullmatch(r"[san]\d+|cost\d*|margin|episode", name)
    }
    return _assembled(path, {name: part for name, part in parts.items() if part is not None}, signals)


def _assembled(path: Path, parts: Mapping[str, NDArray[Any]], signals: Mapping[str, NDArray[Any]]) -> Log:
    if missing := [name for name in ("states", "actions") if name not in parts]:
        named = f" (it has {', '.join(signals)})" if signals else ""
        raise ValueError(
            f"{path} has no {', '.join(missing)}{named}; expected {HEADER}, or those arrays in a .npz file."
        )
    states = parts["states"]
    if not len(states):
        raise ValueError(f"{path} has no transitions.")
    following = parts.get("next_states")
    if following is not None and following.shape != states.shape:
        raise ValueError(f"{path}: states have shape {states.shape}, but those after each step {following.shape}.")
    return Log(
        states,
        parts["actions"],
        parts.get("costs"),
        margins=parts.get("margins"),
        episodes=parts.get("episodes"),
        signals=signals or None,
        next_observations=following,
    )


def _check_finite(path: Path, name: str, values: NDArray[Any], unit: str, first: int) -> None:
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if bad.size:
        value = values[bad[0]][~np.isfinite(values[bad[0]])][0]
        raise ValueError(f"{unit} {bad[0] + first} of {path}: {name} is {value}, expected a finite number.")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
