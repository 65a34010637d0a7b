"""The comparison on the Goal tasks, as its command does it, and its numbers against the episodes themselves."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from safexp.cli import main
from safexp.studies import folder as run_folder
from safexp.studies import paper
from safexp.studies.paper import SafetyGymStudy, summarise
from safexp.studies.stats import exact_interval, upper_bound
from safexp.studies.sweep import run_one


def test_every_method_meets_every_seed_on_every_task_with_the_same_settings():
    groups = SafetyGymStudy(seeds=2, epochs=3, out=Path("there")).configs()
    assert len(groups) == 16
    configs = [config for group in groups.values() for config in group]
    assert len({config.folder for config in configs}) == 32
    assert {config.steps for config in configs} == {30_000}
    assert {config.seed for config in configs} == {1000, 1001}
    assert {config.settled().learner for config in configs} == {"TRPO", "TRPOLagrangian", "CPO"}


def test_mase_as_published_is_the_papers():
    published = SafetyGymStudy().config("car", "mase-published", 1000).settled()
    assert (published.quantifier, published.discount, published.limit) == ("deep-gp", 0.99, 20.0)
    assert (published.penalty, published.largest_penalty) == (1.0, None)
    assert "target_kl" not in published.learner_options


def test_mase_and_trpo_are_run_first_and_the_published_one_last():
    study = SafetyGymStudy()
    order = [config.folder.name for config in study.in_order()]
    seeds = range(1000, 1005)
    assert order[:10] == [f"{task}-mase-{seed}" for task in ("point", "car") for seed in seeds]
    assert order[10:20] == [f"{task}-trpo-{seed}" for task in ("point", "car") for seed in seeds]
    assert order[-10:] == [f"{task}-mase-published-{seed}" for task in ("point", "car") for seed in seeds]
    assert sorted(order) == sorted(config.folder.name for group in study.configs().values() for config in group)


def test_scales_say_how_long_and_how_often():
    groups = SafetyGymStudy(scale="medium", epochs=7).configs()
    assert {(len(group), config.steps) for group in groups.values() for config in group} == {(3, 70_000)}


@pytest.mark.parametrize("wrong", [{"seeds": 0}, {"epochs": 0}, {"tasks": ()}, {"workers": 0}, {"evaluation": 0}])
def test_an_empty_study_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SafetyGymStudy(**wrong)


def test_the_command_prints_what_the_episodes_say(tmp_path, capsys):
    words = "--tasks point --methods mase --seeds 1 --epochs 1 --evaluation 2 --workers 1 --json"
    assert main(["reproduce", "safety-gym", *words.split(), "--out", str(tmp_path / "runs")]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    episodes = run_folder.read(tmp_path / "runs" / "point-mase-1000").episodes
    assert row["episodes"] == len(episodes)
    assert row["violated"] == 0
    assert row["returns"] == pytest.approx(np.mean([episode.true_return for episode in episodes]), rel=1e-3)
    assert row["max_cost"] == max(episode.cost for episode in episodes)
    assert row["late_stops"] == row["stops"] == sum(episode.stopped for episode in episodes)
    assert row["last_hundred"] == pytest.approx(np.mean([episode.stopped for episode in episodes[-100:]]), rel=1e-3)
    for name in ("report.html", "comparison.csv", "figures/curves.svg", "figures/converged.png"):
        assert (tmp_path / "runs" / name).stat().st_size > 100
    assert main(["reproduce", "safety-gym", *words.split(), "--no-resume", "--out", str(tmp_path / "runs")]) == 2
    assert "exists already" in capsys.readouterr().err

    again = summarise("point", "mase", [tmp_path / "runs" / "point-mase-1000"], 2)
    assert again.deterministic == pytest.approx(row["deterministic"], rel=1e-3)


def test_a_longer_study_extends_the_runs_of_a_shorter_one(tmp_path, monkeypatch, reproducible):
    monkeypatch.setattr(paper, "EPOCH_STEPS", 400)

    def outcome(epochs, out):
        study = SafetyGymStudy(tasks=("point",), methods=("mase",), seeds=1, epochs=epochs, out=tmp_path / out)
        return run_one(study.config("point", "mase", 1000))

    parts, _, whole = (outcome(*one) for one in [(2, "parts"), (4, "parts"), (4, "whole")])
    assert reproducible(parts.folder) == reproducible(whole.folder)
    assert "1,600 steps, more than the 1,200 asked for" in str(outcome(3, "parts").problem)


def test_the_one_sided_bound_is_half_of_a_wider_two_sided_interval():
    assert upper_bound(3, 100) == pytest.approx(exact_interval(3, 100, confidence=0.9)[1])
    assert upper_bound(0, 300) == pytest.approx(1 - 0.05 ** (1 / 300))
    assert upper_bound(5, 5) == 1.0
