"""Runs that are interrupted, and what of a run can be compared with another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from safexp.core import files
from safexp.runs import folder as run_folder
from safexp.runs.resume import Checkpoints, locked


@contextmanager
def interrupted_after(epochs: int) -> Iterator[None]:
    """Interrupt the run within after so many epochs, as Ctrl-C does."""
    usual = Checkpoints.on_rollout_start

    def stop(self: Checkpoints) -> None:
        usual(self)
        if self.root["agent"].epochs == epochs:
            raise KeyboardInterrupt

    with mock.patch.object(Checkpoints, "on_rollout_start", stop), pytest.raises(KeyboardInterrupt):
        yield


def reproducible(folder: Path) -> tuple[dict[str, bytes], dict[str, Any], dict[str, bytes]]:
    """Everything in a run folder that its description alone decides."""
    names = [run_folder.EPISODES, run_folder.METRICS, run_folder.TRAJECTORIES]
    document, arrays = files.read(folder / run_folder.AGENT)
    return (
        {name: (folder / name).read_bytes() for name in names if (folder / name).exists()},
        document,
        {name: part.tobytes() for name, part in arrays.items()},
    )


def hold_lock(folder: Path, ready: Event, done: Event) -> None:
    """Work on a run folder from another process until `done`."""
    with locked(folder):
        ready.set()
        done.wait()
