"""Layouts of tasks: objects, costs, rewards, and the length of an episode."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from safexp.tasks.moving import Orbit
from safexp.tasks.navigation.lidar import RANGE
from safexp.tasks.navigation.placement import Region, Things
from safexp.tasks.navigation.rewards import Pays
from safexp.tasks.navigation.robots import Robot
from safexp.tasks.navigation.things import BUTTONS, GREMLINS, PILLARS, VASES, Group
from safexp.tasks.scene import Place

GOAL_RADIUS: Final = 0.3
GOAL_KEEPOUT: Final = 0.305
ROBOT_KEEPOUT: Final = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Square floor with objects on it: the definition of a navigation task.

    `hazards` is the number of discs on the floor, the first of them at `hazard_places`, the others anywhere; they may
    have an `orbit`. `vases`, `pillars`, `buttons`, `gremlins` and a `box` are bodies. Two objects are at least the sum
    of their keep-outs apart; a hazard's is its radius + `hazard_gap` (negative if hazards may overlap) + the radius of
    its orbit if it moves. Everything starts inside the square of half-width `extent`, the robot in `start` if given.

    There is a cost while the robot's centre is inside a hazard or beyond the `boundary` (|x|, |y|), while it touches a
    gremlin, a wrong button or, unless they are `harmless`, a pillar or a vase, and while a vase moves. `pays` names
    what the reward is for; if there is a goal, reaching it ends the episode (`ends_at_goal`) or moves the goal. With
    `sleep`, objects at rest are not simulated until they are touched, which is several times faster if there are many
    and changes nothing above 1e-8 metres per second.

    Example:
        >>> places = ((0.0, 0.5), (0.0, -0.5))
        >>> yard = safexp.Layout(name="Yard", hazards=2, hazard_places=places, goal_place=(1.0, 0.0), steps=100)
        >>> envs = safexp.NavigationVectorEnv(2, "Point", yard)
        >>> observations, infos = envs.reset(seed=0)
        >>> observations.shape
        (2, 44)
    """

    name: str
    pays: Pays = "reaching"
    hazards: int = 0
    hazard_radius: float = 0.2
    hazard_gap: float = -0.02
    hazard_places: tuple[Place, ...] = ()
    goal_place: Place | None = None
    goal_keepout: float = GOAL_KEEPOUT
    buttons: int = 0
    pillars: int = 0
    vases: int = 0
    box: bool = False
    gremlins: int = 0
    harmless: bool = False
    orbit: Orbit | None = None
    boundary: tuple[float, float] | None = None
    extent: float = 1.5
    start: Region | None = None
    lidar_range: float = RANGE
    steps: int = 200
    ends_at_goal: bool = True
    sleep: bool = False

    def __post_init__(self) -> None:
        for option, value in (("hazard_radius", self.hazard_radius), ("extent", self.extent)):
            if not (np.isfinite(value) and value > 0):
                raise ValueError(f"{option}={value!r} is not a length; give a positive number of metres.")
        for option in ("hazards", "buttons", "pillars", "vases", "gremlins"):
            if getattr(self, option) < 0:
                raise ValueError(f"{option}={getattr(self, option)!r}: expected a number of 0 or more.")
        if self.goal_place is not None and not self.ends_at_goal:
            raise ValueError(
                f"goal_place={self.goal_place!r} with ends_at_goal=False: a goal that is reached must move or end the "
                "episode. Leave out goal_place, or set ends_at_goal=True."
            )
        if (self.pays == "pressing") != (self.buttons > 0):
            raise ValueError(
                f"pays={self.pays!r} with buttons={self.buttons}: a layout has buttons if and only if it pays for "
                "pressing."
            )
        if (self.pays == "pushing") != self.box:
            raise ValueError(
                f"pays={self.pays!r} with box={self.box}: a layout has a box if and only if it pays for pushing."
            )

    def changed(
        self, hazards: int | Sequence[Place] | None, hazard_radius: float | None, extent: float | None
    ) -> Layout:
        """A copy with another number of hazards, hazards at given places, or another radius or extent."""
        places = self.hazard_places
        if hazards is None:
            hazards = self.hazards
        else:
            if not isinstance(hazards, int | np.integer):
                places = tuple((float(x), float(y)) for x, y in hazards)
                hazards = len(places)
            if hazards < 1:
                raise ValueError(f"hazards={hazards!r}: expected one hazard or more.")
        return dataclasses.replace(
            self,
            hazards=int(hazards),
            hazard_places=places[:hazards],
            hazard_radius=self.hazard_radius if hazard_radius is None else float(hazard_radius),
            extent=self.extent if extent is None else float(extent),
        )

    @property
    def has_goal(self) -> bool:
        """Whether there is a goal on the floor."""
        return self.pays in ("reaching", "pressing", "pushing")

    @property
    def has_margin(self) -> bool:
        """Whether a signed distance determines the cost, which it does if no contact has a cost."""
        touchy = self.buttons + self.gremlins + (0 if self.harmless else self.pillars + self.vases)
        return not touchy and (self.hazards > 0 or self.boundary is not None)

    def solids(self, robot: Robot) -> tuple[Group, ...]:
        """The objects that stand still and must not be touched: vases and pillars, unless they are harmless."""
        return tuple(group for group in self.groups(robot)[1:3] if group.count and group.watched)

    def groups(self, robot: Robot) -> tuple[Group, ...]:
        """The objects with bodies, in the order of the lidars."""
        return (
            Group(BUTTONS, self.buttons, watched=True),
            Group(PILLARS, self.pillars, watched=not self.harmless),
            Group(VASES, self.vases, watched=not self.harmless),
            Group(robot.box, int(self.box), watched=False),
            Group(GREMLINS, self.gremlins, watched=True),
        )

    def spans(self, robot: Robot) -> dict[str, slice]:
        """Slices of the objects by name in an array of all placed objects, in the order of placement."""
        counts = {group.kind.name: group.count for group in self.groups(robot)}
        order = {"robot": 1, "buttons": counts.pop("buttons"), "goal": int(self.has_goal), "hazards": self.hazards}
        ends = np.cumsum([0, *(order | counts).values()]).tolist()
        return {name: slice(*span) for name, span in zip(order | counts, pairwise(ends), strict=True)}

    def things(self, robot: Robot) -> Things:
        """The objects to place, in the order of `spans`."""
        hazard = self.hazard_radius + self.hazard_gap + (self.orbit.radius if self.orbit else 0.0)
        keepouts = {group.kind.name: group.kind.keepout for group in self.groups(robot)}
        keepouts |= {"goal": self.goal_keepout, "hazards": hazard}
        keepouts["robot"] = ROBOT_KEEPOUT if self.start is None else 0.0
        spans = self.spans(robot)
        places: list[Place | None] = [None] * spans["gremlins"].stop
        places[spans["goal"]] = [self.goal_place] * self.has_goal
        for k, place in enumerate(self.hazard_places):
            places[spans["hazards"].start + k] = place
        return Things(
            tuple(keepouts[name] for name, span in spans.items() for _ in range(span.stop - span.start)),
            tuple(places),
            self.extent,
            first_region=self.start,
        )


STATIC = Layout(
    name="Static", hazards=1, hazard_radius=0.7, hazard_gap=0.005, hazard_places=((0.0, 0.0),), goal_place=(1.1, 1.1)
)
"""One large hazard between most starts and the goal: Sauté RL's setting, and by inference the paper's."""
DYNAMIC = Layout(name="Dynamic", hazards=3, hazard_radius=0.3, hazard_gap=0.005)
"""Three hazards and a goal in random places, new in every episode; they do not move within one."""
MOVING = Layout(name="Moving", hazards=3, hazard_gap=0.005, orbit=Orbit(radius=0.25, period=200, preview=25))
"""Three hazards on orbits: whether a place is safe depends on the time."""
