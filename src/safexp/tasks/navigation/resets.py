"""Random initial states for resets, drawn in advance in blocks."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from safexp.core.arrays import Array
from safexp.tasks.navigation import placement
from safexp.tasks.navigation.layouts import Layout
from safexp.tasks.navigation.robots import Robot, headings_to_quaternions

BLOCK: Final = 64
"""Number of starts drawn at a time, to share numpy's overhead for every object that is placed."""
FEW: Final = 8
"""Number of starts drawn at a time with gremlins, which leave so little room that one layout in forty is complete."""


class Start(NamedTuple):
    """Initial states of m episodes.

    Places (m, K, 2), attitudes of the robot (m, 4) and of the bodies (m, B, 4), phases and senses of the hazards
    (m, k), and indices of the buttons to press (m,).
    """

    layouts: Array
    attitudes: Array
    quats: Array
    phases: Array
    senses: Array
    buttons: Array


class StartSupply:
    """Supply of independent initial states for one robot and layout."""

    def __init__(self, layout: Layout, robot: Robot) -> None:
        self._layout = layout
        self._robot = robot
        self._block = FEW if layout.gremlins else BLOCK
        self._supply = _draw(layout, robot, np.random.default_rng(0), 0)

    def discard(self) -> None:
        """Discard the starts drawn in advance, so that the next one depends on the generator alone."""
        self._supply = Start(*(part[:0] for part in self._supply))

    def take(self, rng: np.random.Generator, count: int) -> Start:
        """The next `count` starts; missing ones are drawn from `rng`."""
        missing = count - len(self._supply.layouts)
        if missing > 0:
            drawn = _draw(self._layout, self._robot, rng, max(missing, self._block))
            self._supply = Start(*map(np.concatenate, zip(self._supply, drawn, strict=True)))
        taken = Start(*(part[:count] for part in self._supply))
        self._supply = Start(*(part[count:] for part in self._supply))
        return taken


def _draw(layout: Layout, robot: Robot, rng: np.random.Generator, count: int) -> Start:
    things, goal = layout.things(robot), layout.spans(robot)["goal"].start
    layouts = placement.sample(things, rng, count)
    if layout.goal_place is None and layout.pays in ("reaching", "pushing"):
        # Safety Gym draws the goal again after everything else is placed.
        goals, found = placement.move(things, rng, goal, layouts)
        layouts[found, goal] = goals[found]
    bodies = sum(group.count for group in layout.groups(robot))
    headings, *turns = rng.uniform(0.0, 2 * np.pi, (1 + max(1, bodies), count))
    phases = rng.uniform(0.0, 2 * np.pi, (count, layout.hazards))
    senses = rng.choice([-1.0, 1.0], (count, layout.hazards))
    return Start(
        layouts,
        headings_to_quaternions(headings),
        headings_to_quaternions(np.stack(turns[:bodies], axis=1) if bodies else np.zeros((count, 0))),
        phases,
        senses,
        np.floor(rng.uniform(0.0, layout.buttons, count)) if layout.buttons else np.zeros(count),
    )
