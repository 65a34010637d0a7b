from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from safexp.episodes import Episode
from safexp.studies import folder as run_folder
from safexp.studies.config import RunConfig
from safexp.studies.folder import Run
from safexp.studies.trajectories import Trajectories

MakeRun = Callable[..., Run]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Writes run folders without training: every `violate`-th episode breaks the constraint."""

    def make(
        name: str,
        episodes: int = 120,
        violate: int = 0,
        status: str = "finished",
        ways: Trajectories | None = None,
        **settings: Any,
    ) -> Run:
        config = RunConfig(out=tmp_path / name, **settings).settled()
        run_folder.create(config.folder, config, f"safexp train --out '{name}'")
        rows = [
            Episode(i, 50 * (i + 1), 50, 2.0, 1.5, 4.0 if violate and i % violate == 0 else 1.0, 0.5, False, i < 20, 2)
            for i in range(episodes)
        ]
        rows = [row._replace(violated=row.cost > 3) for row in rows]
        run_folder.append_episodes(config.folder, rows)
        count = sum(row.violated for row in rows)
        if rows:
            run_folder.append_metrics(config.folder, {"steps": rows[-1].end_step, "violations": count})
        if ways:
            run_folder.write_trajectories(config.folder, ways)
        if status:
            run_folder.write_json(config.folder / "timing.json", {"status": status, "steps_per_second": 1234.5})
        return run_folder.read(config.folder)

    return make
