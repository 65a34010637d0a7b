"""Closed loop of a reactor whose log ends below the limit: `python tools/beyond_the_log.py`.

The log of a cautious controller of the textbook's stirred tank reactor (exothermic, first order; Seborg, Edgar and
Mellichamp) ends at some temperature. For limits above it by several gaps, the shield that `safexp.examine` recommends
is put around a controller that heats towards a point beyond the limit, and the reactor itself counts what happens.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from rich.console import Console
from rich.table import Table

import safexp
from safexp.core.arrays import Array
from safexp.records.statistics import exact_interval

STEPS = 100
MINUTES, PARTS = 0.26, 4
COOLANT, SWING = 299.0, 6.0


class Reactor(gym.Env[Array, Array]):
    """Concentration and temperature (K) of a reactor, and the temperature of its coolant as action in [−1, 1].

    `hottest` is the ledger of an episode: the highest temperature that the reactor reached after a step.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = np.array([self.np_random.uniform(0.82, 0.9), self.np_random.uniform(318.0, 324.0)])
        self.steps, self.hottest = 0, -math.inf
        return self.state.copy(), {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        coolant = COOLANT + SWING * float(np.clip(action, -1.0, 1.0)[0])
        for _ in range(PARTS):
            self.state = runge_kutta(self.state, coolant, MINUTES / PARTS)
        self.steps += 1
        temperature = float(self.state[1])
        self.hottest = max(self.hottest, temperature)
        return self.state.copy(), temperature, False, self.steps == STEPS, {}


def rates(state: Array, coolant: float) -> Array:
    """Derivatives of concentration and temperature per minute."""
    concentration, temperature = state
    reaction = 7.2e10 * math.exp(-8750.0 / temperature) * concentration
    return np.array(
        [
            1.0 - concentration - reaction,
            350.0 - temperature + 5e4 / 239 * reaction + 500 / 239 * (coolant - temperature),
        ]
    )


def runge_kutta(state: Array, coolant: float, span: float) -> Array:
    """State after a span of minutes."""
    first = rates(state, coolant)
    second = rates(state + span / 2 * first, coolant)
    third = rates(state + span / 2 * second, coolant)
    fourth = rates(state + span * third, coolant)
    return state + span / 6 * (first + 2 * second + 2 * third + fourth)


def cautious_log(episodes: int, seed: int) -> safexp.Log:
    """Log of a slow controller that follows a set point between 321 and 328 K, another one in every episode."""
    env, rng, rows = Reactor(), np.random.default_rng(seed), []
    for episode in range(episodes):
        now, _ = env.reset(seed=seed + episode)
        target, ended = rng.uniform(321.0, 328.0), False
        while not ended:
            action = np.clip(cautious(now[None], target)[0] + 0.15 * rng.standard_normal(1), -1.0, 1.0)
            following, _, _, ended, _ = env.step(action)
            rows.append((now, action, following, episode))
            now = following
    before, actions, after, numbers = map(np.array, zip(*rows, strict=True))
    return safexp.Log(before, actions, episodes=numbers, next_observations=after)


def cautious(observations: Array, target: float) -> Array:
    """Heat slowly towards the target, and cool quickly above it."""
    short = target - observations[:, 1:]
    return np.clip(np.where(short > 0, 0.18, 0.5) * short, -1.0, 1.0)


def recommended_shield(log: safexp.Log, limit: float) -> safexp.Shield | None:
    """The shield that the doctor's lines build, or None where it recommends none."""
    found = safexp.examine(
        log,
        constraint=safexp.Within(1, high=limit),
        observation_space=Reactor.observation_space,
        action_space=Reactor.action_space,
        resets=True,
    )
    if not found.lines:
        return None
    names: dict[str, Any] = {"log": log}
    exec(found.lines, names)
    shield: safexp.Shield = names["shield"]
    return shield


def closed_loop(shield: safexp.Shield, limit: float, episodes: int, seed: int) -> dict[str, float]:
    """Drive towards 3 K beyond the limit behind the shield; the cautious controller is the backup."""
    env, missed, hottest, stopped = Reactor(), 0, [], 0
    for episode in range(episodes):
        now, _ = env.reset(seed=seed + episode)
        rng, ended = np.random.default_rng(seed + episode), False
        wrong = False
        while not ended:
            proposal = np.clip(0.4 * (limit + 3.0 - now[1:]) + 0.3 * rng.standard_normal(1), -1.0, 1.0)
            decision = shield.filter(now, proposal)
            stopped += decision.stopped
            before = env.hottest
            now, _, _, ended, _ = env.step(cautious(now[None], limit - 15)[0] if decision.stopped else decision.action)
            wrong |= not decision.stopped and before <= limit < env.hottest
        missed += wrong
        hottest.append(env.hottest - limit)
    return {
        "missed": missed,
        "most": max(hottest),
        "reached": float(np.mean(hottest)),
        "stopped": stopped / STEPS / episodes,
    }


def main() -> None:
    """Print one row for every gap."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gaps", type=float, nargs="+", default=[0.5, 1.0, 2.0], help="K from log to limit")
    parser.add_argument("--episodes", type=int, default=100, help="of the closed loop")
    parser.add_argument("--seed", type=int, default=1000)
    asked = parser.parse_args()
    log = cautious_log(100, asked.seed)
    top, spread = float(log.next_observations[:, 1].max()), float(log.observations[:, 1].std())
    table = Table(
        "gap (K)", "deviations", "quantifier", "scale", "missed", "at most", "K over", "K short, mean", "backup"
    )
    for gap in asked.gaps:
        shield = recommended_shield(log, top + gap)
        if shield is None:
            table.add_row(f"{gap:g}", f"{gap / spread:.2f}", "none recommended")
            continue
        found = closed_loop(shield, top + gap, asked.episodes, asked.seed + 100_000)
        model = shield.quantifier
        assert isinstance(model, safexp.Calibrated), "recommended by the doctor"
        assert isinstance(model.quantifier, safexp.ChangeModel), "recommended by the doctor"
        table.add_row(
            f"{gap:g}",
            f"{gap / spread:.2f}",
            type(model.quantifier.quantifier).__name__,
            f"{model.scale:.2f}",
            f"{found['missed']:.0f} of {asked.episodes}",
            f"{exact_interval(int(found['missed']), asked.episodes)[1]:.1%}",
            f"{max(found['most'], 0.0):.3f}",
            f"{-found['reached']:.2f}",
            f"{found['stopped']:.1%}",
        )
    console = Console(width=120)
    console.print(f"log: {len(log.actions):,} steps, highest temperature {top:.2f} K, deviation {spread:.2f} K")
    console.print(table)


if __name__ == "__main__":
    main()
