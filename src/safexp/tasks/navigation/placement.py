"""Random layouts by rejection, many at a time.

Safety Gym's procedure: things are placed one after the other, each uniformly on the part of the square that keeps
its keep-out inside, and drawn again up to 100 times until it is clear of those placed before; if that fails the
whole layout starts anew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.tasks.scene import Place

Region = tuple[Place, Place]
"""A rectangle: its corner of least and that of largest coordinates."""

DRAWS: Final = 10
"""Draws made together, as long as a thing has found no place."""
TRIES: Final = 100
"""Draws for a thing of a new layout."""
RETRIES: Final = 10_000
"""Draws for a thing that moves while all others stand."""
ATTEMPTS: Final = 1000
"""Layouts tried for every one that is wanted before the demand is called impossible."""
CROWD: Final = 4096
"""Layouts tried together at most."""


@dataclass(frozen=True, slots=True)
class Things:
    """K things to place: their keep-outs, the places of those that have one, and the square's half-width.

    The first has a region of its own if `first_region` is given.
    """

    keepouts: tuple[float, ...]
    places: tuple[Place | None, ...]
    extent: float
    first_region: Region | None = None

    def separation(self) -> Array:
        """Least distances between things, (K, K)."""
        keepouts = np.array(self.keepouts)
        return keepouts[:, None] + keepouts[None, :]

    def room(self) -> Array:
        """Rectangles (K, 2, 2) in which the things' centres may lie: their least and largest coordinates."""
        half = np.maximum(0.0, self.extent - np.array(self.keepouts))
        room = np.stack([-half, half], axis=1)[..., None].repeat(2, axis=2)
        if self.first_region is not None:
            room[0] = self.first_region
        return room


def sample(things: Things, rng: np.random.Generator, count: int) -> Array:
    """`count` layouts, (count, K, 2)."""
    layouts = np.empty((count, len(things.keepouts), 2))
    done, tried = 0, 0
    while done < count:
        # As many as will probably do, going by the share that was complete so far.
        wanted = min(math.ceil((count - done) * (tried + 1) / (done + 1)), CROWD) if tried else count
        complete = _attempt(things, rng, wanted)[: count - done]
        layouts[done : done + len(complete)] = complete
        done, tried = done + len(complete), tried + wanted
        if not done and tried > ATTEMPTS * count:
            raise ValueError(
                f"No layout found: {len(things.keepouts)} things with keep-outs {things.keepouts} do not fit into a "
                f"square of half-width {things.extent}. Take fewer or smaller hazards, or a larger extent."
            )
    return layouts


def move(things: Things, rng: np.random.Generator, thing: int, layouts: Array) -> tuple[Array, NDArray[np.bool_]]:
    """A free place (n, 2) for one thing of `layouts` (n, K, 2) among the others, and whether there is one (n,)."""
    others = [k for k in range(len(things.keepouts)) if k != thing]
    return _free_places(rng, things.room()[thing], layouts[:, others], things.separation()[thing, others], RETRIES)


def _attempt(things: Things, rng: np.random.Generator, count: int) -> Array:
    """Those of `count` layouts that are complete, (c, K, 2); one in which a thing finds no place is given up."""
    layouts = np.empty((count, len(things.places), 2))
    separation, room = things.separation(), things.room()
    placed = [k for k, place in enumerate(things.places) if place is not None]
    for thing in placed:
        layouts[:, thing] = things.places[thing]
    for thing in (k for k, place in enumerate(things.places) if place is None):
        layouts[:, thing], free = _free_places(rng, room[thing], layouts[:, placed], separation[thing, placed], TRIES)
        layouts = layouts[free]
        placed.append(thing)
    return layouts


def _free_places(
    rng: np.random.Generator, room: Array, others: Array, separation: Array, tries: int
) -> tuple[Array, NDArray[np.bool_]]:
    """Uniform places (n, 2) in `room` (2, 2), at least `separation` (k,) from `others` (n, k, 2), and if found (n,).

    Each row takes the first of at most `tries` draws that is free.
    """
    places, found = np.zeros((len(others), 2)), np.zeros(len(others), dtype=np.bool_)
    missing = np.arange(len(others))
    for _ in range(tries // DRAWS):
        draws = rng.uniform(room[0], room[1], (len(missing), DRAWS, 2))
        east = draws[:, :, None, 0] - others[missing, None, :, 0]
        north = draws[:, :, None, 1] - others[missing, None, :, 1]
        free = np.logical_and.reduce(east * east + north * north >= separation * separation, axis=2)
        rows, first = np.arange(len(missing)), free.argmax(axis=1)
        places[missing], found[missing] = draws[rows, first], free[rows, first]
        missing = missing[~found[missing]]
        if not missing.size:
            break
    return places, found
