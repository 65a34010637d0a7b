"""The measurement itself, with quantifiers of which one knows how often they must miss."""

from __future__ import annotations

import json

import numpy as np
import pytest
from gymnasium import spaces

from safexp import Unknown, Within
from safexp.bench import coverage
from safexp.cli import main
from safexp.quantifiers import FeatureRegression, Transitions
from safexp.quantifiers.base import stretches_of

EPISODES, LENGTH = 40, 5
LEVEL = Within("level", low=0.0, scale=10.0)


class Blind(Unknown):
    """Predicts a level of 2 ± 1, whatever the state."""

    def interval(self, states, actions):
        return np.full(actions.shape[:2], 2.0), np.ones(actions.shape[:2])

    def predict(self, states, actions):
        mean, width = self.interval(states, actions)
        return 0.5 - mean / 20, width / 20

    def observed(self, data):
        return data.signals[:, 0]

    def error(self, observed, mean):
        return np.abs(observed - mean)


def fresh(missed: int) -> Transitions:
    """Episodes whose last level is 1.5; so many of them end beyond the limit, which the interval does not allow."""
    levels = np.tile([2.0, 2.5, 2.5, 3.0, 1.5], (EPISODES, 1))
    levels[:missed, -1] = -1.0
    steps = EPISODES * LENGTH
    costs = np.clip(0.5 - levels.ravel() / 20, 0, 1)
    numbers = np.repeat(np.arange(EPISODES), LENGTH)
    signals = levels.reshape(-1, 1)
    return Transitions(np.zeros((steps, 2)), np.zeros((steps, 1)), costs, None, numbers, signals)


@pytest.mark.parametrize(("missed", "refuted"), [(0, False), (2, False), (6, True), (40, True)])
def test_misses_are_counted_by_stretches_and_tested(missed, refuted):
    row = coverage.judged(Blind(), fresh(missed), LEVEL)
    assert (row["stretches"], row["missed"], row["share"]) == (EPISODES, missed, missed / EPISODES)
    assert (row["p"] < 0.05) == refuted
    assert row["certified"] == 1.0
    assert row["false_safe"] == (1.0 if missed else None)


def write_log(path, episodes=60, length=20):
    """A level that moves by a tenth of the action, by more where it is low, with a little noise."""
    rng = np.random.default_rng(0)
    levels, actions = np.empty((episodes, length + 1)), rng.uniform(-1, 1, (episodes, length))
    levels[:, 0] = rng.uniform(1, 3, episodes)
    for k, action in enumerate(actions.T):
        levels[:, k + 1] = levels[:, k] + 0.1 * action / levels[:, k] + 0.01 * rng.standard_normal(episodes)
    before, after = levels[:, :-1].reshape(-1, 1), levels[:, 1:].reshape(-1, 1)
    numbers = np.repeat(np.arange(episodes), length)
    actions = actions.reshape(-1, 1)
    np.savez(path, states=before, actions=actions, next_states=after, episodes=numbers, squared=after[:, 0] ** 2)


def test_the_boldest_or_random_fifth_is_asked_about(tmp_path):
    write_log(tmp_path / "tank.npz")
    (case,) = coverage.cases_of_logs([tmp_path / "tank.npz"], ["0:0.5:"])
    stretches, lowest = stretches_of(case.data), case.data.signals[:, 0]
    least = np.array([lowest[stretches == k].min() for k in range(60)])
    bold, random = (set(stretches[coverage.asked_about(case, split)]) for split in ("bold", "random"))
    assert bold == set(np.argsort(least)[:12])
    assert len(random) == 12
    assert random != bold


def test_two_rows_for_every_limit_split_and_quantifier(tmp_path, monkeypatch, capsys):
    quick = {"quick": lambda case: FeatureRegression(num_features=32, delta=0.05)}
    monkeypatch.setattr(coverage, "QUANTIFIERS", quick)
    write_log(tmp_path / "tank.npz")
    limits = ["--within", "0:0.5:", "squared:0:16"]
    assert main(["bench", "coverage", "--logs", str(tmp_path / "tank.npz"), *limits, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    told = [(row["case"], row["split"], row["calibrated"]) for row in rows]
    assert told == [
        (f"tank: {signal}", split, calibrated)
        for signal in ("observation[0]", "squared")
        for split in ("bold", "random")
        for calibrated in (False, True)
    ]
    assert all(row["stretches"] == 12 for row in rows)
    assert all(row["scale"] == 1.0 for row in rows if not row["calibrated"])
    assert all(row["missed"] == 0 for row in rows if row["calibrated"])


@pytest.mark.parametrize("name", ["ExactGP", "GLM"])
def test_settings_follow_from_the_inputs_of_a_log(tmp_path, name):
    write_log(tmp_path / "tank.npz")
    rows = coverage.measure([tmp_path / "tank.npz"], ["0:0.5:"], splits=["bold"], quantifiers=[name])
    assert [(row["split"], row["quantifier"], row["calibrated"]) for row in rows] == [
        ("bold", name, False),
        ("bold", name, True),
    ]
    assert rows[1]["missed"] <= rows[0]["missed"]


def test_features_of_a_glm_have_length_one(tmp_path):
    write_log(tmp_path / "tank.npz")
    (case,) = coverage.cases_of_logs([tmp_path / "tank.npz"], ["0:0.5:"])
    features = coverage.standardised(case)(case.data.states[:, list(case.inputs)], case.data.actions)
    assert features.shape == (len(case.data.costs), len(case.inputs) + 2)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1.0)


@pytest.mark.parametrize(("option", "value"), [("splits", "brave"), ("quantifiers", "GP")])
def test_unknown_splits_and_quantifiers_are_refused(option, value):
    with pytest.raises(ValueError, match=rf"--{option} '{value}' is not one of"):
        coverage.measure(**{option: [value]})


def test_our_own_tasks_are_measured_without_logs(monkeypatch):
    monkeypatch.setattr(coverage, "QUANTIFIERS", {"quick": lambda case: FeatureRegression(num_features=16, delta=0.05)})
    monkeypatch.setattr(coverage, "TASKS", {"safexp/PointGoalStatic-v0": coverage.Driving({}, 0.5, 30)})
    plain, calibrated, *_ = coverage.measure(episodes=10)
    assert plain["case"] == calibrated["case"] == "PointGoalStatic-v0"
    assert plain.keys() == calibrated.keys()
    assert plain["stretches"] == calibrated["stretches"] == 2
    assert calibrated["scale"] is None, "so few episodes calibrate nothing"
    assert calibrated["missed"] == calibrated["certified"] == 0


def test_logs_need_limits_and_limits_belong_to_coverage(tmp_path, capsys):
    with pytest.raises(ValueError, match="--logs needs --within name:low:high"):
        coverage.measure([tmp_path / "tank.npz"])
    assert main(["bench", "shield", "--within", "x:0:1"]) == 2
    assert "is for `safexp bench coverage`: leave it out" in capsys.readouterr().err.replace("\n", " ")


def test_a_space_of_actions_is_what_the_log_has(tmp_path):
    write_log(tmp_path / "tank.npz")
    (case,) = coverage.cases_of_logs([tmp_path / "tank.npz"], ["squared::16"])
    assert isinstance(case.observation_space, spaces.Box)
    assert case.data.states.shape[1] == 2
    assert case.constraint == Within("squared", high=16.0)
