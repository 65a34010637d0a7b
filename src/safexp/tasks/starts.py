"""The random part of a reset, drawn ahead in blocks."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from safexp.tasks import placement
from safexp.tasks.layouts import GOAL, Layout
from safexp.tasks.robots import Array, headings_to_quaternions

BLOCK: Final = 64
"""Starts drawn at a time: one alone would pay numpy's overhead for every thing that is placed."""


class Start(NamedTuple):
    """m starts: places (m, K, 2), attitudes of robot and vase (m, 4), phases and senses of the hazards (m, k)."""

    layouts: Array
    attitudes: Array
    turns: Array
    phases: Array
    senses: Array


class Starts:
    """A supply of independent starts for one layout."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._supply = _draw(layout, np.random.default_rng(0), 0)

    def discard(self) -> None:
        """Forget what was drawn ahead, so that the next start follows from the generator alone."""
        self._supply = Start(*(part[:0] for part in self._supply))

    def take(self, rng: np.random.Generator, count: int) -> Start:
        """The next `count` starts, with as many drawn from `rng` as are missing."""
        missing = count - len(self._supply.layouts)
        if missing > 0:
            drawn = _draw(self._layout, rng, max(missing, BLOCK))
            self._supply = Start(*map(np.concatenate, zip(self._supply, drawn, strict=True)))
        taken = Start(*(part[:count] for part in self._supply))
        self._supply = Start(*(part[count:] for part in self._supply))
        return taken


def _draw(layout: Layout, rng: np.random.Generator, count: int) -> Start:
    layouts = placement.sample(layout.things, rng, count)
    if layout.goal_place is None:
        # Safety Gym draws the goal once more when all else stands.
        goals, found = placement.move(layout.things, rng, GOAL, layouts)
        layouts[found, GOAL] = goals[found]
    headings, turns = rng.uniform(0.0, 2 * np.pi, (2, count))
    phases = rng.uniform(0.0, 2 * np.pi, (count, layout.hazards))
    senses = rng.choice([-1.0, 1.0], (count, layout.hazards))
    return Start(layouts, headings_to_quaternions(headings), headings_to_quaternions(turns), phases, senses)
