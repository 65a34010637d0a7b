"""Scenes from above: a robot on its floor, for pictures and maps of paths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from gymnasium.vector import VectorEnv

from safexp.core.arrays import Array

Place = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Floor:
    """Map of an episode in metres: a square of half-width `extent`, a goal, and hazards, all of them discs.

    Example:
        >>> floor = safexp.Floor(1.5, goal=(1.0, 1.0), goal_radius=0.3, hazards=((0.0, 0.0),), hazard_radius=0.2)
        >>> len(floor.hazards)
        1
    """

    extent: float
    goal: Place
    goal_radius: float
    hazards: tuple[Place, ...]
    hazard_radius: float


@dataclass(frozen=True, slots=True)
class Shape:
    """Object on the floor: the corners (k, 2) of its outline, and its kind, which determines its colour.

    Example:
        >>> safexp.Shape("box", corners=np.array([[0.0, 0.0], [0.2, 0.0], [0.2, 0.2], [0.0, 0.2]])).corners.shape
        (4, 2)
    """

    kind: str
    corners: Array


class Way(NamedTuple):
    """Predicted places (T, 2) of a robot, beginning where it is, and their widths (T,)."""

    places: Array
    widths: Array


@dataclass(frozen=True, slots=True)
class Scene:
    """View of a robot at `position` (2,) on its floor, in metres and radians.

    It also has the path so far (t, 2), the predicted one, other objects, and whether the robot incurs a cost now. The
    picture shows the square of half-width `reach` around `centre`; by default the floor and a border.

    Example:
        >>> floor = safexp.Floor(1.5, goal=(1.0, 1.0), goal_radius=0.3, hazards=(), hazard_radius=0.2)
        >>> safexp.Scene(floor, position=np.zeros(2), heading=0.0, trail=np.zeros((1, 2))).robot
        'Point'
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
    ahead: Way | None = None


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
