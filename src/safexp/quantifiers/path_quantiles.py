"""Errors of predicted paths that few stretches exceed, by the distance that they cover."""

from __future__ import annotations

import numpy as np

from safexp.core.arrays import Array

GROUPS = np.geomspace(0.003, 8.0, 12)
"""Bounds of groups of stretches, by the distance that they cover in units of the typical one."""

BINS = np.geomspace(1e-7, 1e3, 201)
"""Bounds of the bins in which errors are counted, in units of the typical distance: 12% from one to the next."""

ENOUGH = 59
"""Number of stretches from which on a group determines its own width."""


def quantiles(counts: Array, level: float) -> Array:
    """Errors (g, T) that a share `level` stays below in every group of stretches, from their counts (g, T, bins).

    In units of `BINS`; infinite where an error is beyond the last. Groups are ordered by distance. One with fewer than
    `ENOUGH` stretches has the errors of the next larger one, and none has less than a smaller one. Beyond the last
    group with any stretch they are infinite.
    """
    sizes = counts[:, 0].sum(axis=1)
    known = sizes >= ENOUGH
    if not known.any():
        known, counts = np.ones_like(known), np.broadcast_to(counts.sum(axis=0), counts.shape)
    below = np.cumsum(counts, axis=2)
    reached = below >= np.ceil(level * below[..., -1:])
    errors = np.append(BINS, np.inf)[reached.argmax(axis=2)]
    following = np.flatnonzero(known)
    chosen = following[np.minimum(np.searchsorted(following, np.arange(len(counts))), len(following) - 1)]
    found = np.maximum.accumulate(errors[chosen], axis=0)
    found[np.flatnonzero(sizes)[-1] + 1 :] = np.inf
    return np.asarray(found)
