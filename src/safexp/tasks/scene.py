"""What a robot's floor looks like from above, for pictures and maps of where it went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gymnasium.vector import VectorEnv

from safexp.core.arrays import Array

Place = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Floor:
    """The map of an episode in metres: a square of half-width `extent`, a goal, and hazards, all of them discs."""

    extent: float
    goal: Place
    goal_radius: float
    hazards: tuple[Place, ...]
    hazard_radius: float


@dataclass(frozen=True, slots=True)
class Shape:
    """What else stands or lies on the floor: the corners (k, 2) of its outline, and what it is, for its colour."""

    kind: str
    corners: Array


@dataclass(frozen=True, slots=True)
class Scene:
    """One moment, in metres and radians: the robot at `position` (2,) on its floor.

    Further the way driven so far (t, 2), what else stands about, and whether the robot is at fault just now. The
    picture shows the square of half-width `reach` about `centre`; by default the floor and a border.
    """

    floor: Floor
    position: Array
    heading: float
    trail: Array
    robot: str = "Point"
    shapes: tuple[Shape, ...] = ()
    alarm: bool = False
    centre: Place = (0.0, 0.0)
    reach: float | None = None


def scenes_of(envs: VectorEnv[Any, Any, Any]) -> Callable[[int], Scene] | None:
    """How to ask these environments for their present scenes, by index; None if they offer none.

    A vector environment offers `scene(index)`, an environment of which copies are made `scene()`. With
    `info["position"]` of every step, that is all it takes for a run to record where its robots went.
    """
    batch = envs.unwrapped
    if hasattr(batch, "scene"):
        return batch.scene
    copies = [env.unwrapped for env in getattr(batch, "envs", ())]
    if copies and all(hasattr(copy, "scene") for copy in copies):
        return lambda index: copies[index].scene()
    return None
