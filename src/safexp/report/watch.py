"""Live overview of the runs of a sweep."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar as Bar
from rich.table import Table
from rich.text import Text

from safexp.report.limits import limited_quantity
from safexp.report.summary import number
from safexp.runs import folder as run_folder
from safexp.runs.config import RunConfig
from safexp.runs.sweep import RunOutcome, sweep

if TYPE_CHECKING:
    from safexp.runs.trackers import Start  # needs torch


def watched_sweep(
    configs: Sequence[RunConfig], workers: int, ray: str | None = None, track: Start | None = None
) -> list[RunOutcome]:
    """Train many runs and show their progress."""
    with Watch(configs) as watch:
        return sweep(configs, workers, ray=ray, tell=watch.tell, track=track)


class Watch:
    """Live table of the running runs, with finished ones and time left; without a terminal, a line for each end.

    Args:
        configs: the runs.
        console: console to draw on, by default stderr.
    """

    def __init__(self, configs: Sequence[RunConfig], console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self._configs = configs
        self._outcomes: dict[Path, RunOutcome] = {}
        self._live = Live(console=self.console, auto_refresh=False, transient=True)
        self._began = time.perf_counter()
        self._before = sum(self._steps(config) for config in configs)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def tell(self, outcome: RunOutcome | None) -> None:
        """Handle an outcome, or None after a second without one."""
        if outcome is not None:
            self._outcomes[outcome.folder] = outcome
            if outcome.problem or not self.console.is_terminal:
                said = f"failed: {escape(outcome.problem)}" if outcome.problem else "finished"
                line = f"{len(self._outcomes)}/{len(self._configs)} {escape(str(outcome.folder))} {said}"
                self.console.print(line, soft_wrap=True, highlight=False)
        if self.console.is_terminal:
            self._live.update(self.drawn(), refresh=True)

    def drawn(self) -> RenderableType:
        """The present table."""
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        table.add_column("run", overflow="fold")
        table.add_column("", width=20)
        for heading in ("steps", "return", "episode cost", "violations", "stops"):
            table.add_column(heading, justify="right")
        done = 0
        for config in self._configs:
            steps = config.steps if config.folder in self._outcomes else self._steps(config)
            done += steps
            if steps and config.folder not in self._outcomes:
                line = run_folder.last_line(config.folder)
                cost = line.get("mean_cost") if limited_quantity(config).name == "episode cost" else None
                table.add_row(
                    escape(config.folder.name),
                    Bar(config.steps, steps, width=20),
                    f"{steps:,}",
                    number(line.get("mean_return")),
                    number(cost),
                    *(f"{line.get(name, 0):,}" for name in ("violations", "stops")),
                )
        return Group(table, Text(self._summary(done), style="dim"))

    def _summary(self, done: int) -> str:
        failed = sum(outcome.problem is not None for outcome in self._outcomes.values())
        total = sum(config.steps for config in self._configs)
        rate = (done - self._before) / (time.perf_counter() - self._began)
        left = f" · {timedelta(seconds=round((total - done) / rate))} left" if rate > 0 else ""
        problems = f" · {failed} failed" if failed else ""
        return f"{len(self._outcomes)} of {len(self._configs)} runs over{problems} · {rate:,.0f} steps/s{left}"

    def _steps(self, config: RunConfig) -> int:
        return min(int(run_folder.last_line(config.folder).get("steps", 0)), config.steps)
