"""A ledger inside the environments, and a plain account of each episode, say the same as the guard does."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.vec_env import DummyVecEnv

from safexp import Budget, Instantaneous, Known, Penalty, Schedule, Shield, Unknown
from safexp.backups.recovery import Fallback, Reset
from safexp.envs.guard import Guard
from safexp.envs.vector import as_vec_env
from support.line import Line, line_cost

HORIZONS = (4, 7, 3)
N = len(HORIZONS)


class Ledger(Line):
    """Writes down where it was, what was done there, what that paid and cost, and where it led."""

    def __init__(self, horizon):
        super().__init__(horizon)
        self.book = []

    def reset(self, **options):
        self.book.append([])
        return super().reset(**options)

    def step(self, action):
        before = self.place
        observation, _, terminated, truncated, info = super().step(action)
        reward = 1.0 + self.place
        self.book[-1].append((before, self.place - before, reward, info["cost"], info["margin"], self.place))
        return observation, reward, terminated, truncated, info


class Account:
    """b_h of one episode, from its definition."""

    def __init__(self, constraint):
        self.constraint = constraint
        self.costs = []

    @property
    def threshold(self):
        match self.constraint:
            case Budget(limit=limit, discount=discount):
                spent = sum(discount**h * cost for h, cost in enumerate(self.costs))
                return (limit - spent) / discount ** len(self.costs)
            case Instantaneous(limit=limit):
                return limit
            case Schedule(limits=limits):
                return limits[min(len(self.costs), len(limits) - 1)]


def guarded(constraint, quantifier, vector=False, **options):
    make = [lambda h=h: Ledger(h) for h in HORIZONS]
    envs = SyncVectorEnv(make) if vector else DummyVecEnv(make)
    venv = as_vec_env(envs)
    shield = Shield(quantifier, venv.observation_space, venv.action_space, num_candidates=9)
    return Guard(venv, constraint, shield, Penalty(3.0), **options), envs.envs


constraints = st.one_of(
    st.builds(Instantaneous, st.floats(0.0, 1.2)),
    st.builds(Budget, st.floats(1.0, 4.0), st.sampled_from([1.0, 0.9, 0.5])),
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=9).map(Schedule),
)
moves = st.lists(st.lists(st.floats(-1.4, 1.4), min_size=N, max_size=N), min_size=1, max_size=25)


@settings(max_examples=40)
@given(constraints, st.booleans(), st.booleans(), st.sampled_from([0.0, 0.75]), moves)
def test_the_guard_does_what_the_ledger_says(constraint, knows, vector, braking, proposals):
    if not isinstance(constraint, Budget):
        knows, braking = True, 0.0
    elif constraint.limit < 1 + braking:
        braking = 0.0
    quantifier = Known(line_cost) if knows else Unknown()
    guard, envs = guarded(constraint, quantifier, vector, backup=Reset(braking=braking))
    largest = constraint.largest_threshold
    shown = constraint.in_observation
    observations = guard.reset()
    accounts = [Account(constraint) for _ in range(N)]
    told = []
    for proposal in proposals:
        before = [account.threshold for account in accounts]
        given_actions = np.array(proposal, dtype=np.float32)[:, None]
        observations, rewards, dones, infos = guard.step(given_actions)
        for i, (env, account) in enumerate(zip(envs, accounts, strict=True)):
            said = infos[i]["shield"]
            over = dones[i]
            row = env.book[-2 if over else -1][-1]
            place, move, reward, cost, margin, after = row
            assert said["threshold"] == pytest.approx(before[i], abs=1e-6)
            assert float(said["action"][0]) == pytest.approx(move, abs=1e-6)
            assert cost <= max(before[i] - braking, 0.0) + 1e-6
            clipped = float(np.clip(given_actions[i, 0], -1, 1))
            assert said["intervened"] == (float(said["action"][0]) != clipped)
            told.append((i, len(env.book) - (2 if over else 1), place, move, cost, before[i], margin))
            account.costs.append(cost)
            following = account.threshold
            timed_out = len(account.costs) == HORIZONS[i]
            stopped = not knows and not timed_out and following - braking < 1 - 1e-9
            assert over == (timed_out or stopped)
            assert said["stopped"] == stopped
            assert said["takeover"] is False
            assert rewards[i] == pytest.approx(-3.0 if stopped else reward, rel=1e-6)
            assert guard.last.rewards[i] == pytest.approx(reward)
            assert guard.last.stopped[i] == stopped
            assert guard.last.next_thresholds[i] == pytest.approx(following, abs=1e-6)
            assert guard.last.executed[i, 0] == pytest.approx(move, abs=1e-6)
            if over:
                assert infos[i]["TimeLimit.truncated"] == timed_out
                end = infos[i]["terminal_observation"]
                assert end[0] == pytest.approx(after, abs=1e-6)
                assert not shown or end[1] == pytest.approx(np.clip(following / largest, 0, 1), abs=1e-6)
                paid = [row[2] for row in env.book[-2]]
                assert infos[i]["episode"]["r"] == pytest.approx(sum(paid))
                assert infos[i]["episode"]["l"] == len(paid)
                accounts[i] = Account(constraint)
            assert observations[i][0] == pytest.approx(0.0 if over else after, abs=1e-6)
            if shown:
                assert observations[i][1] == pytest.approx(np.clip(accounts[i].threshold / largest, 0, 1), abs=1e-6)
        np.testing.assert_array_equal(observations, guard.observations)
    recorded_as_written(guard, envs)
    harvested_as_told(guard, told)


def recorded_as_written(guard, envs):
    """Every finished episode of the ledger is a row, with its steps, rewards and costs, and no other is."""
    written = [
        (len(rows), sum(row[2] for row in rows), sum(row[3] for row in rows)) for env in envs for rows in env.book[:-1]
    ]
    recorded = [(e.length, e.true_return, e.cost) for e in guard.recorder.episodes]
    np.testing.assert_allclose(sorted(recorded), sorted(written), atol=1e-5)  # SB3 keeps rewards in single precision
    assert not any(episode.violated for episode in guard.recorder.episodes)
    assert guard.recorder.steps == sum(len(rows) for env in envs for rows in env.book)
    assert guard.recorder.violations == 0


def harvested_as_told(guard, told):
    """What the quantifier gets are the transitions as they were, and no two episodes share a number."""
    (states, actions, costs, margins, episodes, *_), thresholds = guard.harvest()
    columns = np.array([row[2:] for row in told])
    found = np.stack([states[:, 0], actions[:, 0], costs, thresholds, margins], axis=1)
    np.testing.assert_allclose(found, columns, atol=1e-6)
    pairs = {((row[0], row[1]), int(number)) for row, number in zip(told, episodes, strict=True)}
    assert len(pairs) == len({episode for episode, _ in pairs}) == len({number for _, number in pairs})
    assert guard.harvest() is None


def climb(observations):
    return np.full((len(observations), 1), -1.0, dtype=np.float32)


@pytest.mark.parametrize("spare", [0.0, 1.0])
def test_a_takeover_is_told_paid_for_once_and_handed_back(spare):
    """From a place above 0 the way out costs as many units as the place is high."""
    stop = Fallback(climb, lambda seen: np.maximum(seen[:, 0], 0.0), reserve=1.0, spare=spare, penalty=0.25)
    guard, envs = guarded(Budget(5.0), Unknown(), backup=stop)
    guard.reset()
    remaining, driving = np.full(N, 5.0), np.zeros(N, dtype=bool)
    moved = False
    for _ in range(20):
        proposals = np.full((N, 1), 0.75, dtype=np.float32)
        _, rewards, dones, infos = guard.step(proposals)
        assert (proposals == 0.75).all(), "what the learner proposed is its own"
        for i, env in enumerate(envs):
            rows = env.book[-2 if dones[i] else -1]
            _, move, reward, cost, _, after = rows[-1]
            assert infos[i]["shield"]["takeover"] == driving[i]
            assert move == pytest.approx(-1.0 if driving[i] else 0.75)
            assert not infos[i]["shield"]["intervened"]
            remaining[i] -= cost
            needed = max(after, 0.0)
            short = needed > 0 and remaining[i] - 1 < needed + 1.0 + (spare if driving[i] else 0.0) - 1e-9
            taken = short and not driving[i] and not dones[i]
            if not infos[i]["shield"]["stopped"]:
                assert rewards[i] == pytest.approx(reward - (0.25 if taken else 0.0))
            moved |= bool(driving[i])
            driving[i] = short and not dones[i]
            if dones[i]:
                remaining[i] = 5.0
    assert moved
    assert guard.recorder.takeovers > 0


@pytest.mark.parametrize("shielding", [True, False])
def test_the_first_states_are_the_learners(shielding):
    """What the stop would only hold on to, it does not take at an episode's start."""
    stop = Fallback(climb, lambda seen: np.ones(len(seen)), reserve=1.0, spare=10.0)
    guard, _ = guarded(Budget(4.0), Unknown(), backup=stop, shielding=shielding)
    guard.reset()
    _, _, _, infos = guard.step(np.zeros((N, 1), dtype=np.float32))
    assert not any(info["shield"]["takeover"] for info in infos)


def test_without_a_shield_everything_runs_and_nothing_is_stopped():
    guard, envs = guarded(Budget(1.0), Unknown(), shielding=False)
    guard.reset()
    for _ in range(12):
        _, _, _, infos = guard.step(np.full((N, 1), 1.0, dtype=np.float32))
        assert not any(info["shield"]["stopped"] or info["shield"]["intervened"] for info in infos)
        assert not guard.recheck().any()
    assert all(row[1] == 1.0 for env in envs for rows in env.book for row in rows)
    assert guard.recorder.episodes
    assert all(episode.violated for episode in guard.recorder.episodes)
    running = sum(sum(row[3] for row in env.book[-1]) > 1.0 for env in envs)
    assert guard.recorder.violations == len(guard.recorder.episodes) + running
    assert guard.recorder.stops == 0
