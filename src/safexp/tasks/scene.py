"""Scenes from above: a robot on its floor, for pictures and maps of paths."""

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
    """Another object on the floor: the corners (k, 2) of its outline, and its kind, which determines its colour."""

    kind: str
    corners: Array


@dataclass(frozen=True, slots=True)
class Scene:
    """A robot at `position` (2,) on its floor, in metres and radians.

    It also has the path so far (t, 2), other objects, and whether the robot incurs a cost now. The picture shows the
    square of half-width `reach` around `centre`; by default the floor and a border.
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
    """Function that returns the present scene of an environment, by index; None if there are no scenes.

    A vector environment provides `scene(index)`, a single environment `scene()`. Together with `info["position"]` of
    every step, that is enough for a run to record the paths of its robots.
    """
    batch = envs.unwrapped
    if hasattr(batch, "scene"):
        return batch.scene
    copies = [env.unwrapped for env in getattr(batch, "envs", ())]
    if copies and all(hasattr(copy, "scene") for copy in copies):
        return lambda index: copies[index].scene()
    return None
