"""The study of Goal1: its settings, and the command as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from safexp.cli import main
from safexp.studies.goal1 import Goal1Study


def test_every_robot_has_every_seed_and_a_folder_of_its_own():
    runs = Goal1Study(seeds=(1000, 1001), budget=0.0).runs()
    assert [(run.task, run.seed) for run in runs] == [
        ("safexp/PointGoal1-v0", 1000),
        ("safexp/PointGoal1-v0", 1001),
        ("safexp/CarGoal1-v0", 1000),
        ("safexp/CarGoal1-v0", 1001),
    ]
    assert len({run.folder for run in runs}) == 4
    assert all(run.limit == 0.0 for run in runs)


@pytest.mark.slow
def test_the_command_makes_a_row_for_each_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reproduce", "goal1", "--robots", "Car", "--layout", "GoalStatic", "--budget", "20", "--seeds", "0"]
    assert main([*words, "--steps", "10000", "--workers", "1", "--out", str(tmp_path), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["task"] == "safexp/CarGoalStatic-v0"
    assert (row["violations"], row["stops"]) == (0, 0)
    assert row["episodes"] >= 50
    assert {"drills", "certificate_misses", "own_actions", "unshielded_violation_rate"} <= set(row)
