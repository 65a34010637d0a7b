"""The study of the pendulum: its settings, its rows, and the command as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from safexp.cli import main
from safexp.runs.build import make_backup, make_constraint
from safexp.studies.pendulum import PendulumStudy
from safexp.tasks.pendulum import HORIZON, PendulumReach


def test_the_runs_have_one_constraint_on_both_signals():
    config, *_ = PendulumStudy().runs()
    assert make_constraint(config.settled()).num_costs == 4
    assert config.seed == 1000


def test_ablations_change_the_horizon_and_the_drills():
    config, *_ = PendulumStudy(horizon=10, drills=0.0).runs()
    found = make_backup(config.settled(), PendulumReach().knowledge)
    assert (found.horizon, found.drills) == (10, 0.0)
    whole, *_ = PendulumStudy().runs()
    assert make_backup(whole.settled(), PendulumReach().knowledge).horizon == HORIZON


@pytest.mark.slow
def test_the_command_makes_a_row_for_each_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reproduce", "pendulum", "--seeds", "0", "--steps", "4096", "--workers", "1", "--out", str(tmp_path)]
    assert main([*words, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["violations"], row["stops"], row["certificate_misses"]) == (0, 0, 0)
    assert row["episodes"] == 8
    assert 0 < row["own_actions"] < 1
    assert {"after_stop_violations", "takeover_steps", "drills", "unshielded_violation_rate", "backup_return"} <= set(
        row
    )
