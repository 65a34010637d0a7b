"""A progress bar that shows what matters: return, violations, stops, interventions and speed."""

from __future__ import annotations

import time

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from stable_baselines3.common.callbacks import BaseCallback

from safexp.episodes import Recorder

WINDOW = 100
"""How many of the latest episodes the shown means are over."""


def summary(recorder: Recorder, steps_per_second: float) -> str:
    """The state of a run in a line."""
    episodes = recorder.episodes
    recent = episodes[-WINDOW:]
    if not recent:
        return "no episode has ended yet"
    violations = sum(episode.violated for episode in episodes) + recorder.unfinished_violations()
    return (
        f"return {np.mean([episode.true_return for episode in recent]):.2f}  "
        f"cost {np.mean([episode.cost for episode in recent]):.2f}  "
        f"[{'red' if violations else 'green'}]violations {violations}[/]  "
        f"stops {np.mean([episode.stopped for episode in recent]):.0%}  "
        f"interventions {np.mean([episode.interventions for episode in recent]):.1f}  "
        f"{steps_per_second:,.0f} steps/s"
    )


class ProgressBar(BaseCallback):
    """Shows a live line while a learner learns."""

    def __init__(self, total_timesteps: int, recorder: Recorder, title: str = "") -> None:
        super().__init__()
        self.recorder = recorder
        self.total_timesteps = total_timesteps
        self._progress = Progress(
            TextColumn(title),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[line]}"),
        )
        self._task = self._progress.add_task("", total=total_timesteps, line="starting")
        self._started = 0.0
        self._first_step = 0

    def _on_training_start(self) -> None:
        self._started = time.perf_counter()
        self._first_step = self.model.num_timesteps
        self._progress.start()

    def _on_rollout_start(self) -> None:
        self._show()

    def _on_step(self) -> bool:
        if self.n_calls % 100 == 0:
            self._show()
        return True

    def _on_training_end(self) -> None:
        self._show()
        self._progress.stop()

    def _show(self) -> None:
        done = self.model.num_timesteps - self._first_step
        speed = done / max(time.perf_counter() - self._started, 1e-9)
        self._progress.update(self._task, completed=min(done, self.total_timesteps), line=summary(self.recorder, speed))
