"""What stands on the floor: how many hazards, how large, where, and for how long the robot may drive."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from safexp.tasks.moving import Orbit
from safexp.tasks.placement import Things

Place = tuple[float, float]

ROBOT, GOAL, HAZARDS = 0, 1, 2
"""The order of things in a layout: robot, goal, then the hazards, last the vase."""
GOAL_RADIUS: Final = 0.3
GOAL_KEEPOUT: Final = 0.305
ROBOT_KEEPOUT: Final = 0.4
VASE_KEEPOUT: Final = 0.15


@dataclass(frozen=True, slots=True)
class Layout:
    """A square of floor with a goal and `hazards` discs, the first of them at `hazard_places`, the others anywhere.

    Two things are at least the sum of their keep-outs apart; a hazard's is its radius + `hazard_gap` (negative where
    hazards may overlap) + the radius of its orbit if it moves. Everything starts inside the square of half-width
    `extent`. Reaching the goal ends the episode (`ends_at_goal`) or moves the goal to a free place.
    """

    name: str
    hazards: int
    hazard_radius: float
    hazard_gap: float
    hazard_places: tuple[Place, ...] = ()
    goal_place: Place | None = None
    vase: bool = False
    orbit: Orbit | None = None
    extent: float = 1.5
    steps: int = 200
    ends_at_goal: bool = True

    def __post_init__(self) -> None:
        for option, value in (("hazard_radius", self.hazard_radius), ("extent", self.extent)):
            if not (np.isfinite(value) and value > 0):
                raise ValueError(f"{option}={value!r} is not a length; give a positive number of metres.")
        if self.hazards < 1:
            raise ValueError(f"hazards={self.hazards!r}: a layout needs one hazard or more.")
        if self.goal_place is not None and not self.ends_at_goal:
            raise ValueError(
                f"goal_place={self.goal_place!r} with ends_at_goal=False: a goal that is reached must move or end the "
                "episode. Leave out goal_place, or set ends_at_goal=True."
            )

    def changed(
        self, hazards: int | Sequence[Place] | None, hazard_radius: float | None, extent: float | None
    ) -> Layout:
        """This layout with another number of hazards, or hazards at given places, another radius or extent."""
        places = self.hazard_places
        if hazards is None:
            hazards = self.hazards
        elif not isinstance(hazards, int | np.integer):
            places = tuple((float(x), float(y)) for x, y in hazards)
            hazards = len(places)
        return dataclasses.replace(
            self,
            hazards=int(hazards),
            hazard_places=places[:hazards],
            hazard_radius=self.hazard_radius if hazard_radius is None else float(hazard_radius),
            extent=self.extent if extent is None else float(extent),
        )

    @property
    def things(self) -> Things:
        """What has to be placed: the robot, the goal, the hazards, the vase, in this order."""
        hazard = self.hazard_radius + self.hazard_gap + (self.orbit.radius if self.orbit else 0.0)
        keepouts = [ROBOT_KEEPOUT, GOAL_KEEPOUT, *[hazard] * self.hazards, *[VASE_KEEPOUT] * self.vase]
        places: list[Place | None] = [None, self.goal_place, *self.hazard_places]
        places += [None] * (len(keepouts) - len(places))
        return Things(tuple(keepouts), tuple(places), self.extent)


STATIC = Layout("Static", 1, 0.7, 0.005, hazard_places=((0.0, 0.0),), goal_place=(1.1, 1.1))
"""One large hazard between most starts and the goal: Sauté RL's setting, and by inference the paper's."""
DYNAMIC = Layout("Dynamic", 3, 0.3, 0.005)
"""Three hazards and a goal anew in every episode; they do not move within one."""
GOAL1 = Layout("Goal1", 8, 0.2, -0.02, vase=True, steps=1000, ends_at_goal=False)
"""Safety-Gymnasium's Goal1: as many goals as can be reached in 1,000 steps, among eight hazards."""
MOVING = Layout("Moving", 3, 0.2, 0.005, orbit=Orbit(radius=0.25, period=200, preview=25))
"""Three hazards that circle: whether a place is safe depends on when."""


def layout_named(name: str) -> Layout:
    """The layout of that name."""
    layouts = {layout.name: layout for layout in (STATIC, DYNAMIC, GOAL1, MOVING)}
    if name not in layouts:
        raise ValueError(
            f"layout={name!r} is not known; expected one of {', '.join(map(repr, layouts))} or a "
            "safexp.tasks.layouts.Layout of your own."
        )
    return layouts[name]
