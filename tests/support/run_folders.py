"""Run folders without training."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from safexp.records.episodes import Episode
from safexp.runs import folder as run_folder
from safexp.runs.config import RunConfig
from safexp.runs.folder import Run
from safexp.runs.trajectories import Trajectories

MakeRun = Callable[..., Run]

EPOCH = 20
"""How many episodes make an epoch."""

SPENT = {"physics": 2.0, "policy": 1.0, "records": 0.5, "shield": 0.25, "quantifier": 0.25, "update": 3.0, "files": 0.5}


def maker(place: Path) -> MakeRun:
    """Writes run folders without training: every `violate`-th episode breaks the constraint, the first 20 are stopped.

    An episode is 50 steps long and pays `paid`, its largest step cost is half of its cost; `gaps` are epochs whose
    metrics know of no end. With `after_stops`, stops are judged, and the first so many violate afterwards.
    """

    def make(
        folder: str,
        /,
        episodes: int = 120,
        violate: int = 0,
        status: str = "finished",
        ways: Trajectories | None = None,
        paid: float = 2.0,
        gaps: tuple[int, ...] = (),
        after_stops: int | None = None,
        **settings: Any,
    ) -> Run:
        config = RunConfig(out=place / folder, **settings).settled()
        judged = after_stops is not None
        run_folder.begin(config.folder, config, f"safexp train --out '{folder}'", judged)
        rows = [
            Episode(i, 50 * (i + 1), 50, paid, 1.5, 4.0 if violate and i % violate == 0 else 1.0, 0.5, False, i < 20, 2)
            for i in range(episodes)
        ]
        rows = [row._replace(violated=row.cost > 3, max_step_cost=row.cost / 2) for row in rows]
        if after_stops is not None:
            rows = [row._replace(after_stop_steps=7, after_stop_violated=i < after_stops) for i, row in enumerate(rows)]
        run_folder.append_episodes(config.folder, rows, judged)
        for epoch, start in enumerate(range(0, episodes, EPOCH)):
            ended = [] if epoch in gaps else rows[start : start + EPOCH]
            line = {
                "epoch": epoch + 1,
                "steps": 50 * min(start + EPOCH, episodes),
                "violations": sum(row.violated for row in rows[: start + EPOCH]),
                "mean_return": paid if ended else None,
                "mean_penalised_return": 1.5 if ended else None,
                "mean_cost": sum(row.cost for row in ended) / len(ended) if ended else None,
                "max_cost": max((row.cost for row in ended), default=None),
                "own_actions": 1 - 2 / 50 if ended else None,
                "stop_rate": sum(row.stopped for row in ended) / len(ended) if ended else None,
            }
            if judged:
                line["after_stop_violations"] = sum(row.after_stop_violated for row in rows[: start + EPOCH])
            run_folder.append_metrics(config.folder, line)
        if ways:
            run_folder.write_trajectories(config.folder, ways)
        if status:
            timing = {"status": status, "seconds": 8.0, "steps": 50 * episodes, "steps_per_second": 1234.5}
            run_folder.write_json(config.folder / "timing.json", {**timing, "seconds_in": SPENT})
        return run_folder.read(config.folder)

    return make
