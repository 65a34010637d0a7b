"""The run folder: what a run leaves behind, written here and read here, so that both sides agree.

config.json        the description, versions and command; written first
episodes.csv       a row for every episode, appended epoch by epoch
metrics.jsonl      a line for every epoch, appended after its episodes
trajectories.json  where robots went in the first and the last episodes, if the task tells; replaced every epoch
timing.json        how long it took and how it ended; apart, so that the rest is reproducible byte for byte
error.txt          the traceback of a run that failed
checkpoint.safexp  everything that is needed to go on, also to more steps than were asked for; replaced between epochs
agent.safexp       the agent, when the run finished
tensorboard/       events
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_type_hints

from safexp.core import files
from safexp.records.coverage import Coverage
from safexp.records.episodes import Episode
from safexp.runs.commit import UNKNOWN, current_commit, joined
from safexp.runs.config import RunConfig
from safexp.runs.summary import Summary, summarise
from safexp.runs.trajectories import Trajectories

CONFIG, METRICS, EPISODES, TIMING = "config.json", "metrics.jsonl", "episodes.csv", "timing.json"
TRAJECTORIES, ERROR, AGENT, TENSORBOARD = "trajectories.json", "error.txt", "agent.safexp", "tensorboard"
CHECKPOINT, LOCK = "checkpoint.safexp", ".lock"
COMMIT = "commit"
"""The entry of a run's versions that says which commits of safexp made it, where they are known."""

COLUMNS = tuple("return" if name == "true_return" else name for name in Episode._fields)
"""The header of episodes.csv, whose flags are 0 or 1, so that any tool can add them up."""
OLDER_COLUMNS = (COLUMNS[:-1], COLUMNS[:-2])
"""Headers without counts that were added later, which are 0 there."""

LARGEST_COUNT = 2**63 - 1
"""Of steps or episodes: a whole number that every table and figure can hold."""


TAIL = 4096
"""Bytes at the end of metrics.jsonl in which its last line is found."""


class RunFolderError(ValueError):
    """A run folder that cannot be made or read, and why."""


class RunFailedError(RuntimeError):
    """A run that ended with an exception, whose traceback its folder holds."""


@dataclass(frozen=True)
class Run:
    """A run as its folder tells it.

    `metrics` are the lines of metrics.jsonl; `timing` is empty while a run goes on, and for one that was killed.
    """

    path: Path
    config: RunConfig
    versions: Mapping[str, str]
    command: str
    episodes: list[Episode]
    metrics: list[Mapping[str, Any]]
    timing: Mapping[str, Any]
    trajectories: Trajectories

    @property
    def status(self) -> str:
        """How it ended: finished, interrupted, failed, or not at all."""
        return str(self.timing.get("status", "unfinished"))

    @cached_property
    def summary(self) -> Summary:
        """The run in numbers."""
        return summarise(self)


@dataclass(frozen=True)
class Description:
    """What a run folder says of its run without its results."""

    path: Path
    config: RunConfig
    versions: Mapping[str, str]
    command: str
    status: str


def refuse_existing(folder: Path) -> None:
    """Raise where something is there already."""
    if folder.exists() and not (folder / CONFIG).exists():
        raise RunFolderError(f"{folder} exists already, and holds no run: give another --out.")
    if folder.exists():
        raise RunFolderError(
            f"run folder {folder} exists already: go on with it by --resume, remove it, or give another one with --out."
        )


def folders_of(paths: Iterable[Path]) -> list[Path]:
    """These run folders, each once; of a folder of run folders those in it; of files beside run folders none."""
    given = list(dict.fromkeys(paths))
    found: dict[Path, None] = {}
    for path in given:
        inside = sorted(config.parent for config in path.glob(f"*/{CONFIG}")) if path.is_dir() else []
        found |= dict.fromkeys(inside if inside and not (path / CONFIG).exists() else [path])
    folders = [path for path in found if not path.is_file()]
    return folders or list(found)


def status(folder: Path) -> str:
    """How the run of a folder ended, if it is there and did."""
    path = folder / TIMING
    try:
        return str(_read_json(path).get("status", "unfinished")) if path.is_file() else "unfinished"
    except ValueError as error:
        raise RunFolderError(f"{path}: {error}; remove this file to go on with the run.") from error


def expect(folder: Path, config: RunConfig) -> Description:
    """What a folder says of its run, which must be of this settled description, or differ in having fewer steps alone.

    Raises:
        RunFolderError: where it is not.
    """
    run = read_description(folder)
    there, here = run.config.to_json(), config.to_json()
    differing = [name for name in here if there[name] != here[name]]
    if differing == ["steps"] and run.config.steps > config.steps:
        raise RunFolderError(
            f"run folder {folder} holds a run of {run.config.steps:,} steps, more than the {config.steps:,} asked for: "
            "ask for as many, or give another folder with --out."
        )
    if differing not in ([], ["steps"]):
        differs = ", ".join(f"{name} {there[name]!r}, not {here[name]!r}" for name in differing)
        raise RunFolderError(
            f"run folder {folder} holds a run of another description ({differs}): remove it, or give another one with "
            "--out."
        )
    return run


def begin(folder: Path, config: RunConfig, command: str) -> None:
    """Write the first files of a settled description's run into its folder, over those of a start that failed."""
    folder.mkdir(parents=True, exist_ok=True)
    describe(folder, config, command)
    (folder / EPISODES).write_text(_row(COLUMNS))
    (folder / METRICS).write_text("")


def describe(folder: Path, config: RunConfig, command: str, commits: str = "") -> None:
    """Write config.json, in place of the one before, whose `commits` are kept."""
    known = joined(commits, current_commit())
    made_with = versions() | ({COMMIT: known} if known not in ("", UNKNOWN) else {})
    write_json(folder / CONFIG, {"config": config.to_json(), "versions": made_with, "command": command})


def versions() -> dict[str, str]:
    """What a run's result depends on besides its description."""
    return {"python": platform.python_version(), **files.versions()}


def last_line(folder: Path) -> dict[str, Any]:
    """The newest whole line of a run's metrics; empty before there is one."""
    try:
        with (folder / METRICS).open("rb") as file:
            file.seek(0, 2)
            file.seek(max(file.tell() - TAIL, 0))
            lines = file.read().split(b"\n")[:-1]
        return dict(json.loads(lines[-1])) if lines else {}
    except (OSError, ValueError):
        return {}


def cut(path: Path, size: int) -> None:
    """Take away what a file holds after its first bytes."""
    if size < 0 or not path.exists() or path.stat().st_size < size:
        raise RunFolderError(f"{path} is shorter than its run's checkpoint says: remove the folder to start over.")
    with path.open("r+b") as file:
        file.truncate(size)


def append_episodes(folder: Path, episodes: Iterable[Episode]) -> None:
    """Add rows to episodes.csv."""
    rows = (_row([int(value) if isinstance(value, bool) else value for value in episode]) for episode in episodes)
    _append(folder / EPISODES, "".join(rows))


def append_metrics(folder: Path, line: Mapping[str, Any]) -> None:
    """Add a line to metrics.jsonl."""
    _append(folder / METRICS, json.dumps(line, allow_nan=False) + "\n")


def write_trajectories(folder: Path, trajectories: Trajectories) -> None:
    """Write trajectories.json, in place of the one before."""
    files.write_bytes(folder / TRAJECTORIES, (json.dumps(trajectories.to_json(), allow_nan=False) + "\n").encode())


def write_json(path: Path, document: Any) -> None:
    """Write a JSON file whole or not at all."""
    files.write_bytes(path, (json.dumps(document, indent=2, allow_nan=False) + "\n").encode())


def read(folder: Path) -> Run:
    """A run, also one that is still going on: a last line that is not whole yet is left out.

    Raises:
        RunFolderError: where this is not a run folder, or something in it cannot be read.
    """
    with _told(folder):
        config, versions, command = _read_config(folder)
        return Run(
            path=folder,
            config=config,
            versions=versions,
            command=command,
            episodes=read_episodes(folder / EPISODES),
            metrics=_read_metrics(folder / METRICS),
            timing=_read_timing(folder / TIMING) if (folder / TIMING).exists() else {},
            trajectories=_read_trajectories(folder / TRAJECTORIES),
        )


def read_description(folder: Path) -> Description:
    """What a run folder says of its run without its results.

    Raises:
        RunFolderError: where this is not a run folder, or that cannot be read.
    """
    with _told(folder):
        return Description(folder, *_read_config(folder), status(folder))


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Say why a folder cannot be read as a run."""
    if not folder.is_dir():
        raise RunFolderError(f"{folder} is not a folder." if folder.exists() else f"{folder} does not exist.")
    if not (folder / CONFIG).is_file():
        raise RunFolderError(f"{folder} has no {CONFIG}: it is not a run folder, or its run never began.")
    try:
        yield
    except RunFolderError:
        raise
    except KeyError as error:
        raise RunFolderError(f"{folder}/{CONFIG} has no entry {error}: it is not one of safexp's.") from error
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError, OSError) as error:
        raise RunFolderError(f"{folder} cannot be read as a run: {error}") from error


def _read_config(folder: Path) -> tuple[RunConfig, dict[str, str], str]:
    document = _read_json(folder / CONFIG)
    config = RunConfig.from_json(document["config"], out=folder)
    versions = {str(name): str(version) for name, version in dict(document["versions"]).items()}
    return config, versions, str(document["command"])


def _read_json(path: Path) -> dict[str, Any]:
    try:
        document = _parse(path.read_text())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path.name} is not JSON ({error})") from error
    if not isinstance(document, dict):
        raise ValueError(f"{path.name} holds no JSON object")
    return document


def _parse(text: str) -> Any:
    """JSON as its standard has it: without NaN and infinity."""
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _check_numbers(values: Mapping[str, Any]) -> None:
    """Raise where one of these is neither a finite number nor null."""
    for name, value in values.items():
        if value is not None and (isinstance(value, bool) or not math.isfinite(value)):
            raise ValueError(f"{name} is {value!r}")
    _check_counts(values)


def _check_counts(values: Mapping[str, Any]) -> None:
    """Raise where one of these is a whole number beyond what can be counted to."""
    for name, value in values.items():
        if isinstance(value, int) and abs(value) > LARGEST_COUNT:
            raise ValueError(f"{name} is {float(value):g}, too large for a whole number")


def _read_timing(path: Path) -> dict[str, Any]:
    document = _read_json(path)
    try:
        _check_numbers({name: document.get(name) for name in ("seconds", "steps", "steps_per_second")})
        if parts := document.get("seconds_in"):
            _check_numbers(dict(parts.items()))
            float(document["seconds"]), int(document["steps"]), *map(float, parts.values())
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path.name} is damaged ({type(error).__name__}: {error})") from error
    return document


def _read_trajectories(path: Path) -> Trajectories:
    if not path.exists():
        return Trajectories()
    document = _read_json(path)
    try:
        return Trajectories.from_json(document)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path.name} is damaged ({type(error).__name__}: {error})") from error


def _read_metrics(path: Path) -> list[Mapping[str, Any]]:
    lines = []
    for number, text in enumerate(_whole_lines(path), start=1):
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
    """The episodes of an episodes.csv."""
    lines = _whole_lines(path)
    if not lines:
        return []
    try:
        header, *rows = csv.reader(lines)
    except csv.Error as error:
        raise ValueError(f"{path.name} is no CSV file ({error})") from error
    if tuple(header) not in (COLUMNS, *OLDER_COLUMNS):
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


def _whole_lines(path: Path) -> list[str]:
    """The lines that were written to their ends."""
    if not path.exists():
        return []
    return [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def _row(values: Iterable[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()


def _append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())  # a checkpoint that outlives a power cut relies on it
