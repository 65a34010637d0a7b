"""Fuzzing of every kind of file that safexp reads: it must be read, or rejected with a clear error.

The files are those of a finished and of an interrupted run. Half of the inputs are damaged bytes; the others are intact
files of the right format, including the digest, with invalid content.
"""

from __future__ import annotations

import csv
import io
import resource
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from faults.damage import Rng, damage_arrays, damage_bytes, damage_csv, damage_json, damage_value, quiet
from safexp.core import files
from safexp.mase.mase import MASE
from safexp.report.html import render
from safexp.runs import folder as run_folder
from safexp.runs import resume
from safexp.runs.build import build
from safexp.runs.config import RunConfig
from safexp.runs.run import Clock, EpochWriter, run
from safexp.shield.logs import ARRAYS, encode_log, read_log
from safexp.tasks.planar_robot import OBSERVATION_SPACE, action_space, cautious_log

CONFIG = RunConfig(
    quantifier="sparse-gp",
    quantifier_options={"num_inducing": 8, "first_steps": 5, "steps": 2, "capacity": 64},
    learner_options={"n_steps": 32, "batch_size": 64, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}},
    num_envs=4,
    steps=384,
)
"""A run of three epochs, which takes a second."""

BOMB = 10_000_000
"""Number of zeros that a file of a few kilobytes unpacks to."""

REUSED = 50
"""Number of checkpoints restored into one run before it is rebuilt."""

RENDERED = 20
"""Interval of the readable folders for which a report is written, which takes a while."""


Read = Callable[[Path], Any]
Strange = Callable[[bytes, Rng], bytes]


class Format(NamedTuple):
    """A kind of file: an intact one, how to read it, and how to make an intact one with invalid content."""

    path: Path
    content: bytes
    read: Read
    strange: Strange


def prepare(folder: Path) -> list[str]:
    """Write every kind of file into a folder, and return their names."""
    run(_at(folder / "finished"))
    config = _at(folder / "unfinished").settled()
    agent = build(config)
    config.folder.mkdir()
    run_folder.begin(config.folder, config, config.command())
    writer = EpochWriter(agent, config.folder, None)
    saver = resume.Checkpoints({"agent": agent}, config.folder, Clock(), None)

    def write(last: bool) -> None:
        writer.write()
        if not last:
            saver.epoch_over()

    agent.on_epoch(write)
    agent.learn(config.steps, saver)
    _write_logs(folder)
    return list(formats(folder))


def formats(folder: Path) -> dict[str, Format]:
    """Every kind of file in a folder that was prepared."""
    finished, unfinished = folder / "finished", folder / "unfinished"
    read_folder = _FolderReader()
    kinds: list[tuple[Path, Read, Strange]] = [
        (finished / run_folder.AGENT, _use_agent, _StrangeFile(finished / run_folder.AGENT, files.FORMAT)),
        (finished / run_folder.CONFIG, read_folder, damage_json),
        (finished / run_folder.METRICS, read_folder, damage_json),
        (finished / run_folder.TRAJECTORIES, read_folder, damage_json),
        (finished / run_folder.TIMING, read_folder, damage_json),
        (finished / run_folder.EPISODES, read_folder, damage_csv),
        (point := unfinished / run_folder.CHECKPOINT, _Resumer(), _StrangeFile(point, resume.FORMAT)),
        (folder / "log.csv", _use_log, damage_csv),
        (folder / "log.npz", _use_log, _strange_npz),
        (folder / "log.parquet", _use_log, damage_bytes),
    ]
    return {path.name: Format(path, path.read_bytes(), read, strange) for path, read, strange in kinds if path.exists()}


def fuzz(folder: Path, name: str, inputs: int, seed: int) -> dict[str, Any]:
    """Damage a file `inputs` times; `wrong` counts inputs that were neither accepted nor cleanly rejected."""
    kind, rng = formats(folder)[name], np.random.default_rng(seed)
    counts = {"accepted": 0, "refused": 0, "wrong": 0}
    slowest, before, example = 0.0, _peak_memory(), ""
    with quiet():
        for number in range(inputs):
            kind.path.write_bytes((damage_bytes if number % 2 else kind.strange)(kind.content, rng))
            began = time.process_time()
            try:
                kind.read(kind.path)
                counts["accepted"] += 1
            except ValueError as error:
                counts["refused" if str(error) else "wrong"] += 1
            except Exception as error:  # what a user would see as a traceback
                counts["wrong"] += 1
                example = example or f"; input {number}: {type(error).__name__}: {error}"[:300]
            slowest = max(slowest, time.process_time() - began)
    kind.path.write_bytes(kind.content)
    note = f"slowest {1000 * slowest:.0f} ms, memory +{_peak_memory() - before:.0f} MB{example}"
    return {"what": f"damaged {name}", "tried": inputs, **counts, "note": note}


class _FolderReader:
    """Reads a run folder, and at intervals writes a report from it."""

    def __init__(self) -> None:
        self._read = 0

    def __call__(self, path: Path) -> None:
        found = run_folder.read(path.parent)
        self._read += 1
        if self._read % RENDERED == 1:
            render([found])


class _Resumer:
    """Restores a checkpoint into a run that is rebuilt at intervals."""

    def __init__(self) -> None:
        self._uses = 0
        self._agent: Any = None

    def __call__(self, path: Path) -> None:
        point = resume.read(path.parent)
        if self._uses % REUSED == 0:
            self._agent = build(CONFIG.settled())
        self._uses += 1
        resume.Checkpoints({"agent": self._agent}, path.parent, Clock(), None).restore(point)


class _StrangeFile:
    """Makes intact files of a format, including the digest, with invalid content."""

    def __init__(self, path: Path, form: str) -> None:
        self._form = form
        self._whole = files.read(path, form)

    def __call__(self, content: bytes, rng: Rng) -> bytes:
        document, arrays = self._whole
        if rng.random() < 0.6:
            document = damage_value(document, rng)
        else:
            arrays = damage_arrays(arrays, rng)
        return files.pack(document, arrays, self._form)


def _use_agent(path: Path) -> None:
    MASE.load(path).shield.filter(np.zeros(4), np.zeros(2), 0.5)


def _use_log(path: Path) -> None:
    encode_log(read_log(path), OBSERVATION_SPACE, action_space(discrete=False))


def _strange_npz(content: bytes, rng: Rng) -> bytes:
    with np.load(io.BytesIO(content)) as file:
        parts: dict[str, Any] = damage_arrays({name: file[name] for name in file.files}, rng)
    match int(rng.integers(200)):
        case 0:
            parts["episodes"] = np.zeros(BOMB)
            compressed = True
        case 1:
            parts["costs"] = np.array([{}], dtype=object)
            compressed = False
        case 2:
            parts["../../states"] = parts.pop("states", np.zeros(3))
            compressed = False
        case other:
            compressed = other % 2 == 0
    text = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(text, **parts)
    return text.getvalue()


def _write_logs(folder: Path) -> None:
    log = cautious_log(1, np.random.default_rng(0))
    given = (log.observations, log.actions, log.costs, log.margins, log.episodes)
    np.savez(folder / "log.npz", **{name: part[:40] for name, part in zip(ARRAYS, given, strict=False)})
    header = [*(f"s{k}" for k in range(4)), "a0", "a1", "cost", "margin", "episode"]
    columns = [*log.observations.T, *log.actions.T, log.costs, log.margins, log.episodes]
    rows = np.stack(columns, axis=1)[:40]
    with (folder / "log.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows.tolist()])
    if find_spec("pyarrow") is not None:
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.table(dict(zip(header, rows.T, strict=True))), folder / "log.parquet")


def _at(folder: Path) -> RunConfig:
    return RunConfig(**{**CONFIG.to_json(), "out": folder})


def _peak_memory() -> float:
    """Peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
