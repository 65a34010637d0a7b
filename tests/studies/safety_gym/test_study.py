"""Which runs the comparison on the Goal tasks has."""

from __future__ import annotations

from pathlib import Path

import pytest

from safexp.runs.sweep import run_one
from safexp.studies.safety_gym import study as studied
from safexp.studies.safety_gym.study import SafetyGymStudy
from support.runs import reproducible


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


def test_a_longer_study_extends_the_runs_of_a_shorter_one(tmp_path, monkeypatch):
    monkeypatch.setattr(studied, "EPOCH_STEPS", 400)

    def outcome(epochs, out):
        study = SafetyGymStudy(tasks=("point",), methods=("mase",), seeds=1, epochs=epochs, out=tmp_path / out)
        return run_one(study.config("point", "mase", 1000))

    parts, _, whole = (outcome(*one) for one in [(2, "parts"), (4, "parts"), (4, "whole")])
    assert reproducible(parts.folder) == reproducible(whole.folder)
    assert "1,600 steps, more than the requested 1,200" in str(outcome(3, "parts").problem)
