"""Takeovers in a pit whose way out is known: every step inside costs 1, and one step leads one metre up or down."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.vec_env import DummyVecEnv

from safexp import MASE, TRPO, AllOf, Budget, Instantaneous, Penalty, Shield, Unknown
from safexp.backups.recovery import Fallback, Reset
from safexp.envs.guard import Guard
from support.pit import Pit


def climb(observations):
    return np.full((len(observations), 1), -1.0, dtype=np.float32)


def costs_of_climbing(observations):
    """How many steps of `climb` end above 0: the truth."""
    return np.maximum(np.ceil(observations[:, 0]) - 1, 0.0)


def way_out(observations):
    """The truth, and something wherever a step of the learner's could cost."""
    return np.where(observations[:, 0] <= -1.0, 0.0, np.maximum(costs_of_climbing(observations), 0.5))


def guard_of(stop, limit=8.0, horizon=40, num_envs=1):
    venv = DummyVecEnv([lambda: Pit(horizon)] * num_envs)
    shield = Shield(Unknown(), venv.observation_space, venv.action_space)
    return Guard(venv, Budget(limit), shield, Penalty(), backup=stop)


def walk(guard, moves):
    """Steps with the same proposal everywhere; yields before and after each what remains, where, and the outcome."""
    guard.reset()
    for move in moves:
        remaining, place = guard.account.thresholds.copy(), np.array([[pit.place] for pit in guard.venv.envs])
        outcome = guard.step(np.full((guard.num_envs, 1), move, dtype=np.float32))
        yield remaining, place, outcome


moves = st.lists(st.floats(-0.5, 1.5), min_size=1, max_size=80)


@settings(max_examples=100)
@given(moves, st.floats(4.5, 12.0))
def test_with_a_true_bound_no_human_is_ever_needed_and_the_way_out_is_covered_at_the_hand_over(proposals, limit):
    guard = guard_of(Fallback(climb, way_out, reserve=2.0), limit)
    driving = False
    for remaining, place, (_, _, dones, (info,)) in walk(guard, proposals):
        if info["shield"]["takeover"] and not driving:
            assert remaining[0] - 1 >= costs_of_climbing(place)[0]
        driving = info["shield"]["takeover"] and not dones[0]
    assert guard.recorder.stops == 0
    assert guard.recorder.violations == 0


@settings(max_examples=100)
@given(moves, st.floats(4.5, 12.0), st.sampled_from([1.0, 0.3, np.nan, -1.0, 7.0]), st.floats(0.0, 3.0))
def test_the_budget_is_never_overspent_whatever_the_controller_does(proposals, limit, push, braking):
    limit += braking
    stop = Fallback(
        lambda seen: np.full((len(seen), 1), push), lambda seen: np.ones(len(seen)), reserve=2.0, braking=braking
    )
    guard = guard_of(stop, limit, num_envs=2)
    for _ in walk(guard, proposals):
        pass
    guard.recorder.end(guard.recorder.running, ~guard.recorder.running)
    assert guard.recorder.violations == 0
    assert all(episode.cost <= limit - braking + 1e-6 for episode in guard.recorder.episodes)


def test_the_episode_goes_on_after_a_takeover_and_its_steps_are_counted():
    guard = guard_of(Fallback(climb, way_out, reserve=2.0))
    taken = [info["shield"]["takeover"] for _, _, (_, _, _, (info,)) in walk(guard, [1.0] * 40)]
    (episode,) = guard.recorder.episodes
    assert episode.length == 40
    assert not episode.stopped
    assert 0 < episode.takeovers == sum(taken) == guard.recorder.takeovers < 40
    assert episode.interventions == 0
    (stopped, *_) = stopped_episodes(guard_of(Reset()))
    assert stopped.length < 40
    assert stopped.takeovers == 0


def stopped_episodes(guard):
    for _ in walk(guard, [1.0] * 40):
        pass
    assert guard.recorder.stops > 0
    return guard.recorder.episodes


def test_the_penalty_is_paid_once_by_the_transition_that_leads_to_a_takeover():
    def rewards(penalty):
        guard = guard_of(Fallback(climb, way_out, reserve=2.0, penalty=penalty))
        outcomes = [outcome for _, _, outcome in walk(guard, [1.0] * 30)]
        taken = np.array([infos[0]["shield"]["takeover"] for *_, infos in outcomes])
        return np.array([paid[0] for _, paid, _, _ in outcomes]), taken

    (free, taken), (fined, _) = rewards(0.0), rewards(0.25)
    begins = np.append(taken[1:] & ~taken[:-1], False)
    assert begins.sum() > 1
    np.testing.assert_allclose(free - fined, 0.25 * begins)


def test_braking_stops_so_much_earlier():
    for braking, cost in [(0, 8), (3, 5)]:
        first = stopped_episodes(guard_of(Reset(braking=braking)))[0]
        assert first.cost == cost


def test_a_fallback_that_never_takes_over_changes_nothing():
    def episodes(stop):
        options = {"n_steps": 64}
        agent = MASE(DummyVecEnv([Pit] * 4), Budget(7.0), Unknown(), TRPO, learner_options=options, seed=3, backup=stop)
        return agent.learn(1024).episodes

    reset = episodes(None)
    assert any(episode.stopped for episode in reset)
    assert reset == episodes(Fallback(climb, lambda seen: np.zeros(len(seen))))


def test_a_bound_that_is_no_number_takes_over():
    guard = guard_of(Fallback(climb, lambda seen: np.full(len(seen), np.nan)))
    assert all(infos[0]["shield"]["takeover"] for _, _, (*_, infos) in walk(guard, [1.0] * 5))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Reset(braking=-1), r"Reset\(braking=-1\) must be finite and at least 0"),
        (lambda: Fallback(climb, way_out, reserve=np.inf), r"Fallback\(reserve=inf, spare=2.0\) must be finite"),
        (lambda: Fallback(climb, way_out, spare=np.inf), r"Fallback\(reserve=5.0, spare=inf\) must be finite"),
        (lambda: Fallback(climb, way_out, reserve=-0.1), r"Fallback\(reserve=-0.1, spare=2.0\) must be finite"),
        (lambda: Fallback(climb, way_out, spare=-0.1), r"Fallback\(reserve=5.0, spare=-0.1\) must be finite"),
        (lambda: guard_of(Reset(braking=9)), "braking=9 leaves nothing of Budget, whose threshold begins at 8"),
        (lambda: guard_of(Fallback(climb, way_out), limit=6.0), "Budget leaves no budget for a way out.*6 are kept"),
        (lambda: guard_of(Fallback(climb, lambda seen: 1.0)).reset(), r"way_out returned shape \(\), expected \(1,\)"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_limits_on_every_step_are_sent_to_safe_action():
    for constraint in (Instantaneous(0.5), AllOf(Budget(20.0), Instantaneous(0.5))):
        with pytest.raises(ValueError, match="give the controller as safe_action="):
            Fallback(climb, way_out).check(constraint, DummyVecEnv([Pit]))
