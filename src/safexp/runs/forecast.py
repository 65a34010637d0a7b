"""What a look-ahead certificate predicts after an action: a path on the map, or the course of the limited signals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from safexp.core.arrays import Array
from safexp.core.encoding import encode_actions, encoded_size
from safexp.core.obstacles import POSE, rotated
from safexp.core.signals import name_of_signal
from safexp.quantifiers.base import Quantifier
from safexp.quantifiers.best_backup import BestBackup
from safexp.quantifiers.calibrated import Calibrated
from safexp.quantifiers.planar_path import PlanarPath
from safexp.quantifiers.rollout import Rollout
from safexp.shield.shield import Shield
from safexp.tasks.scene import Way


class Signal(NamedTuple):
    """Predicted signal (T,) from now on, its widths (T,), and its limits, infinite where there is none."""

    name: str
    values: Array
    widths: Array
    low: float
    high: float


Forecast = Way | tuple[Signal, ...]
"""Of a robot among obstacles its path, of limits on signals each of them."""


def forecast(shield: Shield, state: Array, action: Array) -> Forecast | None:
    """Prediction of a shield for an executed action, and then its backup, in one encoded state (ds,).

    None if its certificate does not predict a path, has learned nothing, or the action is beyond its data.
    """
    states, actions = state[None], encode_actions(shield.action_space, np.asarray(action)[None])
    quantifier, scale = _chosen(shield.quantifier, states, actions), 1.0
    if isinstance(quantifier, Calibrated):
        scale, quantifier = quantifier.scale, quantifier.quantifier
    if not quantifier.knows:
        return None
    found: Forecast | None = None
    if isinstance(quantifier, PlanarPath):
        found = _way(quantifier, state[encoded_size(shield.observation_space) :][:POSE], states, actions, scale)
    elif isinstance(quantifier, Rollout):
        names = tuple(map(name_of_signal, () if shield.constraint is None else shield.constraint.sources))
        found = _signals(quantifier, names, states, actions, scale)
    return found


def _chosen(quantifier: Quantifier, states: Array, actions: Array) -> Quantifier:
    """Certificate of the backup on which that of an action rests."""
    if not isinstance(quantifier, BestBackup):
        return quantifier
    return quantifier.parts[int(quantifier.chosen(states, actions)[0])]


def _way(quantifier: PlanarPath, pose: Array, states: Array, actions: Array, scale: float) -> Way | None:
    path, widths = quantifier.path(states, actions[:, None])
    if not (np.isfinite(path).all() and np.isfinite(widths := scale * widths).all()):
        return None
    places = pose[:2] + rotated(path[0], np.full(len(path[0]), pose[2]))
    return Way(np.concatenate([pose[None, :2], places]), np.append(0.0, widths[0]))


def _signals(
    quantifier: Rollout, names: tuple[str, ...], states: Array, actions: Array, scale: float
) -> tuple[Signal, ...] | None:
    path, sides = quantifier.path(states, actions), quantifier.sides
    values, widths = path.signals[:, 0], scale * path.widths[:, 0] + quantifier.errors.least
    if sides is None or not np.isfinite(widths).all():
        return None
    found = []
    for k, name in enumerate(names):
        own = sides.which == k
        high, low = (sides.reference[own & (sides.sign * way > 0)] for way in (1.0, -1.0))
        limits = float(low.max(initial=-np.inf)), float(high.min(initial=np.inf))
        found.append(Signal(name, values[:, k], widths[:, k], *limits))
    return tuple(found)
