"""A field trial on a small system of our own that looks foreign, and the ledger's independent count."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from safexp import Within
from safexp.studies.field.ledger import Book, Ledger
from safexp.studies.field.system import System
from safexp.studies.field.trial import COPIES, mean_interval, recorded, trial


class Cart(gym.Env[Any, Any]):
    """A cart on a rail: the further to the right, the better; the raw position is `place`, in cm."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.speed, self.count = 100.0 * self.np_random.uniform(-0.2, 0.2), 0.0, 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.speed += 0.1 * float(action[0])
        self.place += 10.0 * self.speed
        self.count += 1
        return self._seen(), self.place / 100.0, False, self.count == 60, {}

    def _seen(self) -> Any:
        return np.array([self.place / 100.0, self.speed])


def braking(seen: Any) -> Any:
    return np.clip(-5.0 * seen[:, 1:], -1.0, 1.0)


CART = System(
    make=Cart,
    limits=Within(0, -1.0, 1.0),
    reading=lambda env: [(-100.0, env.unwrapped.place, 100.0)],
    cautious=lambda seen: np.clip(0.5 * (0.5 - seen[:, :1]) - 2.0 * seen[:, 1:], -1.0, 1.0),
    backup=braking,
    horizon=12,
    noise=0.3,
    steps=4096,
    log_episodes=80,
)


def test_the_ledger_counts_every_step_also_of_unfinished_episodes():
    book = Book()
    env = Ledger(Cart(), CART.reading, book)
    env.reset(seed=0)
    for _ in range(20):
        env.step(np.ones(1))
    env.reset(seed=1)
    env.step(np.zeros(1))
    env.reset(seed=2)
    first, second = book.begun()
    assert first.steps == 20
    assert first.violated
    assert not second.violated
    assert len(book.entries) == 3


def test_a_reading_that_is_not_a_number_is_outside():
    book = Book()
    env = Ledger(Cart(), lambda env: [(-1.0, math.nan, 1.0)], book)
    env.reset(seed=0)
    env.step(np.zeros(1))
    assert book.begun()[0].outside == 1


def test_the_log_shows_the_backup_once_in_every_episode():
    log = recorded(CART, np.random.default_rng(0))
    own = np.abs(log.actions - braking(log.observations)).max(axis=1) < 1e-6
    for episode in range(CART.log_episodes):
        rows = own[log.episodes == episode]
        runs = "".join("b" if one else "." for one in rows)
        assert "b" * CART.horizon in runs


def test_interval_of_a_mean():
    low, high = mean_interval(np.array([1.0, 2.0, 3.0]))
    assert low == pytest.approx(2 - 4.302653 / math.sqrt(3), abs=1e-5)
    assert high == pytest.approx(2 + 4.302653 / math.sqrt(3), abs=1e-5)


@pytest.mark.slow
def test_a_trial_counts_like_the_ledger_and_keeps_the_limits():
    row = trial(CART, 0)
    assert row["violations"] == row["counted_by_safexp"] == 0
    assert row["episodes"] >= COPIES
    assert row["stops"] == row["after_stop_violations"] == 0
    assert row["bare_training_violations"] > 0
    assert row["gain_interval"][0] <= row["gain"] <= row["gain_interval"][1]
