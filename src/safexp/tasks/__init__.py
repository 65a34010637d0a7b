"""Environments with a cost, which `import safexp` registers with Gymnasium under `safexp/`."""

from __future__ import annotations

from collections.abc import Iterator

import gymnasium
from gymnasium.envs.registration import EnvSpec


def register() -> None:
    """Register the tasks with `gymnasium.make` and `make_vec`, without importing them."""
    for spec, _ in catalogue():
        if spec.id not in gymnasium.registry:
            gymnasium.registry[spec.id] = spec


def catalogue() -> Iterator[tuple[EnvSpec, str]]:
    """Every task with a one-line description."""
    for suffix, discrete in [("", False), ("Discrete", True)]:
        yield (
            EnvSpec(
                f"safexp/PlanarRobot{suffix}-v0",
                entry_point="safexp.tasks.planar_robot:PlanarRobot",
                vector_entry_point="safexp.tasks.planar_robot:PlanarRobotVector",
                max_episode_steps=80,
                kwargs={"discrete": discrete},
            ),
            f"reach a goal between two hills, whose height is the cost{', in nine directions' if discrete else ''}",
        )
    yield (
        EnvSpec("safexp/GridWorld-v0", entry_point="safexp.tasks.grid_world_env:GridWorldEnv"),
        "collect rewards on a random grid whose steep descents are unsafe: the paper's appendix H",
    )
    yield (
        EnvSpec("safexp/PendulumReach-v0", entry_point="safexp.tasks.pendulum:PendulumReach", max_episode_steps=300),
        "balance a pole on a cart that follows a jumping set point: one step ahead is not enough",
    )
    for robot in ("Point", "Car"):
        for name, layout, steps, about in [
            (
                "GoalStatic",
                "Static",
                200,
                "around one large hazard to a fixed goal: the paper's setting, after Sauté RL",
            ),
            ("GoalDynamic", "Dynamic", 200, "to a goal among three hazards in random places"),
            ("GoalMoving", "Moving", 200, "to a goal among hazards that move"),
            ("Goal0", "Goal0", 1000, "to goal after goal: Safety-Gymnasium's Goal0"),
            ("Goal1", "Goal1", 1000, "to goal after goal among eight hazards and a vase: Safety-Gymnasium's Goal1"),
            ("Goal2", "Goal2", 1000, "to goal after goal among ten hazards and ten vases: Safety-Gymnasium's Goal2"),
            ("Button1", "Button1", 1000, "to the lit one of four buttons among hazards and moving gremlins"),
            ("Button2", "Button2", 1000, "to the lit button among more hazards and gremlins"),
            ("Push1", "Push1", 1000, "to push a box into the goal between two hazards"),
            ("Push2", "Push2", 1000, "to push a box into the goal among hazards and pillars"),
            ("Circle1", "Circle1", 500, "round a circle that reaches beyond two walls"),
            ("Circle2", "Circle2", 500, "round a circle that reaches beyond four walls"),
            ("Run0", "Run0", 500, "as fast as it goes between two walls"),
        ]:
            yield (
                EnvSpec(
                    f"safexp/{robot}{name}-v0",
                    entry_point="safexp.tasks.navigation:NavigationEnv",
                    vector_entry_point="safexp.tasks.navigation:NavigationVectorEnv",
                    max_episode_steps=steps,
                    kwargs={"robot": robot, "layout": layout},
                ),
                f"drive the {robot} {about}",
            )
    for robot in ("HalfCheetah", "Hopper", "Walker2d", "Ant", "Swimmer", "Humanoid"):
        yield (
            EnvSpec(
                f"safexp/{robot}Velocity-v0",
                entry_point="safexp.tasks.velocity:velocity_limited",
                max_episode_steps=1000,
                kwargs={"robot": robot},
            ),
            f"Gymnasium's {robot}-v5 with a cost of 1 above a velocity limit",
        )
