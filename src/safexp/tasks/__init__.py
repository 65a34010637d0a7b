"""Tasks with costs, registered with Gymnasium when this package is imported."""

import gymnasium as gym

from safexp.tasks.moving import gate
from safexp.tasks.six_tuple import adapt

__all__ = ["adapt", "gate", "register"]


def register() -> None:
    """Register every task under `safexp/`; a second call changes nothing."""
    for robot in ("Point", "Car"):
        for name, layout, steps in (
            ("GoalStatic", "Static", 200),
            ("GoalDynamic", "Dynamic", 200),
            ("GoalMoving", "Moving", 200),
            ("Goal1", "Goal1", 1000),
        ):
            if f"safexp/{robot}{name}-v0" not in gym.registry:
                gym.register(
                    f"safexp/{robot}{name}-v0",
                    entry_point="safexp.tasks.goal:GoalEnv",
                    vector_entry_point="safexp.tasks.goal:GoalVectorEnv",
                    max_episode_steps=steps,
                    kwargs={"robot": robot, "layout": layout},
                )
    for robot in ("HalfCheetah", "Hopper", "Walker2d", "Ant", "Swimmer", "Humanoid"):
        if f"safexp/{robot}Velocity-v0" not in gym.registry:
            gym.register(
                f"safexp/{robot}Velocity-v0",
                entry_point="safexp.tasks.velocity:velocity_limited",
                max_episode_steps=1000,
                kwargs={"robot": robot},
            )


register()
