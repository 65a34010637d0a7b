from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from rich.console import Console

from safexp.studies import grid_world_table
from safexp.studies.grid_world_table import GridWorldStudy, figure_of_first_world


def test_the_grid_world_table(tmp_path: Path) -> None:
    study = GridWorldStudy(worlds=2, seed=0, size=10, steps=60, betas=(2.0, 4.0))
    table = grid_world_table.grid_world_table(study)
    rows = {(row.thresholds, row.beta, row.method): row for row in table.rows}
    assert len(rows) == 8
    for beta in study.betas:
        fixed = rows["time-invariant", beta, "MASE"]
        assert (fixed.ratio, fixed.ratio_deviation, fixed.violated, fixed.same_path) == (1.0, 0.0, 0, 2)
        assert rows["time-variant", beta, "MASE"].violated == 0
        assert rows["time-variant", beta, "SNO-MDP"].ratio_ended == 1.0
    json.dumps(asdict(table))
    with Console(record=True, width=80) as console:
        console.print(grid_world_table.rich_table(table))
    assert "2.4 ± 1.0" in console.export_text()
    figure_of_first_world(study, tmp_path / "world.png")
    assert (tmp_path / "world.png").stat().st_size > 10_000


def test_a_study_without_worlds_is_refused() -> None:
    with pytest.raises(ValueError, match="got 0 worlds"):
        GridWorldStudy(worlds=0)
