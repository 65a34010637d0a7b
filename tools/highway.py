"""MASE behind a log of a cautious driver on highway-env's `highway-fast-v0`: `python tools/highway.py`.

Needs highway-env (`pip install highway-env`). The limit is on the headroom: the distance to the car in front, less the
difference of both braking distances at 5 m/s². The log has two of the five actions. PPO learns behind the quantifier
that the doctor finds best, with the log's driver as `seed_controller`; the environment itself counts episodes in which
the headroom was below 0 after a step, and the same seeds are driven by the cautious driver alone.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console
from stable_baselines3 import PPO

import safexp
from safexp.core.arrays import Array
from safexp.records.statistics import exact_interval

IDLE, SLOWER = 1, 4
BRAKING, FAR, LENGTH = 5.0, 150.0, 5.0
"""Deceleration in m/s², the headroom where nobody is in front, and the length of a car, in m."""

EARLY = 20
"""Number of first episodes that are also counted separately."""


class Headway(gym.Wrapper[Any, Any, Any, Any]):
    """Reports the headroom, and counts the episodes in which it was below 0 after a step (`violated`)."""

    def __init__(self, brakes: bool = False) -> None:
        import highway_env  # noqa: F401 (registers the task)

        given = (
            {"action": {"type": "DiscreteMetaAction", "target_speeds": [0, 5, 10, 15, 20, 25, 30]}} if brakes else None
        )
        super().__init__(gym.make("highway-fast-v0", config=given))
        self.slowest = 0.0 if brakes else 20.0
        self.violated: list[bool] = []
        shape = int(np.prod(self.env.observation_space.shape or ()))
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (shape + 2,), np.float64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        seen, _ = self.env.reset(seed=seed, options=options)
        self.violated.append(False)
        return self._seen(seen), {"headroom": self.headroom()}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        seen, reward, terminated, truncated, _ = self.env.step(int(action))
        headroom = self.headroom()
        self.violated[-1] |= headroom < 0 or bool(self.env.unwrapped.vehicle.crashed)  # type: ignore[attr-defined]
        return self._seen(seen), float(reward), terminated, truncated, {"headroom": headroom}

    def headroom(self) -> float:
        """Distance to the car in front, less what it takes to become as slow, at most 150 m."""
        road = self.env.unwrapped
        own = road.vehicle  # type: ignore[attr-defined]
        front, _ = road.road.neighbour_vehicles(own, own.lane_index)  # type: ignore[attr-defined]
        if front is None:
            return FAR
        gap = float(front.position[0] - own.position[0]) - LENGTH
        return min(gap - max(own.speed**2 - front.speed**2, 0.0) / (2 * BRAKING), FAR)

    def _seen(self, seen: Array) -> Array:
        speed = self.env.unwrapped.vehicle.speed  # type: ignore[attr-defined]
        return np.append(np.ravel(seen).astype(np.float64), [speed / 30.0, self.headroom() / FAR])


@dataclass(frozen=True)
class Driver:
    """A cautious driver: slows down to `speed`, and further, if the car can, where the headroom is below `headroom`."""

    slowest: float
    speed: float = 20.0
    headroom: float = 30.0

    def __call__(self, observations: Array) -> Array:
        """Actions (n,) in these observations."""
        seen = np.asarray(observations)
        speed, headroom = 30.0 * seen[:, -2], FAR * seen[:, -1]
        slow = (speed > self.speed + 0.5) | ((headroom < self.headroom) & (speed > self.slowest + 0.5))
        return np.where(slow, SLOWER, IDLE)


def cautious_log(env: Headway, cautious: Driver, episodes: int, seed: int) -> safexp.Log:
    """Log of the cautious driver, who now and then takes the other of his two actions."""
    rng, rows = np.random.default_rng(seed), []
    for episode in range(episodes):
        now, _ = env.reset(seed=seed + episode)
        ended = False
        while not ended:
            action = int(cautious(now[None])[0])
            if rng.random() < 0.1 and env.headroom() > cautious.headroom:
                action = SLOWER if action == IDLE else IDLE
            following, _, terminated, truncated, info = env.step(action)
            rows.append((now, action, following, info["headroom"], episode))
            now, ended = following, terminated or truncated
    before, actions, after, headroom, numbers = map(np.array, zip(*rows, strict=True))
    return safexp.Log(before, actions, episodes=numbers, next_observations=after, signals={"headroom": headroom})


def told(name: str, violated: list[bool]) -> str:
    """Share of violated episodes with its exact interval."""
    if not violated:
        return f"{name}: none"
    low, high = exact_interval(sum(violated), len(violated))
    return f"{name}: {sum(violated)} of {len(violated)} ({low:.1%} to {high:.1%})"


def main() -> None:
    """Print the counts of every seed, and of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brakes", action="store_true", help="the car can come to rest (as shipped: 20 m/s at least)")
    parser.add_argument("--log-episodes", type=int, default=150)
    parser.add_argument("--log-seed", type=int, default=2000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1000, 1001, 1002, 1003, 1004])
    parser.add_argument("--episodes", type=int, default=60, help="of training, for each seed")
    parser.add_argument("--alone", type=int, default=EARLY, help="episodes of the cautious driver alone, for each seed")
    parser.add_argument("--speed", type=float, default=20.0, help="speed of the cautious driver in m/s")
    parser.add_argument("--headroom", type=float, default=30.0, help="headroom in m below which he slows down further")
    asked = parser.parse_args()
    console, recording = Console(width=140), Headway(asked.brakes)
    cautious = Driver(recording.slowest, asked.speed, asked.headroom)
    log = cautious_log(recording, cautious, asked.log_episodes, asked.log_seed)
    taken = np.unique(log.actions).tolist()
    console.print(f"log: {len(log.actions):,} steps, actions {taken}; {told('violated', recording.violated)}")
    states = log.observations
    everything, early, alone = [], [], []
    for seed in asked.seeds:
        env = Headway(asked.brakes)
        agent = safexp.MASE(
            env,
            safexp.Within("headroom", low=0.0),
            safexp.Calibrated(safexp.SparseGP()),
            PPO,
            learner_options={"n_steps": 256, "batch_size": 64},
            seed_data=log,
            seed_controller=cautious,
            seed=seed,
        )
        unseen = certified_unseen(agent.shield, states, log)
        while len(agent.episodes) < asked.episodes:
            agent.learn(256)
        after = certified_unseen(agent.shield, states, log)
        ledger = env.violated[: asked.episodes]
        driver = Headway(asked.brakes)
        for episode in range(asked.alone):
            now, _ = driver.reset(seed=100 * seed + episode)
            ended = False
            while not ended:
                now, _, terminated, truncated, _ = driver.step(int(cautious(now[None])[0]))
                ended = terminated or truncated
        everything += ledger
        early += ledger[:EARLY]
        alone += driver.violated
        console.print(
            f"{seed}: {told('violated', ledger)}; unseen actions certified in {unseen} and {after} of {len(states):,} "
            f"states; {sum(one.interventions for one in agent.episodes)} actions replaced; "
            f"{told('driver alone', driver.violated)}"
        )
    for name, counted in {
        "all": everything,
        f"first {EARLY} of each": early,
        "cautious driver alone": alone,
    }.items():
        console.print(told(name, counted))


def certified_unseen(shield: safexp.Shield, states: Array, log: safexp.Log) -> int:
    """Number of logged states in which an action that the log does not have is certified."""
    unseen = np.setdiff1d(np.arange(5), np.unique(log.actions))
    assert log.signals is not None
    now = FAR * states[:, -1:]
    found = 0
    for rows in np.array_split(np.arange(len(states)), len(states) // 500 + 1):
        outlook = shield.outlook(states[rows], np.full(len(rows), 0.5), measured=now[rows])
        found += int(outlook.safe[:, unseen].any(axis=1).sum())
    return found


if __name__ == "__main__":
    main()
