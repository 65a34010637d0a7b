"""Brake of the Point and the Car: the backup of the navigation tasks, and a log of driving and braking."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from safexp.core.arrays import Array, Observations
from safexp.shield.logs import Log
from safexp.tasks.navigation.layouts import Layout
from safexp.tasks.navigation.vector_env import NavigationVectorEnv

HORIZON = MappingProxyType({"Point": 80, "Car": 12})
"""Steps until a braked robot stands still: to within 1 cm for the Point, which drifts sideways, 1 mm for the Car."""

HOLD = MappingProxyType({"Point": (0, 10), "Car": (0, 6)})
"""Steps for which an action may be held before the brake: to cross an edge, and to leave the middle of a hazard."""

DRIVERS, DRILLS = 200, 12
"""Robots of the log, and roughly how often each of them brakes."""
LONGEST = 40
"""Most steps of driving between two drills of the log."""
LONGER = 8
"""Steps by which a drill of the log is longer than the horizon: each is one more state from which the brake drove."""
DRIVING, HOLDING, BRAKING = range(3)
"""Phases of the log."""
AWAY = 5.0
"""Distance in metres from the square at which the hazards of the test ground stand."""


def brake_point(observations: Observations) -> Array:
    """Push against the motion along the heading, and turn the heading towards the motion."""
    along, sideways = observations[:, 3], observations[:, 4]  # velocimeter
    return np.clip(np.stack([-along, 2.0 * along * sideways], axis=1), -1.0, 1.0)


def brake_car(observations: Observations) -> Array:
    """Turn both wheels gently against the motion; more torque than that keeps the Car rocking."""
    push = np.clip(0.02 * observations[:, 4], -1.0, 1.0)
    return np.stack([push, push], axis=1)


BRAKES: MappingProxyType[str, Callable[[Observations], Array]] = MappingProxyType(
    {"Point": brake_point, "Car": brake_car}
)


def braking_log(robot: str, layout: Layout, lidar_bins: int, rng: np.random.Generator) -> Log:
    """Log of random driving, interrupted by the brake every few steps, on a test ground without hazards in reach.

    Before some drills the last action is held for a while. Driving and the drill after it are one episode of the log:
    the unit of which a calibrated certificate misses few.
    """
    places = [(layout.extent + AWAY + 2 * k * layout.hazard_radius, 0.0) for k in range(layout.hazards)]
    steps = DRILLS * (LONGEST // 2 + max(HOLD[robot]) // 2 + HORIZON[robot] + LONGER)
    envs = NavigationVectorEnv(
        DRIVERS,
        robot,
        layout,
        hazards=places,
        lidar_bins=lidar_bins,
        max_episode_steps=steps + 1,
        autoreset_mode=AutoresetMode.DISABLED,
    )
    before, info = envs.reset(seed=int(rng.integers(2**31)))
    phase, left = np.full(DRIVERS, DRIVING), _durations(rng)
    course = rng.uniform(-1.5, 1.5, (DRIVERS, 2))
    actions = np.zeros((DRIVERS, 2), dtype=np.float32)
    rows: list[tuple[Any, ...]] = []
    numbers = np.arange(DRIVERS)
    for _ in range(steps):
        free = np.clip(course + 0.5 * rng.standard_normal(course.shape), -1.0, 1.0)
        choices = (free, actions, BRAKES[robot](before))
        actions = np.select([(phase == k)[:, None] for k in range(len(choices))], choices).astype(np.float32)
        after, _, ended, _, info = envs.step(actions)
        rows.append((before, actions, after, info["cost"], info["pose"], info["hazards"], numbers.copy()))
        before, left = after, left - 1
        over = left == 0
        done = over & (phase == BRAKING)
        held = np.where(over & (phase == DRIVING), rng.choice(HOLD[robot], DRIVERS), 0)
        phase = np.where(over, np.where(done, DRIVING, np.where(held > 0, HOLDING, BRAKING)), phase)
        durations = np.select([phase == DRIVING, phase == HOLDING], [_durations(rng), held], HORIZON[robot] + LONGER)
        left = np.where(over, durations, left)
        course[over] = rng.uniform(-1.5, 1.5, (DRIVERS, 2))[over]
        if ended.any():
            before, info = envs.reset(options={"reset_mask": ended})
        anew = ended | done
        numbers[anew] = numbers.max() + 1 + np.arange(np.count_nonzero(anew))
    envs.close()
    seen, actions, following, costs, pose, hazards, episodes = (
        np.concatenate(parts) for parts in zip(*rows, strict=True)
    )
    order = np.argsort(episodes, kind="stable")
    signals = {"pose": pose[order], "hazards": hazards[order]}
    return Log(
        seen[order],
        actions[order],
        costs[order],
        episodes=episodes[order],
        signals=signals,
        next_observations=following[order],
    )


def _durations(rng: np.random.Generator) -> NDArray[np.int64]:
    return rng.integers(1, LONGEST, DRIVERS)
