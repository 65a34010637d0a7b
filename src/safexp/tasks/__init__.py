"""Environments with a cost, which `import safexp` registers with Gymnasium under `safexp/`."""

from __future__ import annotations

import gymnasium


def register() -> None:
    """Make the tasks known to `gymnasium.make` and `make_vec`, by name and without importing them."""
    for name, options in [("PlanarRobot", {"discrete": False}), ("PlanarRobotDiscrete", {"discrete": True})]:
        gymnasium.register(
            id=f"safexp/{name}-v0",
            entry_point="safexp.tasks.planar_robot:PlanarRobot",
            vector_entry_point="safexp.tasks.planar_robot:PlanarRobotVector",
            kwargs=options,
        )
