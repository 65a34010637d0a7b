"""Resuming a run from its last checkpoint, with the same result as without the interruption.

A checkpoint is taken between two epochs, when the learner starts to collect, and restored at the same moment of a newly
built learner: nothing that either of them did before matters.

A finished run keeps the checkpoint from before its last epoch. When extended to more steps, it continues from there,
repeats that epoch, in full if it had been truncated, and ends like a run that was longer from the start.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import FloatSchedule, LinearSchedule

from safexp.core import files
from safexp.core.files import Arrays, CheckpointError, Document
from safexp.runs import folder as run_folder
from safexp.runs import snapshot
from safexp.runs.commit import UNKNOWN
from safexp.runs.config import RunConfig
from safexp.runs.parsing import read_episodes

log = logging.getLogger("safexp")

FORMAT = "safexp checkpoint 1"
SHARE = 0.05
"""Largest share of a run's time that is spent on checkpoints."""


@dataclass(frozen=True)
class Checkpoint:
    """State of a run: sizes of its files in bytes, seconds so far, and the state of all its parts."""

    sizes: dict[str, int]
    seconds: float
    state: Document
    arrays: Arrays


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a run folder against other processes; the lock is released when the process ends in any way.

    Raises:
        RunFolderError: if another process holds the lock.
    """
    lock = FileLock(folder / run_folder.LOCK, blocking=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise run_folder.RunFolderError(f"another process is working on run folder {folder}.") from error
    try:
        yield
    finally:
        lock.release()


def prepare(folder: Path, config: RunConfig, command: str, judges_stops: bool = False) -> Checkpoint | None:
    """Prepare a locked folder for resuming: everything after its last checkpoint is removed; None means a new start.

    Raises:
        RunFolderError: if the folder holds another run, or one that was started with other versions of safexp or torch.
    """
    run: run_folder.Description | None = None
    if (folder / run_folder.CONFIG).exists():
        run_folder.read(folder)  # raises if its results are damaged
        run = run_folder.expect(folder, config)
        then = {name: version for name, version in run.versions.items() if name != run_folder.COMMIT}
        now = run_folder.versions()
        if (folder / run_folder.CHECKPOINT).exists() and then != now:
            names = [name for name in sorted(then.keys() | now.keys()) if then.get(name) != now.get(name)]
            changed = ", ".join(f"{name} {then.get(name)} → {now.get(name)}" for name in names)
            raise run_folder.RunFolderError(
                f"run folder {folder} was started with other versions ({changed}) and would not give the same result: "
                "install those, or remove the folder to start over."
            )
    elif foreign := [path.name for path in folder.iterdir() if not path.name.startswith(".")]:
        some = ", ".join(sorted(foreign)[:3])
        raise run_folder.RunFolderError(f"{folder} holds {some} but no run: give another --out.")
    for name in (run_folder.TIMING, run_folder.ERROR, run_folder.AGENT):
        (folder / name).unlink(missing_ok=True)
    for half in files.halves(folder):  # left by a process killed while writing; the lock is ours
        half.unlink()
    point = read(folder) if (folder / run_folder.CHECKPOINT).exists() else None
    if point is None or run is None:
        run_folder.begin(folder, config, command, judges_stops)
    else:
        longer = run.config.steps < config.steps
        commits = run.versions.get(run_folder.COMMIT, UNKNOWN)
        run_folder.describe(folder, config, command if longer else run.command, commits)
        for name, size in point.sizes.items():
            run_folder.cut(folder / name, size)
    return point


def check_extension(run: run_folder.Description, learner: BaseAlgorithm) -> None:
    """Check that extending a run gives the same result as a run that was longer from the start.

    Raises:
        RunFolderError: if it has finished without a checkpoint, or its learner depends on the number of steps.
    """
    if not (run.path / run_folder.CHECKPOINT).exists():
        if run.status != "finished":
            return  # it starts over
        raise run_folder.RunFolderError(
            f"run folder {run.path} has finished and has no {run_folder.CHECKPOINT} to extend it from: it has a "
            "single epoch, was made by an earlier version of safexp, could not be saved, or the file was removed. "
            "Remove the folder to start over, or give another one with --out."
        )
    if names := schedules(learner):
        raise run_folder.RunFolderError(
            f"run folder {run.path} cannot be extended: {', '.join(names)} of {type(learner).__name__} depends on the "
            f"share of steps that is done, so {run.config.steps:,} steps are not the beginning of a longer run. Start "
            "that one in another folder with --out."
        )


def schedules(learner: BaseAlgorithm) -> list[str]:
    """Settings of a learner that change with the remaining share of its steps."""
    shares = np.linspace(0, 1, 11).tolist()
    known = (FloatSchedule, LinearSchedule)
    return [
        name
        for name, value in vars(learner).items()
        if isinstance(value, known) and len({value(share) for share in shares}) > 1
    ]


def read(folder: Path) -> Checkpoint:
    """Read the last checkpoint of a run."""
    path = folder / run_folder.CHECKPOINT
    document, arrays = files.read(path, FORMAT)
    with files.understood(path):
        # Only these two names, since the files named here are truncated.
        sizes = {name: int(document["sizes"][name]) for name in (run_folder.EPISODES, run_folder.METRICS)}
        return Checkpoint(sizes, float(document["seconds"]), document["state"], arrays)


class Checkpoints(BaseCallback):
    """Saves a run's state after epochs, as often as its share of time allows, and restores an earlier one at the start.

    Before the last epoch, which is expected to be as long as the one before, it is always saved. As a callback it
    restores the earlier state at the moment at which it was taken: when the learner starts to collect.

    Args:
        root: everything that has state, built from the run's settings.
        folder: the run folder.
        clock: number of seconds so far.
        resumed: checkpoint to continue from.
    """

    def __init__(self, root: dict[str, Any], folder: Path, clock: Any, resumed: Checkpoint | None) -> None:
        super().__init__()
        self.root = {**root, "randomness": snapshot.SHARED}
        self.folder = folder
        self.clock = clock
        self.resumed = resumed
        self._began = 0
        self._due = 0.0

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        if self.resumed is not None:
            self.restore(self.resumed)
            self.resumed = None
            self._began = self.root["agent"].learner.num_timesteps

    def epoch_over(self) -> None:
        """Save the state after an epoch whose files were written, if it is due."""
        learner = self.root["agent"].learner
        length = learner.num_timesteps - self._began
        last = learner.num_timesteps + length >= learner._total_timesteps
        if time.perf_counter() >= self._due or (last and self._due < math.inf):
            self.save()
        self._began = learner.num_timesteps

    def save(self) -> None:
        """Write the state, or warn once that it cannot be written."""
        began = time.perf_counter()
        try:
            state, arrays = snapshot.take(self.root)
        except CheckpointError as error:
            log.warning("this run has no checkpoints and would start over if interrupted: %s", error)
            self._due = math.inf
            return
        sizes = {name: (self.folder / name).stat().st_size for name in (run_folder.EPISODES, run_folder.METRICS)}
        document = {"sizes": sizes, "seconds": self.clock.seconds(), "state": state}
        files.write(self.folder / run_folder.CHECKPOINT, document, arrays, FORMAT)
        ended = time.perf_counter()
        self._due = ended + (ended - began) / SHARE

    def restore(self, point: Checkpoint) -> None:
        """Restore the state.

        Raises:
            CheckpointError: if it is not the state of this run.
        """
        learner = self.root["agent"].learner
        total = learner._total_timesteps
        try:
            snapshot.restore(self.root, point.state, point.arrays)
            learner._total_timesteps = total  # larger in an extended run
            learner._num_timesteps_at_start, learner.start_time = learner.num_timesteps, time.time_ns()  # for time/fps
            recorder = self.root["agent"].envs.recorder
            recorder.episodes[:] = read_episodes(self.folder / run_folder.EPISODES)
        except CheckpointError:
            raise
        except (*files.NONSENSE, ValueError) as error:
            raise CheckpointError(
                f"{self.folder / run_folder.CHECKPOINT} does not fit its run ({error!r}): remove it to start over."
            ) from error
