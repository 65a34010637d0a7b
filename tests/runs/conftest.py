"""What tests of runs share: interrupting them, and comparing what they left."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import pytest

from safexp.core import files
from safexp.runs import folder as run_folder
from safexp.runs.resume import Checkpoints


@pytest.fixture
def interrupt_after(monkeypatch):
    """Within it, a run is interrupted after so many epochs, as by Ctrl-C."""

    @contextmanager
    def interrupting(epochs):
        usual = Checkpoints._on_rollout_start

        def stop(self):
            usual(self)
            if self.root["agent"].epochs == epochs:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Checkpoints, "_on_rollout_start", stop)
            yield

    return interrupting


@pytest.fixture
def reproducible():
    """Everything in a folder that the description alone decides."""

    def contents(folder: Path):
        names = [run_folder.EPISODES, run_folder.METRICS, run_folder.TRAJECTORIES]
        document, arrays = files.read(folder / run_folder.AGENT)
        return (
            {name: (folder / name).read_bytes() for name in names if (folder / name).exists()},
            document,
            {name: part.tobytes() for name, part in arrays.items()},
        )

    return contents
