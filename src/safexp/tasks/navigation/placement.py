"""Random layouts by rejection sampling, many at a time.

Safety Gym's procedure: objects are placed one after the other, each uniformly on the part of the square that contains
its keep-out, and drawn again up to 100 times until it is clear of those placed before; if that fails, the whole layout
starts over.
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
"""A rectangle: the corners with the smallest and the largest coordinates."""

DRAWS: Final = 10
"""Number of draws made at a time for an object without a place."""
TRIES: Final = 100
"""Number of draws for an object of a new layout."""
RETRIES: Final = 10_000
"""Number of draws for an object that is moved while all others stay."""
ATTEMPTS: Final = 1000
"""Number of layouts tried for each requested one before giving up."""
CROWD: Final = 4096
"""Largest number of layouts tried at a time."""


@dataclass(frozen=True, slots=True)
class Things:
    """K objects to place: their keep-outs, the places of fixed ones, and the half-width of the square.

    The first is placed in `first_region` if that is given.
    """

    keepouts: tuple[float, ...]
    places: tuple[Place | None, ...]
    extent: float
    first_region: Region | None = None

    def separation(self) -> Array:
        """Smallest distances between objects, (K, K)."""
        keepouts = np.array(self.keepouts)
        return keepouts[:, None] + keepouts[None, :]

    def room(self) -> Array:
        """Rectangles (K, 2, 2) in which the centres may lie: their smallest and largest coordinates."""
        half = np.maximum(0.0, self.extent - np.array(self.keepouts))
        room = np.stack([-half, half], axis=1)[..., None].repeat(2, axis=2)
        if self.first_region is not None:
            room[0] = self.first_region
        return room


def sample(things: Things, rng: np.random.Generator, count: int) -> Array:
    """Sample `count` layouts, (count, K, 2)."""
    layouts = np.empty((count, len(things.keepouts), 2))
    done, tried = 0, 0
    while done < count:
        # As many as are probably needed, given the share that was complete so far.
        wanted = min(math.ceil((count - done) * (tried + 1) / (done + 1)), CROWD) if tried else count
        complete = _attempt(things, rng, wanted)[: count - done]
        layouts[done : done + len(complete)] = complete
        done, tried = done + len(complete), tried + wanted
        if not done and tried > ATTEMPTS * count:
            raise ValueError(
                f"No layout found: {len(things.keepouts)} objects with keep-outs {things.keepouts} do not fit into a "
                f"square of half-width {things.extent}. Use fewer or smaller hazards, or a larger extent."
            )
    return layouts


def move(things: Things, rng: np.random.Generator, thing: int, layouts: Array) -> tuple[Array, NDArray[np.bool_]]:
    """A free place (n, 2) for one object of `layouts` (n, K, 2) among the others, and whether there is one (n,)."""
    others = [k for k in range(len(things.keepouts)) if k != thing]
    return _free_places(rng, things.room()[thing], layouts[:, others], things.separation()[thing, others], RETRIES)


def _attempt(things: Things, rng: np.random.Generator, count: int) -> Array:
    """The complete ones (c, K, 2) of `count` layouts; one in which an object finds no place is discarded."""
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
    """Uniform places (n, 2) in `room` (2, 2), at least `separation` (k,) from `others` (n, k, 2), and success (n,).

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
