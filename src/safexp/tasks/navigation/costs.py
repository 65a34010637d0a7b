"""Costs of the navigation tasks, each part under Safety-Gymnasium's key, and the signed margin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array, Flags
from safexp.tasks.navigation.layouts import Layout
from safexp.tasks.navigation.physics import Physics
from safexp.tasks.navigation.rewards import distances

STILL: Final = 1e-4
"""Speed in metres per second from which a vase counts as moving."""


def violations(
    layout: Layout, physics: Physics, hazards: Array, goal_button: NDArray[np.int64], suspended: Flags
) -> dict[str, Flags]:
    """Which costs occur now, (n,) for each part.

    `hazards` (n, k, 2) are the positions of the hazards, `goal_button` (n,) the button that may be pressed. While the
    buttons are `suspended` (n,), pressing any is free.
    """
    found: dict[str, Flags] = {}
    touched: Mapping[str, Flags] = {name: contacts > 0 for name, contacts in physics.contacts.items()}
    if layout.buttons:
        wrong = touched["buttons"] & (np.arange(layout.buttons) != goal_button[:, None])
        found["cost_buttons"] = _any(wrong) & ~suspended
    if layout.hazards:
        found["cost_hazards"] = hazard_margins(layout, physics, hazards) < 0.0
    if layout.boundary:
        found["cost_out_of_boundary"] = boundary_margins(layout, physics) < 0.0
    if "pillars" in touched:
        found["cost_pillars"] = _any(touched["pillars"])
    if "vases" in touched:
        found["cost_vases_contact"] = _any(touched["vases"])
        found["cost_vases_velocity"] = _any(physics.speeds("vases") >= STILL)
    if "gremlins" in touched:
        found["cost_gremlins"] = _any(touched["gremlins"])
    return found


def margins(layout: Layout, physics: Physics, hazards: Array) -> Array:
    """Signed distances (n,) of the robots' centres to the nearest edge of a costly region, negative inside."""
    nearest = [hazard_margins(layout, physics, hazards)] if layout.hazards else []
    nearest += [boundary_margins(layout, physics)] if layout.boundary else []
    return np.minimum.reduce(nearest)


def hazard_margins(layout: Layout, physics: Physics, hazards: Array) -> Array:
    """Signed distances (n,) to the edge of the nearest hazard."""
    return distances(hazards, physics.position[:, None, :2]).min(axis=1) - layout.hazard_radius


def boundary_margins(layout: Layout, physics: Physics) -> Array:
    """Signed distances (n,) to the nearest side of the boundary."""
    return (np.array(layout.boundary) - np.abs(physics.position[:, :2])).min(axis=1)


def _any(found: Flags) -> Flags:
    """Whether any of k objects is flagged, (n,) from (n, k)."""
    result: Flags = np.logical_or.reduce(found, axis=1)
    return result
