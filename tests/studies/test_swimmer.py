"""The study of the Swimmer: its settings, and the command as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from safexp.cli import main
from safexp.runs.build import make_constraint
from safexp.studies.swimmer import SwimmerStudy


def test_the_runs_limit_the_velocity_and_the_joints():
    config, *_ = SwimmerStudy().runs()
    limit = make_constraint(config.settled())
    assert limit.sources == ("velocity", 1, 2)
    assert limit.num_costs == 6
    assert config.seed == 1000


@pytest.mark.slow
def test_the_command_makes_a_row_for_each_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reproduce", "swimmer", "--seeds", "0", "--steps", "8192", "--workers", "1", "--out", str(tmp_path)]
    assert main([*words, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["violations"], row["stops"], row["certificate_misses"]) == (0, 0, 0)
    assert row["task"] == "safexp/SwimmerVelocity-v0"
    assert row["log_return"] > row["backup_return"]
