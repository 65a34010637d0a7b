"""The theorem of docs/explanation/certificates.md on random finite problems: certified actions keep the constraint."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3.common.vec_env import DummyVecEnv

from safexp import Backup, BestBackup, Budget, Constraint, Instantaneous, Known
from safexp.envs.guard import Guard
from safexp.shield.shield import Shield

STATES, ACTIONS, STEPS = 8, 3, 25
RUNS, DELTA = 40, 0.2
FAR = 1e6


class Finite(gym.Env[np.int64, np.int64]):
    """A random problem with costs 0, ½ and 1; state 0 is at rest under action 0, and the ledger adds up true costs."""

    def __init__(self, seed: int, branches: int) -> None:
        rng = np.random.default_rng(seed)
        self.observation_space, self.action_space = spaces.Discrete(STATES), spaces.Discrete(ACTIONS)
        self.following = rng.integers(0, STATES, (STATES, ACTIONS, branches))
        self.costs = rng.choice([0.0, 0.0, 0.5, 1.0], (STATES, ACTIONS))
        self.following[0, 0], self.costs[0, 0] = 0, 0.0
        self.controller = rng.integers(0, ACTIONS, STATES)
        self.controller[0] = 0
        self.ledger: list[list[float]] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.int64, dict]:
        super().reset(seed=seed)
        self.state, self.taken = int(self.np_random.integers(STATES)), 0
        self.ledger.append([])
        self.first = self.state
        return np.int64(self.state), {}

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict]:
        cost = float(self.costs[self.state, action])
        self.ledger[-1].append(cost)
        self.state = int(self.np_random.choice(self.following[self.state, action]))
        self.taken += 1
        return np.int64(self.state), 0.0, False, self.taken >= STEPS, {"cost": cost}

    def worst(self, horizon: int, combine: Any, hold: int = 0) -> np.ndarray:
        """The worst of (state, action), which is held, then the controller for its horizon.

        `FAR` where it is then not at rest.
        """
        to_go = np.where(np.arange(STATES) == 0, 0.0, FAR)
        for _ in range(horizon):
            own = np.arange(STATES), self.controller
            to_go = combine(self.costs[own], to_go[self.following[own]].max(axis=1))
            to_go[0] = 0.0
        of_each = np.repeat(to_go[:, None], ACTIONS, axis=1)
        for _ in range(hold + 1):
            after = np.stack([of_each[self.following[:, a], a].max(axis=1) for a in range(ACTIONS)], axis=1)
            of_each = combine(self.costs, after)
        return of_each


def constraint_of(budget: float | None) -> tuple[Constraint, float]:
    """A limit of ½ on every step, or a budget, and the number that an episode must not exceed."""
    return (Instantaneous(0.5), 0.5) if budget is None else (Budget(budget), budget)


def driven(
    env: Finite,
    seed: int,
    horizon: int,
    budget: float | None,
    hold: tuple[int, ...] = (0,),
    keep: int = 0,
    trust: float = 1.0,
) -> tuple[Guard, bool]:
    """A guard after random proposals, and whether the ledger has an episode that broke the constraint.

    Certificates are the true worst costs, times `trust`. Episodes do not count that begin where the backup alone breaks
    the constraint: the theorem assumes that there are none.
    """
    constraint, limit = constraint_of(budget)
    combine = np.maximum if budget is None else np.add

    def certificate(held: int) -> Known:
        worst = trust * env.worst(horizon, combine, held)
        return Known(lambda states, actions: worst[states.argmax(axis=1), actions.argmax(axis=1)])

    def controller(observations: np.ndarray) -> np.ndarray:
        return env.controller[np.asarray(observations).astype(int)]

    venv = DummyVecEnv([lambda: env])
    venv.seed(seed)
    backup = Backup(controller, horizon, hold=hold, keep=keep, drills=0.1)
    certificates = [certificate(held) for held in hold]
    quantifier = certificates[0] if len(hold) == 1 else BestBackup(*certificates)
    shield = Shield(quantifier, venv.observation_space, venv.action_space, constraint=constraint, backup=backup)
    guard = Guard(venv, constraint, shield, None, backup=backup)
    guard.reset()
    rng, starts = np.random.default_rng(seed), [env.first]
    for _ in range(4 * STEPS):
        _, _, dones, _ = guard.step(rng.integers(0, ACTIONS, 1))
        if dones[0]:
            starts.append(env.first)
    guard.close()
    own = env.worst(horizon, combine)[np.arange(STATES), env.controller]
    total = max if budget is None else sum
    broken = [total(costs or [0.0]) > limit + 1e-9 for costs in env.ledger]
    return guard, any(broke and own[start] <= limit for start, broke in zip(starts, broken, strict=True))


@pytest.mark.slow
@given(
    seed=st.integers(0, 10_000),
    branches=st.integers(1, 2),
    horizon=st.integers(1, 10),
    budget=st.sampled_from([None, 0.0, 1.5, 3.0]),
    hold=st.sampled_from([(0,), (0, 2), (3, 0, 1)]),
    keep=st.sampled_from([0, 3]),
)
def test_certified_actions_and_the_backup_never_break_the_constraint(seed, branches, horizon, budget, hold, keep):
    guard, violated = driven(Finite(seed, branches), seed, horizon, budget, hold, keep)
    assert not violated
    assert guard.drills.missed == 0
    assert guard.recorder.stops == 0


@pytest.mark.slow
@pytest.mark.parametrize("budget", [None, 1.5])
def test_at_most_a_share_delta_of_runs_fails_if_that_share_of_certificates_is_wrong(budget):
    """A run fails if it breaks the constraint, or has to be stopped, as it is before it overspends a budget."""
    wrong = np.random.default_rng(0).uniform(size=RUNS) < DELTA
    failed = []
    for seed in range(RUNS):
        guard, violated = driven(Finite(seed, 1), seed, 5, budget, trust=0.0 if wrong[seed] else 1.0)
        failed.append(violated or guard.recorder.stops > 0)
    assert any(failed)
    assert not np.any(np.array(failed) & ~wrong)


def test_a_horizon_that_is_too_short_is_found_out():
    """A corridor that leads to a cost in two steps, whatever is done: one step ahead certifies it, two do not."""
    env = Finite(0, 1)
    env.following[:] = 0
    env.costs[:] = 0.0
    env.following[3, :], env.following[2, :], env.costs[2, :] = 2, 0, 1.0
    env.controller[:] = 0
    assert env.worst(1, np.maximum)[3, 0] == pytest.approx(1.0)
    assert env.worst(2, np.maximum)[3, 0] == pytest.approx(1.0)
    env.following[2, :], env.costs[2, :] = 4, 0.0
    assert env.worst(1, np.maximum)[3, 0] == FAR  # it is not at rest after its horizon
    assert env.worst(2, np.maximum)[3, 0] == pytest.approx(0.0)
