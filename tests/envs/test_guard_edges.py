"""The guard's starts and ends: what is logged once, what a reset forgets, what is kept, and what is refused."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv

from safexp import Budget, Calibrated, Instantaneous, Known, Penalty, Shield, StateVisits, Unknown
from safexp.backups.recovery import Reset
from safexp.envs.guard import MAX_STARTS, Guard
from safexp.envs.refusals import NothingSafeError
from safexp.shield.decisions import Decisions
from support.line import Line, line_cost


class Starts(Line):
    """Starts where a list says, and then at 0."""

    def __init__(self, places, horizon=10):
        super().__init__(horizon)
        self.places = list(places)

    def reset(self, **options):
        self.start = self.places.pop(0) if self.places else 0.0
        return super().reset(**options)


def guard_of(envs, constraint=None, quantifier=None, **options):
    venv = DummyVecEnv(envs)
    shield = Shield(quantifier or Known(line_cost), venv.observation_space, venv.action_space)
    return Guard(venv, constraint or Instantaneous(0.5), shield, Penalty(), **options)


def bad_beyond_five():
    return Known(lambda states, actions: np.where(states[:, 0] > 5.0, 1.0, 0.0))


def warnings_in(caplog):
    return [record for record in caplog.records if "first states" in record.message and record.levelname == "WARNING"]


def test_starts_that_are_safe_are_not_talked_about(caplog):
    guard = guard_of([Line, Line])
    guard.reset()
    for _ in range(25):
        guard.step(np.zeros((2, 1), dtype=np.float32))
    assert not caplog.records


@pytest.mark.parametrize("count", [1, 2])
def test_starts_that_offer_nothing_are_counted_and_said_once(count, caplog):
    envs = [lambda k=k: Starts([0.0] + [9.0] * (3 if k < count else 0), horizon=2) for k in range(3)]
    guard = guard_of(envs, quantifier=bad_beyond_five())
    guard.reset()
    with caplog.at_level(logging.DEBUG, "safexp"):
        for _ in range(8):
            guard.step(np.zeros((3, 1), dtype=np.float32))
    assert len(warnings_in(caplog)) == 1
    assert guard.recorder.refused_starts == 3 * count
    assert all(episode.length and not episode.stopped for episode in guard.recorder.episodes)


def test_a_world_without_a_safe_start_is_given_up_after_so_many():
    guard = guard_of([lambda: Starts([0.0] + [9.0] * 10 * MAX_STARTS, horizon=1)], quantifier=bad_beyond_five())
    guard.reset()
    with pytest.raises(NothingSafeError, match=rf"{MAX_STARTS} first states in a row offered no safe action"):
        guard.step(np.zeros((1, 1), dtype=np.float32))
    guard = guard_of([lambda: Starts([0.0] + [9.0] * (MAX_STARTS - 1), horizon=1)], quantifier=bad_beyond_five())
    guard.reset()
    guard.step(np.zeros((1, 1), dtype=np.float32))
    assert guard.recorder.refused_starts == MAX_STARTS - 1
    assert len(guard.recorder.episodes) == 1


def test_some_environments_may_start_badly_as_long_as_one_does_not():
    guard = guard_of([Line, lambda: Starts([9.0, 9.0])], quantifier=bad_beyond_five())
    np.testing.assert_array_equal(guard.reset(), [[0.0], [0.0]])
    assert guard.recorder.refused_starts == 2
    with pytest.raises(NothingSafeError, match="nothing can be certified in the first state"):
        guard_of([lambda: Starts([9.0]), lambda: Starts([9.0])], quantifier=bad_beyond_five()).reset()


@pytest.mark.parametrize(
    ("quantifier", "advice"),
    [
        (Unknown(), "Unknown certifies nothing where less remains"),
        (Known(lambda states, actions: np.ones(len(states))), "Give seed_data="),
        (
            Calibrated(Known(lambda states, actions: np.ones(len(states)))),
            "Calibrated has 0 stretches, and 59 are needed .* so nothing is certified; .* Give seed_data=",
        ),
        (Known(lambda states, actions: np.full(len(states), np.nan)), "The quantifier failed: "),
    ],
)
def test_advice_fits_what_is_wrong(quantifier, advice):
    with pytest.raises(NothingSafeError, match=advice):
        guard_of([Line], quantifier=quantifier).reset()


def test_a_reset_begins_anew_and_keeps_what_was():
    guard = guard_of([Line, Line], Budget(3.0), Unknown())
    guard.reset()
    guard.step(np.array([[1.0], [0.5]], dtype=np.float32))
    np.testing.assert_allclose(guard.reset(), [[0.0, 1.0], [0.0, 1.0]])
    assert [(e.length, e.cost, e.stopped) for e in guard.recorder.episodes] == [(1, 1.0, False), (1, 0.5, False)]
    guard.reset()
    assert len(guard.recorder.episodes) == 2, "an episode without a step leaves no row"
    _, _, _, infos = guard.step(np.array([[1.0], [1.0]], dtype=np.float32))
    assert [info["shield"]["threshold"] for info in infos] == pytest.approx([3.0, 3.0])


def test_the_last_safe_action_is_forgotten_with_its_episode():
    """Beyond the first step only what was run just before is safe."""

    def cost(states, actions):
        special = np.abs(actions[:, 0] - 0.125) < 1e-6
        return np.where(special, 0.0, np.where(np.abs(states[:, 0]) < 1e-9, 0.3, 1.0))

    guard = guard_of([lambda: Line(3)], quantifier=Known(cost))
    guard.reset()
    for _ in range(2):
        _, _, dones, (info,) = guard.step(np.array([[0.125]], dtype=np.float32))
        assert not dones[0]
    _, _, dones, (info,) = guard.step(np.array([[0.7]], dtype=np.float32))
    assert info["shield"]["intervened"]
    assert float(info["shield"]["action"][0]) == 0.125
    assert dones[0] and not info["shield"]["stopped"]
    _, _, dones, (info,) = guard.step(np.array([[0.7]], dtype=np.float32))
    assert dones[0] and info["shield"]["stopped"], "of another episode, the action is no candidate"


def test_a_changed_quantifier_stops_only_what_it_no_longer_certifies():
    guard = guard_of([Line, Line])
    guard.reset()
    guard.step(np.array([[0.5], [0.0]], dtype=np.float32))
    guard.shield.quantifier = Known(lambda states, actions: np.where(states[:, 0] > 0.25, 1.0, 0.0))
    np.testing.assert_array_equal(guard.recheck(), [True, False])
    (episode,) = guard.recorder.episodes
    assert (episode.length, episode.stopped) == (1, True)
    np.testing.assert_array_equal(guard.observations, [[0.0], [0.0]])
    assert not guard.recheck().any()
    assert len(guard.recorder.episodes) == 1


def test_what_nobody_takes_is_kept_up_to_a_limit(monkeypatch):
    monkeypatch.setattr("safexp.envs.harvest.MOST_STEPS", 6)
    guard = guard_of([Line, Line])
    guard.reset()
    for move in (0.0, 0.1, 0.2, 0.3, 0.4):
        guard.step(np.full((2, 1), move, dtype=np.float32))
    transitions, thresholds = guard.harvest()
    np.testing.assert_allclose(transitions.costs, [0.2, 0.2, 0.3, 0.3, 0.4, 0.4], atol=1e-6)
    assert len(thresholds) == 6
    monkeypatch.setattr("safexp.envs.harvest.MOST_STEPS", 1)
    small = guard_of([Line, Line])
    small.reset()
    small.step(np.zeros((2, 1), dtype=np.float32))
    assert len(small.harvest().transitions.costs) == 2, "the last step is always there"


def test_discrete_actions_are_masked_only_by_a_shield():
    def costs(states, actions):
        return np.array([0.9, 0.0, 0.9])[actions.argmax(axis=1)]

    for shielding in (True, False):
        guard = guard_of([lambda: Line(discrete=True)] * 2, quantifier=Known(costs), shielding=shielding)
        guard.reset()
        expected = [[not shielding, True, not shielding]] * 2
        np.testing.assert_array_equal(guard.action_masks(), expected)
        np.testing.assert_array_equal(guard.env_method("action_masks"), expected)
        assert guard.has_attr("action_masks")
    box = guard_of([Line])
    assert not box.has_attr("action_masks")
    assert box.has_attr("horizon")
    box.reset()
    assert box.env_method("observe", indices=[0]) == [np.array([0.0])]


def test_preferences_see_what_the_learner_sees():
    seen = []

    def costs(states, actions):
        return np.array([0.0, 0.0, 0.9])[actions.argmax(axis=1)]

    guard = guard_of([lambda: Line(discrete=True)], Budget(0.5), Known(costs))
    guard.preferences = lambda observations, _: seen.append(observations.copy()) or np.array([[2.0, 1.0, 3.0]])
    guard.reset()
    _, _, _, (info,) = guard.step(np.array([2]))
    assert info["shield"]["action"] == 0
    np.testing.assert_allclose(seen[0], [[0.0, 0.5]])


def test_a_first_state_that_is_unsafe_is_charged_once_and_to_its_episode():
    constraint = StateVisits(2.0, unsafe=lambda observations: observations[:, 0] > 5.0)
    guard = guard_of([lambda: Starts([9.0], horizon=1)], constraint, Unknown())
    np.testing.assert_allclose(guard.reset()[:, 1], 0.5)
    observations, *_ = guard.step(np.array([[-1.0]], dtype=np.float32))
    assert [episode.cost for episode in guard.recorder.episodes] == [2.0]
    np.testing.assert_allclose(observations[:, 1], 1.0)


def test_what_the_shield_no_longer_certifies_is_not_run():
    guard = guard_of([Line])
    guard.reset()

    def nothing(question, actions, *_, **__):
        flags = np.ones(1, dtype=bool)
        return Decisions(actions, ~flags, flags, ~flags, np.ones(1))

    guard.shield.decide = nothing
    with pytest.raises(NothingSafeError, match="nothing was executed"):
        guard.step(np.array([[0.1]], dtype=np.float32))
    assert guard.venv.envs[0].executed == []


def test_a_stop_is_told_of_episodes_that_end_between_two_steps():
    class Told(Reset):
        def __init__(self):
            super().__init__()
            self.ends = []

        def end(self, rows, stopped):
            self.ends.append((rows.tolist(), stopped))

    stop = Told()
    guard = guard_of([Line, Line], backup=stop)
    guard.reset()
    guard.step(np.array([[0.5], [0.0]], dtype=np.float32))
    assert stop.ends == [([True, True], False)]
    guard.shield.quantifier = Known(lambda states, actions: np.where(states[:, 0] > 0.25, 1.0, 0.0))
    guard.recheck()
    assert stop.ends[1:] == [([True, False], True)]


def test_a_stop_that_never_drives_is_told_that_it_does_not():
    class Told(Reset):
        def __init__(self):
            super().__init__()
            self.steps = []

        def note(self, step):
            self.steps.append(step)

    stop = Told()
    guard = guard_of([lambda: Line(horizon=2), lambda: Line(horizon=3)], backup=stop)
    guard.reset()
    for _ in range(3):
        guard.step(np.zeros((2, 1), dtype=np.float32))
    assert not any(step.driving.any() or step.driving_on.any() for step in stop.steps)
    np.testing.assert_array_equal([step.ended for step in stop.steps], [[False, False], [True, False], [False, True]])


def test_after_states_that_could_not_be_looked_at_only_a_reset_goes_on():
    guard = guard_of([lambda: Starts([0.0, np.nan])])
    guard.reset()
    with pytest.raises(ValueError, match="holds a NaN"):
        guard.reset()
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        guard.step(np.array([[0.1]], dtype=np.float32))
    assert guard.venv.envs[0].executed == []
    guard.reset()
    guard.step(np.array([[0.25]], dtype=np.float32))
    assert guard.venv.envs[0].executed == [0.25]


def test_what_a_learner_does_to_its_observations_does_not_reach_the_shield():
    guard = guard_of([Line], quantifier=bad_beyond_five())
    guard.reset()[:] = 9.0
    observations, *_ = guard.step(np.array([[0.25]], dtype=np.float32))
    np.testing.assert_array_equal(observations, [[0.25]])
    assert guard.recorder.stops == 0
