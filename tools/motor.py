"""Closed loop of a motor behind the shield that the doctor recommends: `python tools/motor.py`.

Needs gym-electric-motor (`pip install gym-electric-motor`). A cautious current controller records a log of
`Cont-SC-PermExDc-v0`; `safexp.examine` is asked for a shield that keeps the current within ± 100 A, and its lines are
run as they are printed. Behind that shield a fast P controller of the speed, which knows nothing of the current, drives
episodes that the log does not have, and the environment itself counts those in which the current passed the limit. The
same controller behind a perfect model of one step is the yardstick, and holding 0 A the zero.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from rich.console import Console
from rich.table import Table

import safexp
from safexp.core.arrays import Array
from safexp.records.statistics import exact_interval

LIMIT = 100.0
STEPS = 200
FASTEST = 12.0
"""Largest set point of the speed, in rad/s: 100 A reach it within 18 of the 20 ms of an episode."""

CAUTIOUS = 50.0
"""Largest current that the log's controller asks for, in A."""

SPEED, CURRENT = 400.0, 210.0
RESISTANCE, FLUX, INDUCTANCE, SUPPLY, TICK = 0.016, 0.165, 19e-6, 60.0, 1e-4
"""Units of the environment's observations, and parameters of its motor, for the controllers."""

Drive = Callable[[Array], Array]


class Motor(gym.Env[Array, Array]):
    """The motor, without an end at its own limits, with set points of the speed that change in the episode.

    `hottest` is the ledger of an episode: the largest current, in A, that the motor reported after a step. The reward
    is minus the error of the speed.
    """

    def __init__(self, hold: int = 100, fastest: float = FASTEST) -> None:
        import gym_electric_motor  # needed by this tool alone

        self.motor = gym_electric_motor.make("Cont-SC-PermExDc-v0", constraints=())
        seen = self.motor.observation_space[0]
        self.observation_space = spaces.Box(-np.inf, np.inf, (seen.shape[0] + 1,), np.float64)
        self.action_space = self.motor.action_space
        self.hold, self.fastest = hold, fastest

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        (state, _), _ = self.motor.reset(seed=seed)
        self.targets = self.np_random.uniform(-self.fastest, self.fastest, -(-STEPS // self.hold)) / SPEED
        self.steps, self.hottest = 0, 0.0
        return self._seen(state), {"current": CURRENT * float(state[2])}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        target = self.targets[self.steps // self.hold]
        (state, _), _, _, _, _ = self.motor.step(np.asarray(action, dtype=np.float64))
        self.steps += 1
        current = CURRENT * float(state[2])
        self.hottest = max(self.hottest, abs(current))
        return self._seen(state), -abs(float(state[0]) - target), False, self.steps == STEPS, {"current": current}

    def _seen(self, state: Array) -> Array:
        return np.append(state, self.targets[min(self.steps, STEPS - 1) // self.hold])


def cautious(observations: Array) -> Array:
    """Voltage that brings the current halfway to a set point of at most 50 A in a step, proportional to the error."""
    speed, current = SPEED * observations[:, :1], CURRENT * observations[:, 2:3]
    wanted = np.clip(10.0 * (SPEED * observations[:, 5:] - speed), -CAUTIOUS, CAUTIOUS)
    voltage = RESISTANCE * current + FLUX * speed + 0.5 * INDUCTANCE / TICK * (wanted - current)
    return np.clip(voltage / SUPPLY, -1.0, 1.0)


def fast(observations: Array) -> Array:
    """Full voltage from an error of 2 rad/s on."""
    return np.clip(SPEED / 2.0 * (observations[:, 5:] - observations[:, :1]), -1.0, 1.0)


def recorded(env: Motor, episodes: int, seed: int, noise: float) -> safexp.Log:
    """Log of the cautious controller with noise on its actions."""
    rng, rows = np.random.default_rng(seed), []
    for episode in range(episodes):
        now, _ = env.reset(seed=seed + episode)
        ended = False
        while not ended:
            action = np.clip(cautious(now[None])[0] + noise * rng.standard_normal(1), -1.0, 1.0)
            following, _, _, ended, info = env.step(action)
            rows.append((now, action, following, info["current"], episode))
            now = following
    before, actions, after, current, numbers = map(np.array, zip(*rows, strict=True))
    return safexp.Log(before, actions, episodes=numbers, next_observations=after, signals={"current": current})


class Course(NamedTuple):
    """Result of a driver: episodes over the limit, the largest current, mean return, and shares of the decisions."""

    over: int
    hottest: float
    mean_return: float
    replaced: int = 0
    nothing: int = 0
    median: float = 0.0
    slow: float = 0.0


def driven(env: Motor, drive: Drive, seeds: Sequence[int]) -> Course:
    """Let a controller drive alone."""
    hottest, returns = [], []
    for seed in seeds:
        now, _ = env.reset(seed=seed)
        total, ended = 0.0, False
        while not ended:
            now, reward, _, ended, _ = env.step(drive(now[None])[0])
            total += reward
        hottest.append(env.hottest)
        returns.append(total)
    return Course(sum(one > LIMIT for one in hottest), max(hottest), float(np.mean(returns)))


def shielded(env: Motor, shield: safexp.Shield, seeds: Sequence[int]) -> Course:
    """Let the fast controller drive behind a shield, and the cautious one where nothing is certified."""
    hottest, returns, times, replaced, nothing = [], [], [], 0, 0
    for seed in seeds:
        now, info = env.reset(seed=seed)
        total, ended = 0.0, False
        while not ended:
            proposal = fast(now[None])[0]
            start = time.thread_time()
            decision = shield.filter(now, proposal, measured=[info["current"]])
            times.append(time.thread_time() - start)
            replaced, nothing = replaced + decision.intervened, nothing + decision.stopped
            now, reward, _, ended, info = env.step(cautious(now[None])[0] if decision.stopped else decision.action)
            total += reward
        hottest.append(env.hottest)
        returns.append(total)
    median, slow = np.percentile(1e3 * np.array(times), [50, 99])
    over = sum(one > LIMIT for one in hottest)
    return Course(over, max(hottest), float(np.mean(returns)), replaced, nothing, float(median), float(slow))


def perfect(log: safexp.Log) -> tuple[Drive, float]:
    """The fast controller behind a perfect model of one step, and the largest error of that model on a log, in A.

    The motor is linear, so its next current is a linear function of speed, current and voltage, exactly.
    """
    inputs = np.column_stack([log.observations[:, [0, 2]], log.actions])
    after = CURRENT * log.next_observations[:, 2]
    weights, *_ = np.linalg.lstsq(inputs, after, rcond=None)
    error = float(np.abs(after - inputs @ weights).max())
    most = LIMIT - 1e-3

    def drive(observations: Array) -> Array:
        rest = observations[:, [0, 2]] @ weights[:2, None]
        return np.clip(np.clip(fast(observations), (-most - rest) / weights[2], (most - rest) / weights[2]), -1, 1)

    return drive, error


def recommended_shield(env: Motor, log: safexp.Log) -> tuple[safexp.Shield | None, str]:
    """The shield that the doctor's lines build, and what they say; None where it recommends none."""
    found = safexp.examine(
        log,
        constraint=safexp.Within("current", -LIMIT, LIMIT),
        observation_space=env.observation_space,
        action_space=env.action_space,
    )
    if not found.lines:
        return None, found.verdict
    names: dict[str, Any] = {"log": log}
    exec(found.lines, names)
    return names["shield"], next(line for line in found.lines.splitlines() if line.startswith("quantifier"))


def main() -> None:
    """Print a table for every log."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, nargs="+", default=[2000, 3000, 4000], help="first seeds of the logs")
    parser.add_argument("--log-episodes", type=int, default=150)
    parser.add_argument("--noise", type=float, default=0.025, help="of the log's actions, standard deviation")
    parser.add_argument("--hold", type=int, default=100, help="steps for which a set point stays the same")
    parser.add_argument("--fastest", type=float, default=FASTEST, help="largest set point of the speed, in rad/s")
    parser.add_argument("--episodes", type=int, default=100, help="of the closed loop")
    parser.add_argument("--seed", type=int, default=1000, help="of its first episode")
    asked = parser.parse_args()
    console, env = Console(width=150), Motor(asked.hold, asked.fastest)
    seeds = range(asked.seed, asked.seed + asked.episodes)
    for first in asked.logs:
        log = recorded(env, asked.log_episodes, first, asked.noise)
        shield, about = recommended_shield(env, log)
        most = np.abs(log.next_observations).max(axis=0)
        console.print(
            f"log {first}: {len(log.actions):,} steps, at most {CURRENT * most[2]:.1f} A, {SPEED * most[0]:.1f} rad/s; "
            f"{about}"
        )
        drive, error = perfect(log)
        table = Table(
            "driver", "over", "at most", "largest (A)", "return", "of the gain", "replaced", "nothing", "ms", "99%"
        )
        rows = {
            "hold 0 A": driven(env, lambda seen: np.zeros((len(seen), 1)), seeds),
            "cautious controller": driven(env, cautious, seeds),
            "fast controller, bare": driven(env, fast, seeds),
            "fast, recommended shield": None if shield is None else shielded(env, shield, seeds),
            f"fast, perfect model (± {error:.1g} A)": driven(env, drive, seeds),
        }
        found = list(rows.values())
        none, best = found[0].mean_return, found[-1].mean_return
        for name, one in rows.items():
            if one is None:
                table.add_row(name, "none recommended")
                continue
            table.add_row(
                name,
                f"{one.over} of {asked.episodes}",
                f"{exact_interval(one.over, asked.episodes)[1]:.1%}",
                f"{one.hottest:.2f}",
                f"{one.mean_return:.4f}",
                f"{(one.mean_return - none) / (best - none):.1%}",
                f"{one.replaced:,}",
                f"{one.nothing:,}",
                f"{one.median:.2f}",
                f"{one.slow:.2f}",
            )
        console.print(table)


if __name__ == "__main__":
    main()
