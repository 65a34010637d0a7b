"""`safexp reproduce safety-gym`, which trains, and draws the same from what is kept of the runs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from safexp.cli import main
from safexp.runs import folder as run_folder
from safexp.runs.evaluate import evaluate
from safexp.studies.safety_gym import command
from safexp.studies.safety_gym.results import write_results

WORDS = ["--tasks", "point", "--methods", "mase", "--seeds", "1", "--epochs", "1", "--json"]
TRAINING = ["--evaluation", "2", "--workers", "1"]


@pytest.mark.slow
def test_the_command_prints_what_the_episodes_say_and_draws_it_again(tmp_path, capsys, monkeypatch):
    runs, kept, drawn = tmp_path / "runs", tmp_path / "kept", tmp_path / "drawn"
    assert main(["reproduce", "safety-gym", *WORDS, *TRAINING, "--out", str(runs)]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    folder = runs / "point-mase-1000"
    episodes = run_folder.read(folder).episodes
    assert row["episodes"] == len(episodes)
    assert row["violated"] == 0
    assert row["returns"] == pytest.approx(np.mean([episode.true_return for episode in episodes]), rel=1e-3)
    assert row["max_cost"] == max(episode.cost for episode in episodes)
    assert row["late_stops"] == row["stops"] == sum(episode.stopped for episode in episodes)
    assert row["last_hundred"] == pytest.approx(np.mean([episode.stopped for episode in episodes[-100:]]), rel=1e-3)
    played = [episode.true_return for episode in evaluate(folder, 2)]
    assert row["deterministic"] == pytest.approx(np.mean(played), rel=1e-3)
    for name in ("report.html", "comparison.csv", "tables.md", "figures/curves.png", "figures/boxes.pdf"):
        assert (runs / name).stat().st_size > 100
    assert main(["reproduce", "safety-gym", *WORDS, *TRAINING, "--no-resume", "--out", str(runs)]) == 2
    assert "exists already" in capsys.readouterr().err

    words = [str(runs), "--into", str(kept), "--evaluation", "2", "--commit", "abc"]
    assert main(["reproduce", "safety-gym-results", *words]) == 0
    capsys.readouterr()
    monkeypatch.setattr(command, "watched_sweep", pytest.fail)
    assert main(["reproduce", "safety-gym", *WORDS, "--from", str(kept), "--out", str(drawn)]) == 0
    assert json.loads(capsys.readouterr().out) == [row]
    assert (drawn / "tables.md").read_text() == (runs / "tables.md").read_text()
    for name in ("figures/curves.png", "figures/boxes.pdf"):
        assert (drawn / name).stat().st_size > 100


@pytest.mark.slow
def test_all_figures_are_drawn_of_what_is_there_and_the_rest_is_named(tmp_path, capsys, make_result, monkeypatch):
    monkeypatch.setattr(command, "FIGURE_3", 4)
    monkeypatch.setattr("safexp.studies.safety_gym.figures.FIGURE_3", 4)
    monkeypatch.setattr("safexp.studies.safety_gym.study.SCALES", {"paper": (3, 2)})
    kept, drawn, page = tmp_path / "kept", tmp_path / "drawn", tmp_path / "page.md"
    page.write_text("<!-- results: car -->\n<!-- end of results -->\n")
    write_results(kept, [make_result("car", method, lines=(3, 4)) for method in ("mase", "early-termination")])
    write_results(kept, [make_result("car", "cpo", seed, epochs=seed - 997) for seed in (1000, 1001)])
    words = ["--from", str(kept), "--out", str(drawn), "--fill", str(page)]
    assert main(["reproduce", "safety-gym", *words]) == 0
    told = capsys.readouterr().err
    assert "missing: point trpo: all seeds missing" in told
    assert "missing: car cpo: 1001 without a summary after 3 of 4 epochs" in told
    assert "missing: Figure 3, car cpo: 1000 with 3 of 4 epochs" in told
    assert "Figure 3, car trpo" not in told  # said already
    assert f"filled {page}: car" in told
    assert "| Car, 3 epochs |" in page.read_text()
    names = ("boxes", "curves", "curves-iqm", "early-termination", "early-termination-iqm", "figure-3")
    assert {path.name for path in (drawn / "figures").iterdir()} == {
        f"{name}.{kind}" for name in names for kind in ("pdf", "png")
    }


@pytest.mark.slow
def test_goal1_is_another_task_with_another_budget(tmp_path, capsys, make_result):
    tasks = ("safexp/PointGoal1-v0", "safexp/CarGoal1-v0")
    write_results(tmp_path, [make_result(task, method, budget=25.0) for task in tasks for method in ("mase", "trpo")])
    words = [
        "--tasks",
        *tasks,
        *["--methods", "mase", "trpo", "--epochs", "4", "--seeds", "1", "--json", "--from"],
        str(tmp_path),
    ]
    assert main(["reproduce", "safety-gym", *words, "--budget", "25", "--out", str(tmp_path / "drawn")]) == 0
    told = capsys.readouterr()
    assert [(row["task"], row["method"], row["share"]) for row in json.loads(told.out)] == [
        (task, method, 1.0) for task in tasks for method in ("mase", "trpo")
    ]
    assert "missing" not in told.err
    assert "| CarGoal1, 4 epochs |" in (tmp_path / "drawn" / "tables.md").read_text()
    assert main(["reproduce", "safety-gym", *words, "--out", str(tmp_path / "drawn")]) == 2
    assert "no run of the study is there with 4 epochs" in (error := capsys.readouterr().err)
    assert "all seeds with a budget of 25, not 20" in error


@pytest.mark.slow
def test_a_study_of_which_every_run_failed_draws_nothing(tmp_path, capsys):
    (tmp_path / "point-mase-1000").mkdir()
    (tmp_path / "point-mase-1000" / "thesis.tex").touch()
    assert main(["reproduce", "safety-gym", *WORDS, *TRAINING, "--out", str(tmp_path)]) == 1
    assert not (tmp_path / "comparison.csv").exists()
