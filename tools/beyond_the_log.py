"""Closed loop of smooth systems whose log ends below the limit: `python tools/beyond_the_log.py`.

A cautious controller records a log of a system that ends at some value of the limited signal. For limits above it by
several gaps, a shield is put around a controller that heads for a point beyond the limit, and the system itself counts
what happens. The shield is the one that `safexp.examine` recommends, or `Calibrated` around a model that is named.

`Rollout` looks ahead to a backup that retreats at full power, which also drove once in every episode of its log.

The systems are an exothermic reactor (Seborg, Edgar and Mellichamp; `cstr` in the package pcgym), the same with a
bolder log, a bioreactor (Monod, with inhibition by the substrate), a vehicle with drag and a lagging engine, and a
kettle whose reaction runs away a little above its log.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
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
HORIZON = 20
"""Steps of the backup."""

PARTS = 4
"""Steps of the integration in a step of the controller."""


@dataclass(frozen=True)
class System:
    """A smooth system: derivatives of its state under an action in [−1, 1], its limited signal, and its controllers.

    Attributes:
        rates: derivatives of the state, given the state and the action.
        signal: index of the limited entry of the state.
        span: duration of a step.
        starts: lowest and highest first state.
        targets: lowest and highest set point of the cautious controller, another one in every episode.
        gain: of the cautious controller below its set point, and above it.
        overshoot: how far beyond the limit the eager controller heads.
        gaps: from the log to the limit.
    """

    rates: Callable[[Array, float], Array]
    signal: int
    span: float
    starts: tuple[tuple[float, ...], tuple[float, ...]]
    targets: tuple[float, float]
    gain: tuple[float, float]
    overshoot: float
    gaps: tuple[float, ...]


class Plant(gym.Env[Array, Array]):
    """A system as an environment; `highest` is the ledger of an episode: the signal's highest value after a step."""

    action_space = spaces.Box(-1.0, 1.0, (1,), np.float64)

    def __init__(self, system: System) -> None:
        self.system = system
        self.observation_space = spaces.Box(-np.inf, np.inf, (len(system.starts[0]),), np.float64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = self.np_random.uniform(*self.system.starts)
        self.steps, self.highest = 0, -math.inf
        return self.state.copy(), {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        push = float(np.clip(action, -1.0, 1.0)[0])
        for _ in range(PARTS):
            self.state = runge_kutta(self.system.rates, self.state, push, self.system.span / PARTS)
        self.steps += 1
        reached = float(self.state[self.system.signal])
        self.highest = max(self.highest, reached)
        return self.state.copy(), reached, False, self.steps == STEPS, {}


def runge_kutta(rates: Callable[[Array, float], Array], state: Array, push: float, span: float) -> Array:
    """State after a span of time."""
    first = rates(state, push)
    second = rates(state + span / 2 * first, push)
    third = rates(state + span / 2 * second, push)
    fourth = rates(state + span * third, push)
    return state + span / 6 * (first + 2 * second + 2 * third + fourth)


def reactor(state: Array, push: float) -> Array:
    """Concentration and temperature (K) per minute; the action sets the coolant's temperature."""
    concentration, temperature = state
    coolant = 299.0 + 6.0 * push
    reaction = 7.2e10 * math.exp(-8750.0 / temperature) * concentration
    return np.array(
        [
            1.0 - concentration - reaction,
            350.0 - temperature + 5e4 / 239 * reaction + 500 / 239 * (coolant - temperature),
        ]
    )


def bioreactor(state: Array, push: float) -> Array:
    """Biomass and substrate (g/l) per hour; the action sets the dilution."""
    biomass, substrate = state
    dilution = 0.3 + 0.15 * push
    growth = 0.53 * substrate / (0.12 + substrate + substrate**2 / 2.2)
    return np.array(
        [(growth - dilution) * biomass, dilution * (4.0 - substrate) - growth * biomass / 0.4],
    )


def vehicle(state: Array, push: float) -> Array:
    """Speed (m/s) and force of the engine per second; the action sets the force."""
    speed, force = state
    return np.array([4.0 * force - 0.004 * speed * abs(speed) - 0.05 * speed, (push - force) / 0.3])


def kettle(state: Array, push: float) -> Array:
    """Temperatures (°C) of a kettle and its jacket per minute; the action sets the jacket's, and heat makes heat."""
    heat, jacket = state
    return np.array(
        [0.08 * (jacket - heat) + 0.5 * math.exp(min((heat - 80.0) / 6.0, 5.0)), 60.0 + 50.0 * push - jacket]
    )


SYSTEMS = {
    "reactor": System(
        reactor,
        signal=1,
        span=0.26,
        starts=((0.82, 318.0), (0.9, 324.0)),
        targets=(321.0, 328.0),
        gain=(0.18, 0.5),
        overshoot=3.0,
        gaps=(0.5, 1.0, 2.0),
    ),
    "reactor, bolder log": System(
        reactor,
        signal=1,
        span=0.26,
        starts=((0.82, 318.0), (0.9, 324.0)),
        targets=(321.0, 331.0),
        gain=(0.25, 0.5),
        overshoot=3.0,
        gaps=(0.5, 1.5),
    ),
    "bioreactor": System(
        bioreactor,
        signal=1,
        span=0.5,
        starts=((1.3, 0.1), (1.5, 0.3)),
        targets=(0.15, 0.5),
        gain=(2.0, 6.0),
        overshoot=0.5,
        gaps=(0.05, 0.15),
    ),
    "vehicle": System(
        vehicle,
        signal=0,
        span=0.2,
        starts=((5.0, 0.0), (15.0, 0.2)),
        targets=(10.0, 25.0),
        gain=(0.15, 0.5),
        overshoot=8.0,
        gaps=(1.0, 4.0),
    ),
    "kettle": System(
        kettle,
        signal=0,
        span=1.0,
        starts=((40.0, 40.0), (60.0, 60.0)),
        targets=(55.0, 72.0),
        gain=(0.05, 0.1),
        overshoot=6.0,
        gaps=(3.0, 8.0),
    ),
}
LOOKAHEAD = "Rollout"
MODELS: dict[str, Callable[[], safexp.Quantifier]] = {
    "SparseGP": lambda: safexp.Calibrated(safexp.SparseGP()),
    "FeatureRegression": lambda: safexp.Calibrated(safexp.FeatureRegression()),
    LOOKAHEAD: lambda: safexp.Calibrated(safexp.Rollout()),
}


def cautious(system: System, observations: Array, target: float) -> Array:
    """Go slowly up to the target, and quickly down to it."""
    short = target - observations[:, system.signal, None]
    return np.clip(np.where(short > 0, *system.gain) * short, -1.0, 1.0)


def retreat(observations: Array) -> Array:
    """Full power away from the limit."""
    return -np.ones((len(observations), 1))


def cautious_log(system: System, episodes: int, seed: int, *, drills: bool = False) -> safexp.Log:
    """Log of the cautious controller with noise on its actions; with drills the backup drives once in every episode."""
    env, rng, rows = Plant(system), np.random.default_rng(seed), []
    for episode in range(episodes):
        now, _ = env.reset(seed=seed + episode)
        target, ended = rng.uniform(*system.targets), False
        begin = STEPS // 4 + episode % (STEPS // 2)
        while not ended:
            action = np.clip(cautious(system, now[None], target)[0] + 0.15 * rng.standard_normal(1), -1.0, 1.0)
            if drills and begin <= env.steps <= begin + HORIZON:
                action = retreat(now[None])[0]
            following, _, _, ended, _ = env.step(action)
            rows.append((now, action, following, episode))
            now = following
    before, actions, after, numbers = map(np.array, zip(*rows, strict=True))
    return safexp.Log(before, actions, episodes=numbers, next_observations=after)


def recommended_shield(system: System, log: safexp.Log, limit: float) -> safexp.Shield | None:
    """The shield that the doctor's lines build, or None where it recommends none."""
    env = Plant(system)
    found = safexp.examine(
        log,
        constraint=safexp.Within(system.signal, high=limit),
        observation_space=env.observation_space,
        action_space=env.action_space,
        resets=True,
    )
    if not found.lines:
        return None
    names: dict[str, Any] = {"log": log}
    exec(found.lines, names)
    shield: safexp.Shield = names["shield"]
    return shield


def named_shield(system: System, log: safexp.Log, limit: float, model: str) -> safexp.Shield:
    """A shield with a calibrated model of all inputs."""
    env = Plant(system)
    constraint = safexp.Within(system.signal, high=limit)
    backup = safexp.Backup(retreat, HORIZON) if model == LOOKAHEAD else None
    shield = safexp.Shield(
        MODELS[model](), env.observation_space, env.action_space, constraint=constraint, backup=backup
    )
    shield.fit(log)
    return shield


def closed_loop(system: System, shield: safexp.Shield, limit: float, episodes: int, seed: int) -> dict[str, float]:
    """Head for a point beyond the limit behind the shield; without a backup the cautious controller takes over."""
    env, missed, highest, stopped = Plant(system), 0, [], 0
    low, high = system.targets
    for episode in range(episodes):
        now, _ = env.reset(seed=seed + episode)
        rng, ended = np.random.default_rng(seed + episode), False
        wrong = False
        while not ended:
            short = limit + system.overshoot - now[system.signal, None]
            proposal = np.clip(2 * system.gain[0] * short + 0.3 * rng.standard_normal(1), -1.0, 1.0)
            decision = shield.filter(now, proposal)
            stopped += decision.stopped or decision.takeover
            before = env.highest
            away = cautious(system, now[None], limit - 2 * (high - low))[0]
            now, _, _, ended, _ = env.step(away if decision.stopped else decision.action)
            wrong |= not decision.stopped and before <= limit < env.highest
        missed += wrong
        highest.append(env.highest - limit)
    return {
        "missed": missed,
        "most": max(highest),
        "reached": float(np.mean(highest)),
        "stopped": stopped / STEPS / episodes,
    }


def main() -> None:
    """Print one row for every system, gap and model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("--models", nargs="+", choices=["recommended", *MODELS], default=["recommended"])
    parser.add_argument("--episodes", type=int, default=100, help="of the closed loop")
    parser.add_argument("--seed", type=int, default=1000, help="of the log; the closed loop starts 100,000 later")
    asked = parser.parse_args()
    console = Console(width=140)
    table = Table("system", "gap", "deviations", "quantifier", "scale", "missed", "at most", "over", "short", "backup")
    for name in asked.systems:
        system = SYSTEMS[name]
        log = cautious_log(system, 100, asked.seed, drills=LOOKAHEAD in asked.models)
        top = float(log.next_observations[:, system.signal].max())
        spread = float(log.observations[:, system.signal].std())
        console.print(f"{name}: {len(log.actions):,} steps, highest {top:.4g}, deviation {spread:.3g}")
        for gap in system.gaps:
            for model in asked.models:
                own = (recommended_shield if model == "recommended" else named_shield)(
                    system, log, top + gap, *([] if model == "recommended" else [model])
                )
                cells = [name, f"{gap:g}", f"{gap / spread:.2f}"]
                if own is None:
                    table.add_row(*cells, "none recommended")
                    continue
                found = closed_loop(system, own, top + gap, asked.episodes, asked.seed + 100_000)
                calibrated = own.quantifier
                assert isinstance(calibrated, safexp.Calibrated), "recommended by the doctor, or named"
                inner = calibrated.quantifier
                table.add_row(
                    *cells,
                    type(inner.quantifier if isinstance(inner, safexp.ChangeModel) else inner).__name__,
                    f"{calibrated.scale:.2f}",
                    f"{found['missed']:.0f} of {asked.episodes}",
                    f"{exact_interval(int(found['missed']), asked.episodes)[1]:.1%}",
                    f"{max(found['most'], 0.0):.2g}",
                    f"{-found['reached']:.3g}",
                    f"{found['stopped']:.1%}",
                )
    console.print(table)


if __name__ == "__main__":
    main()
