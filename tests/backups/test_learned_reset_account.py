"""What a learned reset keeps of a run, where it takes over, and how each takeover is judged, without any training."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from stable_baselines3.common.vec_env import DummyVecEnv

from safexp import AllOf, Budget, Instantaneous
from safexp.backups.learned_reset import NEARBY, NEGLIGIBLE, LearnedReset, near_in_time
from safexp.backups.recovery import Driven
from safexp.core.costs import Step
from safexp.core.files import CheckpointError
from support.pit import Narrow

N = 2
UNTRAINED = {"batch_size": 100_000}  # never so much is stored, so nothing is learned


def ready(limit=20.0, **options):
    stop = LearnedReset(**{"learner_options": UNTRAINED, **options})
    stop.check(Budget(limit), DummyVecEnv([Narrow] * N))
    return stop


def promising(costs, **options):
    """One whose cost-to-go is said to be this, one number for each environment."""
    stop = ready(**options)
    stop.cost_to_go = lambda states: np.asarray(costs, dtype=float)[: len(states)]
    return stop


def step_of(costs, driving, driving_on, ended=(False, False), stopped=(False, False), place=0.0, move=0.0):
    before, actions = np.full((N, 1), place), np.full((N, 1), move, dtype=np.float32)
    flags = (np.array(flag) for flag in (driving, driving_on, ended, stopped))
    return Driven(Step(before, actions, before + actions, lambda key: costs), np.array(costs, dtype=float), *flags)


HERE = np.zeros((N, 1))
BOTH, NEITHER, FIRST = (True, True), (False, False), (True, False)


@pytest.mark.parametrize("driving", [False, True])
def test_it_takes_over_just_where_what_remains_no_longer_covers_its_certificate(driving):
    stop = promising([3.0, 3.0], spare=2.0)
    stop.offset = 1.5
    least = 1 + 3.0 + 1.5 + (2.0 if driving else 0.0)
    taken = stop.takes_over(HERE, np.array([least, least - 0.25]), np.full(N, driving))
    np.testing.assert_array_equal(taken, [False, True])


def test_where_next_to_nothing_is_expected_it_does_not_drive():
    stop = promising([NEGLIGIBLE, NEGLIGIBLE + 0.01])
    np.testing.assert_array_equal(stop.takes_over(HERE, np.zeros(N), np.zeros(N, dtype=bool)), [False, True])


def test_the_certificate_is_the_worse_of_two_critics():
    stop = ready()
    states = np.linspace(-3, 3, 7)[:, None]
    with th.no_grad():
        tensor = th.as_tensor(states, dtype=th.float32)
        both = th.cat(stop.learner.critic(tensor, stop.learner.actor(tensor)), dim=1).numpy()
    assert (both[:, 0] != both[:, 1]).all()
    np.testing.assert_allclose(stop.cost_to_go(states), -both.min(axis=1))


@pytest.mark.parametrize(("spent", "missed"), [(3.0, False), (3.01, True)])
def test_a_takeover_misses_if_it_cost_more_than_was_certified_before_it(spent, missed):
    stop = promising([2.0, 0.0], delta=0.25, rate=0.5)
    stop.offset = 1.0
    stop.note(step_of([1.0, 0.0], NEITHER, FIRST))
    stop.cost_to_go = lambda states: np.full(len(states), 50.0)  # what is said later does not count
    stop.note(step_of([spent - 1.0, 1.0], FIRST, FIRST))
    stop.note(step_of([0.0, 1.0], FIRST, NEITHER))
    assert (stop.takeovers, stop.misses, stop.failures) == (1, int(missed), 0)
    assert stop.offset == pytest.approx(1.0 + 0.5 * (missed - 0.25))
    stop.note(step_of([0.0, 1.0], NEITHER, NEITHER))
    assert stop.takeovers == 1, "judged once"


def test_a_value_below_zero_certifies_nothing_for_free():
    stop = promising([-5.0, -5.0])
    stop.offset = 1.0
    stop.note(step_of([0.5, 0.0], NEITHER, FIRST))
    stop.note(step_of([0.0, 0.0], FIRST, NEITHER))
    assert (stop.takeovers, stop.misses) == (1, 0)


def test_each_takeover_has_an_account_of_its_own():
    stop = promising([2.0, 2.0])
    stop.offset = 1.0
    stop.note(step_of([1.0, 1.0], NEITHER, FIRST))
    stop.note(step_of([1.0, 1.0], FIRST, BOTH))  # the second begins here
    stop.note(step_of([5.0, 1.0], BOTH, (False, True)))
    assert (stop.takeovers, stop.misses) == (1, 1)
    stop.note(step_of([0.0, 0.5], (False, True), NEITHER))
    assert (stop.takeovers, stop.misses) == (2, 1)
    stop.note(step_of([1.0, 0.0], NEITHER, FIRST))
    stop.note(step_of([0.0, 0.0], FIRST, NEITHER))
    assert (stop.takeovers, stop.misses) == (3, 1), "what an earlier takeover spent is forgotten"


def test_a_stop_is_a_miss_whatever_it_cost_and_an_end_is_not_judged():
    stop = promising([9.0, 9.0])
    stop.note(step_of([0.0, 0.0], NEITHER, BOTH))
    stop.note(step_of([0.0, 0.0], BOTH, NEITHER, ended=BOTH, stopped=FIRST))
    assert (stop.takeovers, stop.misses, stop.failures) == (1, 1, 1)


def test_the_offset_stays_between_zero_and_half_of_what_the_constraint_begins_with():
    stop = promising([0.0, 0.0], limit=8.0, rate=100.0)
    assert stop.offset == 4.0
    stop.note(step_of([9.0, 0.0], NEITHER, FIRST))
    stop.note(step_of([0.0, 0.0], FIRST, NEITHER))
    assert (stop.misses, stop.offset) == (1, 4.0)
    for _ in range(5):
        stop.note(step_of([0.0, 0.0], NEITHER, FIRST))
        stop.note(step_of([0.0, 0.0], FIRST, NEITHER))
    assert stop.offset == 0.0


def stored(stop):
    buffer = stop.learner.replay_buffer
    rows = buffer.size()
    return (
        buffer.observations[:rows, 0],
        buffer.next_observations[:rows, 0],
        buffer.actions[:rows, 0],
        buffer.rewards[:rows, 0],
    )


def drive(stop, costs, first=0):
    for k, cost in enumerate(costs, start=first):
        stop.note(step_of([cost, 0.0], NEITHER, NEITHER, place=k / 100, move=0.5))
    stop.learn()


def test_steps_near_a_cost_are_kept_and_about_as_many_others():
    stop = ready()
    costs = np.zeros(400)
    costs[200] = 1.0
    drive(stop, costs)
    before, after, actions, rewards = stored(stop)
    near = 2 * NEARBY + 1
    assert near <= len(rewards) <= 3 * near
    assert (rewards == -1.0).sum() == 1
    assert rewards.min() == -1.0
    np.testing.assert_allclose(after - before, 0.5, atol=1e-6)
    np.testing.assert_array_equal(actions, 0.5)
    assert before[rewards == -1.0] == pytest.approx(2.0)
    assert not stop.learner.replay_buffer.dones.any(), "nothing that is stored is an end"
    drive(stop, [])
    assert len(stored(stop)[3]) == len(rewards), "each step is stored once"


def test_where_nothing_costs_nothing_is_kept_and_where_all_does_everything():
    stop = ready()
    drive(stop, np.zeros(50))
    assert len(stored(stop)[3]) == 0
    stop = ready()
    drive(stop, np.full(20, 0.5))
    np.testing.assert_array_equal(np.sort(stored(stop)[3]), [-0.5] * 20 + [0.0] * 20)


def test_a_full_store_writes_over_the_oldest():
    stop = ready(capacity=50)
    drive(stop, np.ones(15))
    assert (stop.learner.replay_buffer.pos, stop.learner.replay_buffer.full) == (30, False)
    drive(stop, np.ones(15), first=15)
    buffer = stop.learner.replay_buffer
    assert (buffer.pos, buffer.full, buffer.size()) == (10, True, 50)
    places = np.sort(np.unique(np.round(stored(stop)[0] * 100).astype(int)))
    assert set(places) >= set(range(5, 30)), "the newest are there"
    stop = ready(capacity=50)
    drive(stop, np.ones(25))
    assert (stop.learner.replay_buffer.pos, stop.learner.replay_buffer.full) == (0, True)


def test_nearness_is_counted_in_steps_of_the_same_environment():
    costly = np.zeros((3 * NEARBY, 2), dtype=bool)
    costly[0, 0] = costly[-1, 1] = True
    near = near_in_time(costly)
    np.testing.assert_array_equal(near[:, 0], np.arange(3 * NEARBY) <= NEARBY)
    np.testing.assert_array_equal(near[:, 1], np.arange(3 * NEARBY) >= 2 * NEARBY - 1)


def test_what_was_learned_goes_into_a_file_and_comes_back():
    stop, other = ready(), ready(seed=1)
    stop.offset = 2.25
    assert (stop.act(HERE) != other.act(HERE)).any()
    other.restore(stop.state())
    assert other.offset == 2.25
    np.testing.assert_array_equal(other.act(HERE), stop.act(HERE))
    with pytest.raises(CheckpointError, match="holds no learned reset"):
        other.restore({})


@pytest.mark.parametrize(
    "options", [{"delta": 0.0}, {"delta": 1.0}, {"delta": np.nan}, {"rate": 0.0}, {"rate": np.inf}, {"rate": -1.0}]
)
def test_settings_outside_their_range_are_refused(options):
    with pytest.raises(ValueError, match="needs 0 < delta < 1 and a rate above 0"):
        LearnedReset(**options)


def test_a_budget_must_leave_something_beyond_braking():
    venv = DummyVecEnv([Narrow])
    with pytest.raises(ValueError, match="leaves no budget for a way out"):
        LearnedReset().check(Budget(1.0), venv)
    with pytest.raises(ValueError, match="leaves no budget for a way out"):
        LearnedReset(braking=2.0).check(Budget(3.0), venv)
    LearnedReset(braking=2.0).check(Budget(3.1), venv)


def test_options_of_the_learner_come_before_ours():
    stop = ready(learner_options={"gamma": 0.5}, capacity=77)
    assert (stop.learner.gamma, stop.learner.tau) == (0.5, 0.02)
    assert stop.learner.replay_buffer.buffer_size == 77
    assert ready().learner.gamma == 0.97


def test_it_learns_once_there_is_more_than_a_batch():
    stop = ready(gradient_steps=3, learner_options={"batch_size": 40})
    before = stop.act(HERE + 1.0)
    drive(stop, np.ones(20))
    np.testing.assert_array_equal(stop.act(HERE + 1.0), before)
    drive(stop, np.ones(1))
    assert (stop.act(HERE + 1.0) != before).any()


def test_a_small_store_still_keeps_the_last_step():
    stop = ready(capacity=1)
    drive(stop, [0.0, 1.0])
    assert len(stored(stop)[3]) == 1


def test_the_defaults_are_those_of_the_documentation():
    stop = LearnedReset()
    told = (
        stop.delta,
        stop.rate,
        stop.gradient_steps,
        stop.capacity,
        stop.seed,
        stop.spare,
        stop.braking,
        stop.penalty,
    )
    assert told == (0.01, 2.0, 200, 100_000, 0, 2.0, 0.0, 0.0)
    assert (stop.takeovers, stop.misses, stop.failures) == (0, 0, 0)


def test_of_several_constraints_the_smallest_is_named():
    with pytest.raises(ValueError, match="AllOf leaves no budget for a way out"):
        LearnedReset().check(AllOf(Budget(20.0), Instantaneous(0.5)), DummyVecEnv([Narrow]))


def test_an_episode_that_ended_is_forgotten_and_the_others_are_followed():
    stop = promising([3.0, 3.0])
    stop.note(step_of([0.0, 0.0], NEITHER, BOTH))
    stop.end(np.array(FIRST), stopped=False)
    stop.note(step_of([0.0, 99.0], BOTH, NEITHER))
    assert (stop.takeovers, stop.misses) == (1, 1)
