"""A policy that learns to leave a pit from what was driven there, and how it is judged."""

from __future__ import annotations

import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv

from safexp import MASE, TRPO, AllOf, Budget, Instantaneous, Unknown
from safexp.backups.learned_reset import LearnedReset, near_in_time
from safexp.backups.recovery import Driven, Reset
from safexp.core.costs import Step
from safexp.core.files import CheckpointError
from support.line import Line
from support.pit import Narrow

N = 4


def ready(**options):
    stop = LearnedReset(**options)
    stop.check(Budget(20.0), DummyVecEnv([Narrow] * N))
    return stop


def driven(place, move, driving, driving_on, stopped=False, cost=None, ended=False):
    """A step of N environments that are all alike."""
    before, actions = np.full((N, 1), place), np.full((N, 1), move, dtype=np.float32)
    after = before + actions
    costs = (after[:, 0] > 0).astype(float) if cost is None else np.full(N, cost)
    flags = (np.full(N, flag) for flag in (driving, driving_on, ended or stopped, stopped))
    return Driven(Step(before, actions, after, lambda key: costs), costs, *flags)


@pytest.mark.slow
def test_it_learns_the_way_out_and_what_it_costs_from_random_steps():
    stop = ready(gradient_steps=400)
    rng = np.random.default_rng(0)
    for _ in range(400):
        places, moves = rng.uniform(-3, 6, size=(N, 1)), rng.uniform(-1, 1, size=(N, 1)).astype(np.float32)
        after = places + moves
        costs, no = (after[:, 0] > 0).astype(float), np.zeros(N, dtype=bool)
        stop.note(Driven(Step(places, moves, after, lambda key, costs=costs: costs), costs, no, no, no, no))
    for _ in range(3):
        stop.learn()
    places = np.array([[2.0], [4.0]])
    assert np.all(stop.act(places) < -0.8)
    outside, shallow, deep = stop.cost_to_go(np.array([[-2.5], [2.0], [5.0]]))
    assert outside < 0.5 < shallow < deep
    # The true cost of climbing from 5 is 4 steps, discounted a little.
    assert 2.5 < deep < 6.0


def test_a_miss_moves_the_offset_up_and_anything_else_a_little_down():
    stop = ready(delta=0.1, rate=1.0)
    stop.offset = 5.0
    promise = float(stop.cost_to_go(np.array([[1.0]]))[0]) + 5.0
    stop.note(driven(1.0, 1.0, False, True))  # the learner's last step: costs 1, and the takeover begins
    stop.note(driven(2.0, -1.0, True, True))
    stop.note(driven(1.0, -1.0, True, False))
    assert promise > 2
    assert (stop.takeovers, stop.misses, stop.failures) == (N, 0, 0)
    assert stop.offset == pytest.approx(5.0 - N * 0.1)
    stop.note(driven(1.0, 1.0, False, True))
    stop.note(driven(2.0, -1.0, True, False, stopped=True))
    assert (stop.takeovers, stop.misses, stop.failures) == (2 * N, N, N)
    assert stop.offset == pytest.approx(5.0 - N * 0.1 + N * 0.9)
    stop.note(driven(1.0, 1.0, False, True))
    for _ in range(15):
        stop.note(driven(5.0, 0.0, True, True))
    stop.note(driven(1.0, -1.0, True, False))
    assert (stop.misses, stop.failures) == (2 * N, N)
    assert stop.offset == 10.0  # half of the budget is the most
    told = {"reset_judged": 3 * N, "reset_missed": 2 * N, "reset_failed": N, "reset_offset": 10.0}
    assert stop.metrics() == told


def test_what_an_episode_cuts_short_is_not_judged():
    stop = ready()
    stop.note(driven(1.0, 1.0, False, True))
    stop.note(driven(2.0, -1.0, True, False, ended=True))
    stop.note(driven(2.0, -1.0, True, False))  # drove from a first state, so nothing was promised
    assert stop.takeovers == 0


def test_steps_near_a_cost_are_found():
    costly = np.zeros((200, 2), dtype=bool)
    costly[100, 0] = True
    near = near_in_time(costly)
    assert not near[:, 1].any()
    np.testing.assert_array_equal(np.flatnonzero(near[:, 0]), np.arange(75, 126))


@pytest.mark.slow
def test_it_is_trained_alongside_and_saved_with_its_agent(tmp_path):
    options = {"n_steps": 128}
    stop = LearnedReset(gradient_steps=20, seed=1)
    agent = MASE(
        DummyVecEnv([Narrow] * N), Budget(8.0), Unknown(), TRPO, learner_options=options, seed=0, backup=stop
    ).learn(2048)
    assert not any(episode.violated for episode in agent.episodes)
    assert stop.learner.replay_buffer.size() > 0
    agent.save(tmp_path / "agent.safexp")
    again = LearnedReset()
    MASE.load(tmp_path / "agent.safexp", DummyVecEnv([Narrow]), backup=again)
    places = np.linspace(-3, 5, 7)[:, None]
    np.testing.assert_array_equal(again.act(places), stop.act(places))
    assert again.offset == stop.offset
    other = MASE(DummyVecEnv([Narrow]), Budget(8.0), Unknown(), TRPO, learner_options=options, seed=0, backup=Reset())
    other.save(tmp_path / "other.safexp")
    with pytest.raises(CheckpointError, match="holds no learned reset: it was saved with another backup"):
        MASE.load(tmp_path / "other.safexp", DummyVecEnv([Narrow]), backup=LearnedReset())


def test_mistakes_are_named():
    with pytest.raises(ValueError, match=r"LearnedReset\(delta=0, rate=2.0\) needs 0 < delta < 1"):
        LearnedReset(delta=0)
    with pytest.raises(ValueError, match="bounded real actions under a single constraint, not Discrete"):
        LearnedReset().check(Budget(20.0), DummyVecEnv([lambda: Line(discrete=True)]))
    with pytest.raises(ValueError, match="under AllOf: use Fallback"):
        LearnedReset().check(AllOf(Budget(20.0), Budget(9.0)), DummyVecEnv([Line]))


def test_a_takeover_that_is_ended_between_steps_is_judged_there():
    stop = ready()
    stop.note(driven(0.5, 0.0, driving=False, driving_on=True))
    rows = np.arange(N) < 2
    stop.end(rows, stopped=True)
    assert (stop.takeovers, stop.failures) == (2, 2)
    stop.end(~rows, stopped=False)
    stop.note(driven(0.5, 0.0, driving=False, driving_on=False))  # of the next episodes
    assert stop.takeovers == 2


def test_what_is_put_to_use_does_not_learn():
    stop = ready()
    stop.freeze()
    before = stop.offset
    stop.note(driven(0.5, 0.0, driving=False, driving_on=True))
    stop.note(driven(0.5, 0.0, driving=True, driving_on=False, stopped=True))
    stop.learn()
    assert (stop.offset, stop.takeovers, stop.learner.replay_buffer.size()) == (before, 0, 0)


def test_without_a_budget_there_is_no_way_to_drive_out():
    with pytest.raises(ValueError, match="Instantaneous leaves no budget for a way out, which LearnedReset needs"):
        LearnedReset().check(Instantaneous(0.5), DummyVecEnv([Narrow] * N))
