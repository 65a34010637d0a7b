"""Environments with a cost, which `import safexp` registers with Gymnasium under `safexp/`."""

from __future__ import annotations

from collections.abc import Iterator

import gymnasium
from gymnasium.envs.registration import EnvSpec

from safexp.tasks.moving import gate
from safexp.tasks.six_tuple import adapt

__all__ = ["adapt", "gate", "register"]


def register() -> None:
    """Make the tasks known to `gymnasium.make` and `make_vec`, by name and without importing them."""
    for spec in _specs():
        if spec.id not in gymnasium.registry:
            gymnasium.registry[spec.id] = spec


def _specs() -> Iterator[EnvSpec]:
    for name, discrete in [("PlanarRobot", False), ("PlanarRobotDiscrete", True)]:
        yield EnvSpec(
            f"safexp/{name}-v0",
            entry_point="safexp.tasks.planar_robot:PlanarRobot",
            vector_entry_point="safexp.tasks.planar_robot:PlanarRobotVector",
            kwargs={"discrete": discrete},
        )
    for robot in ("Point", "Car"):
        for name, layout, steps in [
            ("GoalStatic", "Static", 200),
            ("GoalDynamic", "Dynamic", 200),
            ("GoalMoving", "Moving", 200),
            ("Goal1", "Goal1", 1000),
        ]:
            yield EnvSpec(
                f"safexp/{robot}{name}-v0",
                entry_point="safexp.tasks.goal:GoalEnv",
                vector_entry_point="safexp.tasks.goal:GoalVectorEnv",
                max_episode_steps=steps,
                kwargs={"robot": robot, "layout": layout},
            )
    for robot in ("HalfCheetah", "Hopper", "Walker2d", "Ant", "Swimmer", "Humanoid"):
        yield EnvSpec(
            f"safexp/{robot}Velocity-v0",
            entry_point="safexp.tasks.velocity:velocity_limited",
            max_episode_steps=1000,
            kwargs={"robot": robot},
        )
