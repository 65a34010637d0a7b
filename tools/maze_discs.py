"""A ball among discs that it must not enter, in a maze of gymnasium-robotics: `python tools/maze_discs.py`.

Needs gymnasium-robotics. The discs are measured, but have no bodies. `PlanarPath` learns from a log of random pushes
and of a brake in an empty maze; TRPO then learns to reach goals behind it. The environment itself counts the steps
within a disc and the episodes that have more of them than the budget allows.
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console

import safexp
from safexp.core.arrays import Array
from safexp.records.statistics import exact_interval

DISCS = np.array([[-1.2, 0.6], [-1.2, -0.6], [0.0, 0.0], [1.2, 0.6], [1.2, -0.6]])
RADIUS, STEPS, HORIZON, HOLD, COPIES = 0.35, 200, 40, (0, 10), 8


class Discs(gym.Wrapper[Array, Array, Any, Any]):
    """Reports pose, discs and cost, and counts the steps within a disc of every episode (`inside`)."""

    def __init__(self, discs: Array) -> None:
        import gymnasium_robotics

        gym.register_envs(gymnasium_robotics)
        super().__init__(gym.make("PointMaze_OpenDense-v3", continuing_task=True, max_episode_steps=STEPS))
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (6 + 2 * len(DISCS),), np.float64)
        self.discs = discs
        self.inside: list[int] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        found = self.env.reset(seed=seed, options=options)[0]
        while self._within():  # the next draw
            found = self.env.reset(options=options)[0]
        self.inside.append(0)
        return self._seen(found), self._told()

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        found, reward, terminated, truncated, _ = self.env.step(action)
        self.inside[-1] += self._within()
        return self._seen(found), float(reward), terminated, truncated, self._told()

    def _place(self) -> Array:
        point: Any = self.env.unwrapped
        return np.array(point.point_env.data.qpos[:2])

    def _within(self) -> bool:
        return bool((np.linalg.norm(self.discs - self._place(), axis=1) <= RADIUS).any())

    def _told(self) -> dict[str, Any]:
        return {"pose": np.append(self._place(), 0.0), "hazards": self.discs, "cost": float(self._within())}

    def _seen(self, found: dict[str, Array]) -> Array:
        away = (self.discs - found["observation"][:2]).ravel()
        return np.concatenate([found["observation"], found["desired_goal"] - found["observation"][:2], away])


def brake(seen: Array) -> Array:
    """Push against the motion."""
    return np.clip(-2.0 * np.asarray(seen)[:, 2:4], -1.0, 1.0)


def recorded(episodes: int, rng: np.random.Generator) -> safexp.Log:
    """Log of random pushes, then of the last of them, held or not, and then of the brake, far from all discs."""
    env, rows = Discs(DISCS + 100.0), []
    for episode in range(episodes):
        seen, _ = env.reset(seed=int(rng.integers(2**31)))
        driven, held, course = int(rng.integers(1, 60)), int(rng.choice(HOLD)), rng.uniform(-1.5, 1.5, 2)
        action = course
        for k in range(driven + held + HORIZON + 2):
            if k < driven:
                action = np.clip(course + 0.3 * rng.standard_normal(2), -1.0, 1.0)
            elif k >= driven + held:
                action = brake(seen[None])[0]
            after, _, _, _, info = env.step(action.astype(np.float32))
            rows.append((seen, action.astype(np.float32), after, info["pose"], info["hazards"], info["cost"], episode))
            seen = after
    before, actions, following, pose, hazards, costs, numbers = map(np.array, zip(*rows, strict=True))
    signals = {"pose": pose, "hazards": hazards}
    return safexp.Log(before, actions, costs, episodes=numbers, next_observations=following, signals=signals)


def main() -> None:
    """Print a row for every seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1000, 1001, 1002])
    parser.add_argument("--steps", type=int, default=150_000)
    parser.add_argument("--budget", type=float, default=5.0)
    parser.add_argument("--log-episodes", type=int, default=1500)
    parser.add_argument("--bare", action="store_true", help="without shield and penalty")
    asked = parser.parse_args()
    console, violated, episodes = Console(width=140), 0, 0
    for seed in asked.seeds:
        copies: list[Discs] = []

        def make(copies: list[Discs] = copies) -> Discs:
            copies.append(Discs(DISCS))
            return copies[-1]

        agent = safexp.MASE(
            gym.vector.SyncVectorEnv([make] * COPIES),
            safexp.Budget(asked.budget, among=safexp.Obstacles(len(DISCS), RADIUS)),
            safexp.Calibrated(safexp.PlanarPath()),
            safexp.TRPO,
            learner_options={"n_steps": 256},
            penalty=None if asked.bare else safexp.Penalty(1.0, moved=0.02),
            shielding=not asked.bare,
            seed_data=recorded(asked.log_episodes, np.random.default_rng([seed, 1])),
            backup=safexp.Backup(brake, HORIZON, hold=HOLD, keep=10, drills=0.01),
            seed=seed,
        )
        agent.learn(asked.steps)
        counted = [steps for copy in copies for steps in copy.inside]
        broken, told = sum(steps > asked.budget for steps in counted), agent.metrics()
        returns = [episode.true_return for episode in agent.episodes]
        violated, episodes = violated + broken, episodes + len(counted)
        console.print(
            f"{seed}: {broken} of {len(counted)} episodes violated ({agent.violations} by safexp's count), most steps "
            f"inside {max(counted)}; stops {sum(episode.stopped for episode in agent.episodes)}; drills missed "
            f"{told['drills_missed']} of {told['drills']}; return of the first and last 100 episodes "
            f"{np.mean(returns[:100]):.1f}, {np.mean(returns[-100:]):.1f}"
        )
    low, high = exact_interval(violated, episodes)
    console.print(f"{violated} of {episodes} episodes violated ({low:.2%} to {high:.2%})")


if __name__ == "__main__":
    main()
