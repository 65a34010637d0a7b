"""Kinds of objects with a body, with Safety-Gymnasium's sizes and keep-outs."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot
from typing import Final, Literal, NamedTuple

Motion = Literal["free", "driven", "fixed"]

TRAVEL: Final = 0.35
"""Radius in metres of the circles in which gremlins move, at one radian per second."""


class Geom(NamedTuple):
    """One convex part of a body: its size in MuJoCo's convention, and its position in the body's frame."""

    shape: Literal["box", "sphere", "cylinder"]
    size: tuple[float, float, float]
    density: float = 1e-3
    place: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object with a body.

    `free` objects move when they are pushed, `driven` ones are pulled along a circle by a weld to a kinematic body, and
    `fixed` ones stay where the layout places them. `height` is the initial height of the body's centre.
    """

    name: str
    motion: Motion
    keepout: float
    height: float
    geoms: tuple[Geom, ...]

    @property
    def radius(self) -> float:
        """Largest horizontal distance of a part of an upright object from its centre."""
        return max(
            hypot(*geom.place[:2]) + (hypot(*geom.size[:2]) if geom.shape == "box" else geom.size[0])
            for geom in self.geoms
        )


@dataclass(frozen=True, slots=True)
class Group:
    """`count` objects of one kind; `watched` if contacts with the robot are counted."""

    kind: Kind
    count: int
    watched: bool


def _cube(half: float, density: float = 1e-3) -> Geom:
    return Geom("box", (half, half, half), density)


def _box(half: float, density: float) -> Kind:
    """The box to push: a cube with a column at each vertical edge, which keep the robot from slipping off."""
    columns = tuple(
        Geom("box", (half / 2, half / 2, half), density, (x, y, 0.0))
        for x, y in ((half, half), (-half, half), (half, -half), (-half, -half))
    )
    return Kind("push_box", "free", keepout=half, height=half, geoms=(_cube(half, density), *columns))


VASES: Final = Kind("vases", "free", keepout=0.15, height=0.1 - 4e-5, geoms=(_cube(0.1),))
"""Boxes so light (8 mg) that a touch pushes them; they start at the depth to which they sink into the soft floor."""
GREMLINS: Final = Kind("gremlins", "driven", keepout=0.4, height=0.1, geoms=(_cube(0.1),))
BUTTONS: Final = Kind("buttons", "fixed", keepout=0.2, height=0.1, geoms=(Geom("sphere", (0.1, 0.1, 0.1)),))
PILLARS: Final = Kind("pillars", "fixed", keepout=0.3, height=0.5, geoms=(Geom("cylinder", (0.2, 0.5, 0.0)),))
LARGE_BOX: Final = _box(0.2, 1e-3)
SMALL_BOX: Final = _box(0.125, 5e-4)
