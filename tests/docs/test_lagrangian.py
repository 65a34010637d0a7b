"""The Lagrangian method of the examples: it is run by name, and its multiplier is charged."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from safexp.cli import main
from safexp.runs import folder as run_folder

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
def test_the_multiplier_grows_while_the_budget_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setattr(sys, "path", [*sys.path, str(EXAMPLES)])
    learner = '{"n_steps": 160, "batch_size": 160, "n_epochs": 1}'
    words = ["train", "--method", "lagrangian:method", "--budget", "0.2", "--method-options", '{"rate": 0.1}']
    words += ["--num-envs", "4", "--steps", "1280", "--learner-options", learner, "--out", str(tmp_path / "run")]
    assert main(words) == 0
    episodes = run_folder.read(tmp_path / "run").episodes
    assert any(episode.violated for episode in episodes)
    first, last = episodes[0], episodes[-1]
    assert first.penalised_return == pytest.approx(first.true_return), "it begins without a charge"
    assert last.penalised_return < last.true_return
