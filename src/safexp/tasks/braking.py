"""Brake of the Point and the Car: the backup of the navigation tasks, what it must avoid, and a log of braking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from safexp.core.arrays import Array, Observations
from safexp.core.obstacles import Obstacles
from safexp.shield.logs import Log
from safexp.tasks.navigation.layouts import Layout
from safexp.tasks.navigation.robots import Robot
from safexp.tasks.navigation.vector_env import NavigationVectorEnv

HORIZON = MappingProxyType({"Point": 80, "Car": 12})
"""Steps until a braked robot stands still: to within 1 cm for the Point, which drifts sideways, 1 mm for the Car."""

HOLD = MappingProxyType({"Point": (0, 10), "Car": (0, 6)})
"""Steps for which an action may be held before the brake: to cross an edge, and to leave the middle of a hazard."""

DRIVERS, DRILLS = 200, 16
"""Robots of the log, and roughly how often each of them brakes."""
LONGEST = 40
"""Most steps of driving between two drills of the log."""
LONGER = 2
"""Steps by which a drill of the log is longer than the horizon: each is one more state from which the brake drove."""
HELD = (0.25, 0.75)
"""Shares of the drills without and with a held action: the latter give one label each, the former several."""
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


def obstacles_of(layout: Layout, robot: Robot) -> Obstacles | None:
    """What a robot must stay out of in a layout, if a robot that has braked stays safe there; see `no_backup`."""
    if no_backup(layout):
        return None
    solids = [group.kind.radius + robot.size for group in layout.solids(robot) for _ in range(group.count)]
    return Obstacles(
        layout.hazards + len(solids),
        [layout.hazard_radius] * layout.hazards + solids if solids else layout.hazard_radius,
        places="obstacles" if solids else "hazards",
        speed=layout.orbit.speed if layout.orbit else 0.0,
        solid=len(solids),
        walls=layout.boundary,
    )


def no_backup(layout: Layout) -> str:
    """Why braking bounds no cost in a layout; empty where it does."""
    if layout.gremlins:
        return "a gremlin runs into a robot that stands still"
    if layout.buttons:
        return "a button that has been pressed becomes a wrong one under the robot"
    if not (layout.hazards or layout.boundary or (layout.pillars + layout.vases and not layout.harmless)):
        return "none of its steps has a cost"
    return ""


def braking_log(robot: Robot, layout: Layout, lidar_bins: int, rng: np.random.Generator) -> Log:
    """Log of random driving, interrupted by the brake every few steps, on a test ground without obstacles in reach.

    Before some drills the last action is held for a while. Driving and the drill after it are one episode of the log:
    the unit of which a calibrated certificate misses few.
    """
    obstacles = obstacles_of(layout, robot)
    assert obstacles is not None, "a layout with a backup"
    far = [(layout.extent + AWAY + 2 * k * layout.hazard_radius, 0.0) for k in range(obstacles.count)]
    steps = DRILLS * (LONGEST // 2 + max(HOLD[robot.name]) // 2 + HORIZON[robot.name] + LONGER)
    ground = replace(layout, boundary=None)
    if obstacles.solid:
        ground = replace(ground, vases=0, pillars=0)
    envs = NavigationVectorEnv(
        DRIVERS,
        robot.name,
        ground,
        hazards=far[: layout.hazards] or None,
        lidar_bins=lidar_bins,
        max_episode_steps=steps + 1,
        autoreset_mode=AutoresetMode.DISABLED,
    )
    before, info = envs.reset(seed=int(rng.integers(2**31)))
    phase, left = np.full(DRIVERS, DRIVING), _durations(rng)
    course = rng.uniform(-1.5, 1.5, (DRIVERS, 2))
    actions = np.zeros((DRIVERS, 2), dtype=np.float32)
    rows: list[tuple[Any, ...]] = []
    numbers, nowhere, drill = np.arange(DRIVERS), np.zeros((DRIVERS, 0, 2)), HORIZON[robot.name] + LONGER
    for _ in range(steps):
        free = np.clip(course + 0.5 * rng.standard_normal(course.shape), -1.0, 1.0)
        choices = (free, actions, BRAKES[robot.name](before))
        actions = np.select([(phase == k)[:, None] for k in range(len(choices))], choices).astype(np.float32)
        after, _, ended, _, info = envs.step(actions)
        rows.append((before, actions, after, info["cost"], info["pose"], info.get("hazards", nowhere), numbers.copy()))
        before, left = after, left - 1
        over = left == 0
        done = over & (phase == BRAKING)
        held = np.where(over & (phase == DRIVING), rng.choice(HOLD[robot.name], DRIVERS, p=HELD), 0)
        phase = np.where(over, np.where(done, DRIVING, np.where(held > 0, HOLDING, BRAKING)), phase)
        durations = np.select([phase == DRIVING, phase == HOLDING], [_durations(rng), held], drill)
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
    signals = {"pose": pose[order]}
    if obstacles.count:
        solids = np.broadcast_to(np.reshape(far[layout.hazards :], (-1, 2)), (len(order), obstacles.solid, 2))
        signals[obstacles.places] = np.concatenate([hazards[order], solids], axis=1)
    seen, following = (
        _with_dark_lidars(part[order], lidar_bins * len(layout.solids(robot)), lidar_bins * len(envs.physics.groups))
        for part in (seen, following)
    )
    return Log(
        seen, actions[order], costs[order], episodes=episodes[order], signals=signals, next_observations=following
    )


def _with_dark_lidars(seen: Array, width: int, after: int) -> Array:
    """Observations (n, d) with `width` entries of lidars that see nothing before the last `after` entries."""
    first = seen.shape[1] - after
    return np.concatenate([seen[:, :first], np.zeros((len(seen), width)), seen[:, first:]], axis=1)


def _durations(rng: np.random.Generator) -> NDArray[np.int64]:
    return rng.integers(1, LONGEST, DRIVERS)
