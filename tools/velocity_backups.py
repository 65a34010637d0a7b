"""How backups of the velocity tasks do from random states close to the limit: python tools/velocity_backups.py."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from safexp.core.arrays import Array
from safexp.tasks.locomotion import let_go, stand, straighten
from safexp.tasks.velocity import velocity_limited

STARTS, STEPS, STRENGTH = 150, 100, 0.1
"""Number of random states, steps that the backup drives, and standard deviation of the actions that lead there."""

BACKUPS: dict[tuple[str, str], Callable[[Array], Array]] = {
    ("HalfCheetah", "let go"): let_go,
    ("Swimmer", "let go"): lambda seen: np.zeros((len(seen), 2)),
    ("Swimmer", "pull straight"): straighten,
    ("Hopper", "let go"): lambda seen: np.zeros((len(seen), 3)),
    ("Hopper", "stand"): stand,
}


def trial(robot: str, backup: Callable[[Array], Array]) -> dict[str, float]:
    """Outcomes of a backup from random states; all but Hopper, which would stumble, are pushed to near the limit."""
    env, rng = velocity_limited(robot), np.random.default_rng(0)
    inner, limit, size = env.env, env.limit, env.action_space.shape
    begun = above = fell = 0
    last = []
    for seed in range(STARTS):
        observation, _ = env.reset(seed=seed)
        terminated, action = False, np.zeros(size)
        for step in range(int(rng.integers(2, 60))):
            if step % 5 == 0:
                action = np.clip(STRENGTH * rng.standard_normal(size), -1.0, 1.0).astype(np.float32)
            observation, _, terminated, _, info = env.step(action)
            if terminated:
                break
        if terminated or info["velocity"] > limit:
            continue
        if robot != "Hopper":
            speeds = inner.data.qvel.copy()
            speeds[0] = rng.uniform(0.6 * limit, limit)
            inner.set_state(inner.data.qpos.copy(), speeds)
            observation = inner._get_obs()
        begun, highest = begun + 1, -np.inf
        for _ in range(STEPS):
            observation, _, terminated, _, info = env.step(np.asarray(backup(observation[None]))[0])
            highest = max(highest, info["velocity"])
            if terminated:
                break
        above, fell = above + (highest > limit), fell + terminated
        last.append(abs(info["velocity"]))
    return {"starts": begun, "above the limit": above, "fell": fell, "speed at the end": float(np.quantile(last, 0.95))}


if __name__ == "__main__":
    for (name, kind), controller in BACKUPS.items():
        print(f"{name:12} {kind:14} {trial(name, controller)}")
