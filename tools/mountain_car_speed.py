"""A speed limit on Gymnasium's MountainCarContinuous-v0: what imitation and penalties do to a policy behind a shield.

    python tools/mountain_car_speed.py --imitation 0.01 --seed 0

The car is paid for its speed and may not exceed a limit. The certificate simulates an action followed by braking.
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium as gym
import numpy as np

from safexp import MASE, TRPO, Backup, Instantaneous, Known, Penalty
from safexp.records.episodes import own_share

LIMIT, FASTEST, HORIZON = 0.03, 0.07, 40
AUDITED = 20


class Swing(gym.Wrapper[Any, Any, Any, Any]):
    """Pays for speed instead of arriving; an episode has 200 steps."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, _, _, truncated, info = self.env.step(action)
        return observation, float(abs(observation[1])) / LIMIT, False, truncated, info


def make() -> gym.Env[Any, Any]:
    """One environment."""
    return gym.wrappers.TimeLimit(Swing(gym.make("MountainCarContinuous-v0").unwrapped), 200)


def brake(observations: Any) -> Any:
    """Push against the speed."""
    return np.clip(-np.asarray(observations)[:, 1:] / 0.003, -1.0, 1.0).astype(np.float32)


def advance(states: Any, pushes: Any) -> Any:
    """Positions and speeds (n, 2) after a step, as Gymnasium computes them."""
    speeds = np.clip(states[:, 1] + 0.0015 * pushes - 0.0025 * np.cos(3 * states[:, 0]), -FASTEST, FASTEST)
    places = np.clip(states[:, 0] + speeds, -1.2, 0.6)
    return np.stack([places, np.where((places == -1.2) & (speeds < 0), 0.0, speeds)], axis=1)


def certificate(states: Any, actions: Any) -> Any:
    """Largest speed (n,) after an action followed by braking, in units of the largest speed of all."""
    states = advance(states, np.clip(actions[:, 0], -1, 1))
    worst = np.abs(states[:, 1])
    for _ in range(HORIZON):
        states = advance(states, brake(states)[:, 0])
        worst = np.maximum(worst, np.abs(states[:, 1]))
    return worst / FASTEST


def speed(observations: Any, actions: Any, following: Any) -> Any:
    """Cost of a step."""
    return np.abs(following[:, 1])


def play(agent: MASE, shielded: bool) -> str:
    """Play episodes without exploration."""
    agent.evaluate(shielded)
    agent.envs.seed(1_000_000)
    observations, before = agent.envs.reset(), len(agent.episodes)
    while len(agent.episodes) < before + AUDITED:
        observations, *_ = agent.envs.step(agent.learner.predict(observations, deterministic=True)[0])
    found = agent.episodes[before : before + AUDITED]
    violated, mean = sum(one.violated for one in found), np.mean([one.true_return for one in found])
    return f"{violated} of {AUDITED} violated, return {mean:.1f}, own actions {own_share(found):.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in [("imitation", 0.0), ("moved", 0.0), ("seed", 0), ("steps", 100_000)]:
        parser.add_argument(f"--{name}", type=type(usual), default=usual)
    given = parser.parse_args()
    agent = MASE(
        gym.vector.SyncVectorEnv([make] * 8),
        Instantaneous(LIMIT, cost=speed, cost_max=FASTEST),
        Known(certificate, width=1e-6),
        TRPO,
        learner_options={"n_steps": 256, "policy_kwargs": {"log_std_init": -0.5}},
        penalty=Penalty(moved=given.moved),
        seed=given.seed,
        backup=Backup(brake, HORIZON),
        imitation=given.imitation,
    )
    agent.learn(given.steps)
    last = agent.episodes[-100:]
    mean = np.mean([one.true_return for one in last])
    print(f"training: {agent.violations} of {len(agent.episodes)} episodes violated")
    print(f"the last {len(last)}: return {mean:.1f}, own actions {own_share(last):.1%}")
    print(f"with the shield: {play(agent, shielded=True)}")
    print(f"without: {play(agent, shielded=False)}")


if __name__ == "__main__":
    main()
