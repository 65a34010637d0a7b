"""Cautious controllers of the tasks, and their logs, from which quantifiers start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from safexp.core.arrays import Array, Observations
from safexp.envs.infos import Infos
from safexp.envs.vector import as_vec_env
from safexp.shield.logs import Log
from safexp.tasks.braking import BRAKES, HOLD, HORIZON, braking_log, no_backup, obstacles_of
from safexp.tasks.escape import Escape
from safexp.tasks.knowledge import Knowledge
from safexp.tasks.locomotion import straighten, swim_cautiously
from safexp.tasks.navigation.layouts import Layout
from safexp.tasks.navigation.vector_env import CostKind, NavigationVectorEnv

CLEARANCE = 0.3
"""Distance in metres that the cautious controller keeps from the hazard's edge, if possible."""
SPEED = 0.6
"""Its speed in metres per second; the Point's maximum is 1.5."""
WOBBLE = 0.3
"""Standard deviation of the noise on its actions, so that the log shows the effect of actions."""

STRENGTH = 0.3
"""Standard deviation of the actions of `gentle`."""
BEND = 0.2
"""Largest angle in radians about which a joint swings in the log of `swim`; 0 swims straight ahead."""
TREMOR = 0.03
"""Standard deviation of the noise on the torques of `swim`."""
PERIOD, GLIDING = 100, 40
"""The log of `swim` has stretches of 40 steps of the backup, one in every 100 steps."""
DRIVERS = 200
"""Number of episodes in the log of `drive`: thirteen minutes of driving."""


class Logged(NamedTuple):
    """The log of a controller, and the returns of the finished episodes."""

    log: Log
    returns: Array


def drive_around(envs: NavigationVectorEnv) -> Array:
    """Actions (n, 2) of a Point that drives slowly to its goal, in a wide arc around a single hazard."""
    position, ahead = envs.physics.position[:, :2], envs.physics.rotation[:, :2, 0]
    from_hazard, to_goal = position - envs.hazards[:, 0], _unit(envs.goal - position)
    radius, distance = envs.layout.hazard_radius + CLEARANCE, np.linalg.norm(envs.goal - position, axis=1)
    nearest_at = np.clip(-_dot(from_hazard, to_goal), 0.0, distance)
    blocked = np.linalg.norm(from_hazard + nearest_at[:, None] * to_goal, axis=1) < radius
    sense = np.where(_cross(from_hazard, envs.goal - envs.hazards[:, 0]) >= 0, 1.0, -1.0)
    outward = _unit(from_hazard)
    along = np.stack([-outward[:, 1], outward[:, 0]], axis=1) * sense[:, None]
    too_near = np.clip(radius - np.linalg.norm(from_hazard, axis=1), -0.3, 0.5)
    wanted = np.where(blocked[:, None], _unit(along + 3 * too_near[:, None] * outward), to_goal)
    turn = np.arctan2(_cross(ahead, wanted), _dot(ahead, wanted))
    speed = envs.physics.sensors(slice(None))[:, 3]
    push = SPEED * np.maximum(np.cos(turn), 0.0) - speed
    return np.clip(np.stack([push, 2 * turn], axis=1), -1.0, 1.0)


def knowledge_of_driving(envs: NavigationVectorEnv) -> Knowledge:
    """Prior knowledge of a task in which a robot that has braked is safe: the brake, and a log of driving and braking.

    A task with one stationary hazard also has a fallback, and for the Point a log of a cautious controller.
    """
    layout, robot = envs.layout, envs.physics.robot
    if reason := no_backup(layout):
        return Knowledge(no_backup=reason)
    escape = Escape(robot, layout.hazard_radius, envs.lidar_bins)
    known = Knowledge(
        backup=(BRAKES[robot.name], HORIZON[robot.name]),
        hold=HOLD[robot.name],
        drill_log=lambda rng: braking_log(robot, layout, envs.lidar_bins, rng),
        rescue=escape.drive if layout.hazards else None,
        obstacles=obstacles_of(layout, robot),
    )
    if layout.hazards != 1 or layout.boundary:
        return known
    if layout.pays != "reaching" or envs.physics.groups or layout.orbit:
        return known
    if envs.cost_kind == "indicator":
        known = replace(known, fallback=(escape.drive, escape.steps))
    if robot.name != "Point":
        return known
    return replace(known, log=lambda rng: drive(layout, envs.cost_kind, envs.lidar_bins, DRIVERS, rng).log)


def drive(layout: Layout, cost: CostKind, lidar_bins: int, copies: int, rng: np.random.Generator) -> Logged:
    """Log of `copies` cautious robots over one episode; those that arrive early start again."""
    envs = NavigationVectorEnv(
        copies, layout=layout, cost=cost, lidar_bins=lidar_bins, autoreset_mode=AutoresetMode.SAME_STEP
    )

    def act(_: Observations) -> Array:
        return drive_around(envs) + WOBBLE * rng.standard_normal((copies, 2))

    return logged(envs, act, layout.steps, rng)


def gentle(task: str, limit: float | None, copies: int, steps: int, rng: np.random.Generator) -> Logged:
    """Log of `copies` of a robot over `steps` steps under small random actions."""
    envs = gym.make_vec(task, num_envs=copies, limit=limit)
    shape = envs.action_space.shape
    return logged(envs, lambda _: STRENGTH * rng.standard_normal(shape), steps, rng, signals=("velocity",))


def swim(limit: float, copies: int, steps: int, rng: np.random.Generator) -> Logged:
    """Log of `copies` of the cautious Swimmer over `steps` steps, each turning by a bend of its own, with noise.

    The backup drives for a part of every `PERIOD` steps, so that the log shows what certificates predict.
    """
    envs = gym.make_vec("safexp/SwimmerVelocity-v0", num_envs=copies, limit=limit)
    bends, phases = rng.uniform(-BEND, BEND, (copies, 2)), rng.integers(PERIOD, size=copies)

    def act(observations: Observations) -> Array:
        nonlocal phases
        phases = phases + 1
        noise = TREMOR * rng.standard_normal((copies, 2)).clip(-2.0, 2.0)
        stroke = swim_cautiously(observations, bends) + noise
        return np.where((phases % PERIOD < GLIDING)[:, None], straighten(observations), stroke)

    return logged(envs, act, steps, rng, signals=("velocity",))


def logged(
    envs: VectorEnv[Any, Any, Any],
    act: Callable[[Observations], Array],
    steps: int,
    rng: np.random.Generator,
    *,
    signals: Sequence[str] = (),
) -> Logged:
    """Log of `steps` steps of a controller of observations (n, ...) on environments, which are then closed."""
    venv, space = as_vec_env(envs), envs.single_action_space
    assert isinstance(space, gym.spaces.Box), "controllers push and turn"
    venv.seed(int(rng.integers(2**31)))
    observations: Any = venv.reset()
    numbers, rows, returns = np.arange(venv.num_envs), [], np.zeros(venv.num_envs)
    finished: list[float] = []
    for _ in range(steps):
        actions = np.clip(act(observations), space.low, space.high).astype(space.dtype)
        following, rewards, dones, infos = venv.step(actions)
        measured = (Infos.of(infos).column(key) for key in ("cost", "margin", *signals))
        rows.append((observations, actions, numbers.copy(), *measured))
        returns += rewards
        finished += returns[dones].tolist()
        returns[dones] = 0.0
        numbers[dones] = numbers.max() + 1 + np.arange(np.count_nonzero(dones))
        observations = following
    venv.close()
    seen, actions, episodes, *told = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    order = np.argsort(episodes, kind="stable")  # so that the steps of an episode are consecutive
    costs, margins, *others = (column[order] for column in told)
    named = dict(zip(signals, others, strict=True))
    log = Log(seen[order], actions[order], costs, margins=margins, episodes=episodes[order], signals=named or None)
    return Logged(log, np.array(finished))


def _unit(vectors: Array) -> Array:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def _dot(a: Array, b: Array) -> Array:
    return np.einsum("nd,nd->n", a, b)


def _cross(a: Array, b: Array) -> Array:
    return a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
