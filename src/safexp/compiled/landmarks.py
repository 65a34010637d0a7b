"""Translation of `Landmarks`: distances from the data, and the region that it visited."""

from __future__ import annotations

import numpy as np

from safexp.compiled.program import Place, Program
from safexp.compiled.tables import TILE, padded, tiled, widened
from safexp.core.arrays import Array
from safexp.quantifiers.landmarks import Landmarks
from safexp.quantifiers.visited import Visited

FAR = 1e30
"""Squared norm of the landmarks that fill a tile: no input is nearest to them."""


def translate_landmarks(program: Program, landmarks: Landmarks, shift: Array, scale: Array, place: Place) -> str:
    """Statements that prepare distances of the state at a place; returns the name of the C struct `landmarks`."""
    size, entries, count, add = place.size, program.actions, padded(len(landmarks.points)), program.tables.add
    points = np.zeros((count, size + entries))
    points[: len(landmarks.points)] = landmarks.points
    norms = np.einsum("kd,kd->k", landmarks.points, landmarks.points)
    program.use("landmarks")
    name = program.struct(
        "landmarks",
        state=place.start,
        states=size,
        actions=entries,
        count=count,
        shift=add("distance from the data: means of the inputs", shift),
        scale=add("units of the inputs", scale),
        state_marks=add("landmarks: state", tiled(-2.0 * points[:, :size].T)),
        action_marks=add("landmarks: action", tiled(-2.0 * points[:, size:].T)),
        mark_norms=add("squared norms of the landmarks", widened(norms, count, FAR)),
        shared=program.reserve(1 + count),
    )
    program.work(max(size, entries + count) + TILE)
    program.of_state.append(f"landmarks_state(&{name}, s);")
    return name


def restrict_to(program: Program, visited: Visited, place: Place, width: str) -> None:
    """Make widths infinite outside the visited region."""
    name = translate_landmarks(program, visited.landmarks, visited.shift, visited.scale, place)
    program.use("visited")
    reach = program.tables.add("largest distance from the data", [visited.reach])
    program.predict.append(f"visited_widen(&{name}, {reach}, s, a, {width});")
