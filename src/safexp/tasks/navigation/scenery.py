"""Scenes of the navigation tasks from above."""

from __future__ import annotations

from typing import Final

import numpy as np

from safexp.core.arrays import Array
from safexp.tasks.navigation.layouts import GOAL_RADIUS, Layout
from safexp.tasks.navigation.physics import Physics
from safexp.tasks.navigation.rewards import CIRCLE_RADIUS, FINISH
from safexp.tasks.navigation.robots import rotation_matrices
from safexp.tasks.navigation.things import Geom
from safexp.tasks.scene import Floor, Scene, Shape

LIT_RADIUS: Final = 0.2
"""Radius of the light around the button to press."""
WALL: Final = 0.02
"""Half the width of a drawn boundary."""
VIEW: Final = 2.0
"""Half-width of the picture of a floor that is too large to be shown in full."""
WHOLE: Final = 3.0
"""Half-width of the largest floor that is shown in full."""


def scene_of(
    layout: Layout, physics: Physics, index: int, goal: Array, hazards: Array, *, trail: Array, alarm: bool
) -> Scene:
    """Scene of environment `index`, with its `goal` (2,), `hazards` (k, 2), path so far, and whether a cost occurs."""
    position, rotation = physics.position[index], physics.rotation[index]
    front = rotation[:2, :2] @ physics.robot.front
    target, radius = {
        "circling": (np.zeros(2), CIRCLE_RADIUS),
        "running": (np.array(FINISH), GOAL_RADIUS),
        "pressing": (goal, LIT_RADIUS),
    }.get(layout.pays, (goal, GOAL_RADIUS))
    floor = Floor(
        extent=max(layout.extent, radius),
        goal=(float(target[0]), float(target[1])),
        goal_radius=radius,
        hazards=tuple((x, y) for x, y in hazards.tolist()),
        hazard_radius=layout.hazard_radius,
    )
    whole = floor.extent <= WHOLE
    return Scene(
        floor,
        position=position[:2].copy(),
        heading=float(np.arctan2(front[1], front[0])),
        trail=trail,
        robot=physics.robot.name,
        shapes=(*_walls(layout, floor.extent), *_bodies(physics, index)),
        alarm=alarm,
        centre=(0.0, 0.0) if whole else (float(position[0]), float(position[1])),
        reach=None if whole else VIEW,
    )


def _bodies(physics: Physics, index: int) -> list[Shape]:
    shapes = []
    for group in physics.groups:
        turns = rotation_matrices(physics.quats[group.kind.name][index]).reshape(-1, 3, 3)[:, :2, :2]
        for place, turn in zip(physics.places[group.kind.name][index], turns, strict=True):
            shapes += [Shape(group.kind.name, place[:2] + _outline(geom) @ turn.T) for geom in group.kind.geoms]
    return shapes


def _outline(geom: Geom) -> Array:
    """Outline (k, 2) of a part of an upright body from above."""
    if geom.shape == "box":
        corners = np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]]) * geom.size[:2]
    else:
        angles = np.linspace(0.0, 2 * np.pi, 32, endpoint=False)
        corners = geom.size[0] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return corners + geom.place[:2]


def _walls(layout: Layout, length: float) -> list[Shape]:
    walls = []
    for axis, limit in enumerate(layout.boundary or ()):
        for side in (-limit, limit) if np.isfinite(limit) else ():
            corners = np.array([[-WALL, -length], [WALL, -length], [WALL, length], [-WALL, length]])
            walls.append(Shape("boundary", corners[:, :: -1 if axis else 1] + np.eye(2)[axis] * side))
    return walls
