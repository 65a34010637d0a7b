"""Live progress of training: return, cost, violations, stops, interventions and speed."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import NamedTuple, Self

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar as Bar
from rich.table import Table
from rich.text import Text
from stable_baselines3.common.callbacks import BaseCallback

from safexp.backups.drills import Drills
from safexp.records.episodes import Recorder

WINDOW = 100
"""Number of latest episodes that the displayed means cover."""

BLOCKS = "▁▂▃▄▅▆▇█"


class Snapshot(NamedTuple):
    """State of a run; means are over the latest episodes, violations are all so far.

    `cost` is the mean of an episode's sum, or the largest of a step, whichever is limited, as `cost_name` says.
    """

    episodes: int
    mean_return: float
    cost_name: str
    cost: float
    violations: int
    stop_rate: float
    interventions: float


def snapshot(recorder: Recorder) -> Snapshot | None:
    """State of a run, once an episode has ended."""
    recent = recorder.episodes[-WINDOW:]
    if not recent:
        return None
    if recorder.constraint.on_every_step:
        cost_name, cost = "largest step cost", max(episode.max_step_cost for episode in recent)
    else:
        cost_name, cost = "cost", float(np.mean([episode.cost for episode in recent]))
    return Snapshot(
        episodes=len(recorder.episodes),
        mean_return=float(np.mean([episode.true_return for episode in recent])),
        cost_name=cost_name,
        cost=cost,
        violations=recorder.violations,
        stop_rate=float(np.mean([episode.stopped for episode in recent])),
        interventions=float(np.mean([episode.interventions for episode in recent])),
    )


def sparkline(values: list[float], width: int) -> str:
    """Values as a row of at most `width` blocks, averaged if there are more."""
    if not values:
        return ""
    means = np.array([part.mean() for part in np.array_split(values, min(width, len(values)))])
    span = np.ptp(means) or 1.0
    return "".join(BLOCKS[int(level)] for level in np.round((means - means.min()) / span * (len(BLOCKS) - 1)))


class ProgressBar(BaseCallback):
    """Progress panel, redrawn in place; if the output is not a terminal, a plain line every few seconds."""

    def __init__(
        self,
        total_timesteps: int,
        recorder: Recorder,
        title: str = "",
        console: Console | None = None,
        drills: Drills | None = None,
    ) -> None:
        super().__init__()
        self.recorder = recorder
        self.drills = drills
        self.total_timesteps = total_timesteps
        self.title = title
        self.console = console or Console(highlight=False)
        self._live = Live(console=self.console, auto_refresh=False) if self.console.is_terminal else None
        self._pause = 0.1 if self._live else 5.0
        self._returns: list[float] = []
        self._started = self._shown = 0.0
        self._first_step = self._before = 0
        self._rolling = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the terminal, even after an exception."""
        if self._live:
            self._live.stop()

    def _on_training_start(self) -> None:
        self._started = self._shown = time.perf_counter()
        self._first_step = self._before = self.model.num_timesteps
        self._rolling = False
        if self._live:
            self._live.start()
        elif self.title:
            self.console.print(escape(self.title), soft_wrap=True)
        self._show()

    def _on_rollout_start(self) -> None:
        if not self._rolling:  # after a resume: the steps of the checkpoint took no time in this process
            self._rolling, self._started, self._before = True, time.perf_counter(), self.model.num_timesteps

    def _on_rollout_end(self) -> None:
        if (now := snapshot(self.recorder)) is not None:
            self._returns.append(now.mean_return)

    def _on_step(self) -> bool:
        if time.perf_counter() - self._shown > self._pause:
            self._show()
        return True

    def _on_training_end(self) -> None:
        self._show()

    def _show(self) -> None:
        self._shown = time.perf_counter()
        done = self.model.num_timesteps - self._first_step
        speed = (self.model.num_timesteps - self._before) / max(self._shown - self._started, 1e-9)
        now = snapshot(self.recorder)
        if self._live:
            self._live.update(self._panel(done, speed, now), refresh=True)
        elif done:
            self.console.print(self._line(done, speed, now), soft_wrap=True)

    def _line(self, done: int, speed: float, now: Snapshot | None) -> str:
        start = f"{done:>9,} / {self.total_timesteps:,} steps  "
        if now is None:
            return f"{start}no episode has ended yet  {speed:,.0f} steps/s"
        return (
            f"{start}return {now.mean_return:.2f}  {now.cost_name} {now.cost:.2f}  violations {now.violations}  "
            f"stops {now.stop_rate:.0%}  interventions {now.interventions:.1f}  {self._drilled()}{speed:,.0f} steps/s"
        )

    def _drilled(self) -> str:
        """Missed drills of all so far, for a line; empty before the first."""
        drills = self.drills
        return f"drills missed {drills.missed:,} of {drills.judged:,}  " if drills and drills.judged else ""

    def _panel(self, done: int, speed: float, now: Snapshot | None) -> RenderableType:
        left = max(self.total_timesteps - done, 0)
        remaining = f"{timedelta(seconds=round(left / speed))} left" if speed and left else ""
        bar = Table.grid(padding=(0, 2))
        bar.add_row(
            Bar(total=self.total_timesteps, completed=min(done, self.total_timesteps), width=36),
            f"{done:,} / {self.total_timesteps:,} steps",
            Text(f"{speed:,.0f} steps/s", style="dim"),
            Text(remaining, style="dim"),
        )
        parts: list[RenderableType] = [Text(self.title, style="bold"), bar]
        if now is not None:
            numbers = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
            cells: dict[str, str | Text] = {
                "return": f"{now.mean_return:.2f}",
                now.cost_name: f"{now.cost:.2f}",
                "violations": Text(str(now.violations), style="bold red" if now.violations else "bold green"),
                "stops": f"{now.stop_rate:.0%}",
                "interventions": f"{now.interventions:.1f}",
                "episodes": f"{now.episodes:,}",
            }
            if self.drills is not None and self.drills.judged:
                cells["drills missed"] = f"{self.drills.missed:,} of {self.drills.judged:,}"
            for heading in cells:
                numbers.add_column(heading)
            numbers.add_row(*cells.values())
            parts += [numbers, Text.assemble((sparkline(self._returns, 36), "cyan"), ("  return so far", "dim"))]
        return Group(*parts)
