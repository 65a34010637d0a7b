"""The run folder: all reading and writing of its files.

config.json        settings, versions and command; written first
episodes.csv       a row for every episode, appended epoch by epoch
metrics.jsonl      a line for every epoch, appended after its episodes
trajectories.json  paths of robots in the first and the last episodes, if the task shows them; replaced every epoch
timing.json        duration and status; separate, so that the rest is reproducible byte for byte
error.txt          traceback of a failed run
checkpoint.safexp  everything needed to resume or extend the run; replaced between epochs
agent.safexp       the agent of a finished run
tensorboard/       events
"""

from __future__ import annotations

import csv
import io
import json
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from safexp.core import files
from safexp.records.episodes import Episode
from safexp.runs.commit import UNKNOWN, current_commit, joined
from safexp.runs.config import RunConfig
from safexp.runs.parsing import (
    COLUMNS,
    JUDGED_COLUMNS,
    read_episodes,
    read_json,
    read_metrics,
    read_timing,
    read_trajectories,
)
from safexp.runs.summary import Summary, summarise
from safexp.runs.trajectories import Trajectories

CONFIG, METRICS, EPISODES, TIMING = "config.json", "metrics.jsonl", "episodes.csv", "timing.json"
TRAJECTORIES, ERROR, AGENT, TENSORBOARD = "trajectories.json", "error.txt", "agent.safexp", "tensorboard"
CHECKPOINT, LOCK = "checkpoint.safexp", ".lock"
COMMIT = "commit"
"""Entry of a run's versions with the commits of safexp that made it, if known."""

TAIL = 4096
"""Number of bytes at the end of metrics.jsonl that contain its last line."""


class RunFolderError(ValueError):
    """Error for a run folder that cannot be created or read; the message says why.

    Example:
        >>> try:
        ...     frame = safexp.read_runs("nowhere")
        ... except safexp.RunFolderError as error:
        ...     print(error)
        nowhere does not exist.
    """


class RunFailedError(RuntimeError):
    """Error for a run that ended with an exception; the traceback is in its folder.

    Fix the cause and call `run(config, resume=True)`: finished epochs are kept.

    Example:
        >>> try:
        ...     folder = safexp.run(safexp.RunConfig(steps=64, num_envs=4, cost="missing", out=Path("runs/failing")))
        ... except safexp.RunFailedError as error:
        ...     print(str(error).partition(" (")[0])
        the run failed: KeyError: environment 0 gave no info['missing']
    """


@dataclass(frozen=True)
class Run:
    """A run, read from its folder.

    `metrics` are the lines of metrics.jsonl; `timing` is empty while a run is in progress, or if it was killed.
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
        """Status of the run: finished, interrupted, failed, or unfinished."""
        return str(self.timing.get("status", "unfinished"))

    @cached_property
    def summary(self) -> Summary:
        """Summary of the run."""
        return summarise(self)


@dataclass(frozen=True)
class Description:
    """Settings and status of a run, without its results."""

    path: Path
    config: RunConfig
    versions: Mapping[str, str]
    command: str
    status: str


def refuse_existing(folder: Path) -> None:
    """Raise `RunFolderError` if the folder exists."""
    if folder.exists() and not (folder / CONFIG).exists():
        raise RunFolderError(f"{folder} exists already and is not a run folder: give another --out.")
    if folder.exists():
        raise RunFolderError(
            f"run folder {folder} exists already: continue it with --resume, remove it, or give another --out."
        )


def folders_of(paths: Iterable[Path]) -> list[Path]:
    """Run folders among these paths and directly inside them, each once; files are skipped."""
    given = list(dict.fromkeys(paths))
    found: dict[Path, None] = {}
    for path in given:
        inside = sorted(config.parent for config in path.glob(f"*/{CONFIG}")) if path.is_dir() else []
        found |= dict.fromkeys(inside if inside and not (path / CONFIG).exists() else [path])
    folders = [path for path in found if not path.is_file()]
    return folders or list(found)


def status(folder: Path) -> str:
    """Status of the run in a folder, "unfinished" if there is none."""
    path = folder / TIMING
    try:
        return str(read_json(path).get("status", "unfinished")) if path.is_file() else "unfinished"
    except ValueError as error:
        raise RunFolderError(f"{path}: {error}; remove this file to continue the run.") from error


def expect(folder: Path, config: RunConfig) -> Description:
    """Read the settings of a folder and check that they equal these complete settings, except for fewer steps.

    Raises:
        RunFolderError: if they differ.
    """
    run = read_description(folder)
    there, here = run.config.to_json(), config.to_json()
    differing = [name for name in here if there[name] != here[name]]
    if differing == ["steps"] and run.config.steps > config.steps:
        raise RunFolderError(
            f"run folder {folder} holds a run of {run.config.steps:,} steps, more than the requested "
            f"{config.steps:,}: request as many, or give another folder with --out."
        )
    if differing not in ([], ["steps"]):
        differs = ", ".join(f"{name} {there[name]!r}, not {here[name]!r}" for name in differing)
        raise RunFolderError(
            f"run folder {folder} holds a run with other settings ({differs}): remove it, or give another one with "
            "--out."
        )
    return run


def begin(folder: Path, config: RunConfig, command: str, judges_stops: bool = False) -> None:
    """Write the first files of a run into its folder, over those of a failed start."""
    folder.mkdir(parents=True, exist_ok=True)
    describe(folder, config, command)
    (folder / EPISODES).write_text(_row(JUDGED_COLUMNS if judges_stops else COLUMNS))
    (folder / METRICS).write_text("")


def describe(folder: Path, config: RunConfig, command: str, commits: str = "") -> None:
    """Write config.json, replacing an earlier one, whose `commits` are kept."""
    known = joined(commits, current_commit())
    made_with = versions() | ({COMMIT: known} if known not in ("", UNKNOWN) else {})
    write_json(folder / CONFIG, {"config": config.to_json(), "versions": made_with, "command": command})


def versions() -> dict[str, str]:
    """Versions that a run's result depends on besides its settings."""
    return {"python": platform.python_version(), **files.versions()}


def last_line(folder: Path) -> dict[str, Any]:
    """The last complete line of a run's metrics; empty before there is one."""
    try:
        with (folder / METRICS).open("rb") as file:
            file.seek(0, 2)
            file.seek(max(file.tell() - TAIL, 0))
            lines = file.read().split(b"\n")[:-1]
        return dict(json.loads(lines[-1])) if lines else {}
    except (OSError, ValueError):
        return {}


def cut(path: Path, size: int) -> None:
    """Truncate a file to its first `size` bytes."""
    if size < 0 or not path.exists() or path.stat().st_size < size:
        raise RunFolderError(f"{path} is shorter than the checkpoint of its run: remove the folder to start over.")
    with path.open("r+b") as file:
        file.truncate(size)


def append_episodes(folder: Path, episodes: Iterable[Episode], judges_stops: bool = False) -> None:
    """Append rows to episodes.csv."""
    written = len(JUDGED_COLUMNS if judges_stops else COLUMNS)
    rows = ([int(value) if isinstance(value, bool) else value for value in episode[:written]] for episode in episodes)
    _append(folder / EPISODES, "".join(map(_row, rows)))


def append_metrics(folder: Path, line: Mapping[str, Any]) -> None:
    """Append a line to metrics.jsonl."""
    _append(folder / METRICS, json.dumps(line, allow_nan=False) + "\n")


def write_trajectories(folder: Path, trajectories: Trajectories) -> None:
    """Write trajectories.json, replacing an earlier one."""
    files.write_bytes(folder / TRAJECTORIES, (json.dumps(trajectories.to_json(), allow_nan=False) + "\n").encode())


def write_json(path: Path, document: Any) -> None:
    """Write a JSON file atomically."""
    files.write_bytes(path, (json.dumps(document, indent=2, allow_nan=False) + "\n").encode())


def read(folder: Path) -> Run:
    """Read a run, finished or in progress: an incomplete last line is skipped.

    Raises:
        RunFolderError: if this is not a run folder, or a file in it cannot be read.
    """
    with _told(folder):
        config, versions, command = _read_config(folder)
        return Run(
            path=folder,
            config=config,
            versions=versions,
            command=command,
            episodes=read_episodes(folder / EPISODES),
            metrics=read_metrics(folder / METRICS),
            timing=read_timing(folder / TIMING) if (folder / TIMING).exists() else {},
            trajectories=read_trajectories(folder / TRAJECTORIES),
        )


def read_description(folder: Path) -> Description:
    """Read the settings and status of a run, without its results.

    Raises:
        RunFolderError: if this is not a run folder, or they cannot be read.
    """
    with _told(folder):
        return Description(folder, *_read_config(folder), status(folder))


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Context that turns errors into a `RunFolderError` with the reason."""
    if not folder.is_dir():
        raise RunFolderError(f"{folder} is not a folder." if folder.exists() else f"{folder} does not exist.")
    if not (folder / CONFIG).is_file():
        raise RunFolderError(f"{folder} has no {CONFIG}: it is not a run folder, or its run never started.")
    try:
        yield
    except RunFolderError:
        raise
    except KeyError as error:
        raise RunFolderError(f"{folder}/{CONFIG} has no entry {error}: safexp did not write it.") from error
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError, OSError) as error:
        raise RunFolderError(f"{folder} cannot be read as a run: {error}") from error


def _read_config(folder: Path) -> tuple[RunConfig, dict[str, str], str]:
    document = read_json(folder / CONFIG)
    config = RunConfig.from_json(document["config"], out=folder)
    versions = {str(name): str(version) for name, version in dict(document["versions"]).items()}
    return config, versions, str(document["command"])


def _row(values: Iterable[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()


def _append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())  # a checkpoint must not survive a power failure without it
