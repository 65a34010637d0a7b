"""Folded signals: absolute values, distances to a band or to the nearest of several things, and clipped ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.doctor.findings import Finding, percent

CELLS = 80
"""How many neighbourhoods are looked at."""

GOOD = 0.8
"""A neighbourhood whose change is linear to this share of its variance shows how the signal moves there."""

ENOUGH_CELLS = 0.15
"""The share of such neighbourhoods without which nothing is said."""

OPPOSITE, ENOUGH_OPPOSITE = -0.5, 0.04
"""Slopes with a smaller cosine are opposite; a folded signal has a larger share of such pairs."""

SIZE, DIRECTION = 0.5, 0.3
"""A hidden sign: the size of the change is explained to this share, and its direction by so much less."""

JUMPS = 0.005
"""The largest changes, as a share of all, are left out: jumps are no slopes."""

CLIPPED = 0.02
"""The share of rows at exactly the largest or the smallest value from which on a signal is clipped."""

MOST_ROWS, MOST_QUADRATIC = 20_000, 30
"""Rows that are looked at; inputs up to which their products are used."""


@dataclass(frozen=True)
class Fold:
    """Whether a signal turns around while what drives it goes on.

    Attributes:
        signal: what it is called.
        opposite: the share of pairs of neighbourhoods in which the same inputs move the signal in opposite directions.
        smooth: the share of the change that a smooth (quadratic) function of the inputs explains.
        local: the share that linear functions explain within neighbourhoods.
        size: the share of the change's square that the inputs explain.
        at_top: the share of rows at exactly the largest value.
        at_bottom: the share of rows at exactly the smallest value.
        folded: the verdict.
        hidden: the inputs do not tell on which side of the fold the signal is.
    """

    signal: str
    opposite: float
    smooth: float
    local: float
    size: float
    at_top: float
    at_bottom: float
    folded: bool
    hidden: bool


def examine_fold(
    signal: str,
    states: Array,
    actions: Array,
    now: Array,
    after: Array,
    episodes: NDArray[np.int64],
    seed: int = 0,
) -> Fold:
    """Look at a signal before and after steps (n,), taken by actions (n, da) in states (n, ds).

    A signal such as |x| or the distance to the nearest wall is a good linear function of its inputs in any small
    neighbourhood, but with opposite slopes on the two sides of its kink, and no smooth function fits both. Where the
    inputs do not tell the side, the size of the change can be predicted and its direction cannot.
    """
    rng = np.random.default_rng(seed)
    change = after - now
    at_top, at_bottom = (float((after == end).mean()) for end in (after.max(), after.min()))
    rows = np.flatnonzero(np.abs(change) <= np.quantile(np.abs(change), 1 - JUMPS))
    if len(rows) > MOST_ROWS:
        rows = np.sort(rng.choice(rows, MOST_ROWS, replace=False))
    observed, acted = _standard(states[rows]), _standard(actions[rows])
    if len(rows) < 200 or np.ptp(change[rows]) == 0:
        return Fold(signal, 0.0, 1.0, 1.0, 0.0, at_top, at_bottom, False, False)
    inputs = np.concatenate([observed, acted], axis=1)
    features = _quadratic(inputs) if inputs.shape[1] <= MOST_QUADRATIC else _with_one(inputs)
    smooth, size = (explained(features, part, episodes[rows], rng) for part in (change[rows], change[rows] ** 2))
    opposite, local = _slopes(observed, inputs, change[rows], rng)
    kinked = opposite >= ENOUGH_OPPOSITE and 1 - smooth > 2 * (1 - local)
    hidden = size >= SIZE and size - smooth >= DIRECTION
    return Fold(signal, opposite, smooth, local, size, at_top, at_bottom, kinked or hidden, hidden and not kinked)


def fold_findings(found: Fold) -> list[Finding]:
    """What that means for a shield."""
    told = []
    if found.folded:
        why = (
            f"the size of its changes follows from the inputs ({percent(found.size)}), their direction does not "
            f"({percent(max(found.smooth, 0.0))})"
            if found.hidden
            else f"the same inputs move it in opposite directions in {percent(found.opposite)} of pairs of places, "
            "with a kink in between"
        )
        told.append(
            Finding(
                f"{found.signal}, folded",
                "stop",
                f"{found.signal} looks folded, like an absolute value or a distance to the nearest of several things: "
                f"{why}.",
                "A model that was learned on one side of the fold extrapolates through it to 'safer', where it is not.",
                "Log the signed signal and limit it from both sides (Within(signal, low, high)); of a distance to "
                "several things, log the distance to each and limit each.",
            )
        )
    clipped = [
        f"{percent(share)} of rows are at exactly its {end} value"
        for share, end in ((found.at_top, "largest"), (found.at_bottom, "smallest"))
        if share >= CLIPPED
    ]
    if clipped:
        told.append(
            Finding(
                f"{found.signal}, clipped",
                "caution",
                f"{found.signal} looks clipped: {' and '.join(clipped)}.",
                "Where a signal is clipped its change is 0 whatever is done, and it jumps when it comes back.",
                "Log the signal before it is clipped.",
            )
        )
    return told


def explained(features: Array, values: Array, episodes: NDArray[np.int64], rng: np.random.Generator) -> float:
    """The share of the variance of values (n,) that a linear function of features explains on other episodes."""
    numbers, index = np.unique(episodes, return_inverse=True)
    if len(numbers) < 4:  # blocks of rows in place of episodes
        index, numbers = np.arange(len(values)) * 8 // len(values), np.arange(8)
    folds = (rng.permutation(len(numbers)) % 4)[index]
    left = np.empty(len(values))
    for fold in range(4):
        unseen = folds == fold
        left[unseen] = values[unseen] - features[unseen] @ _ridge(features[~unseen], values[~unseen])
    size = float(np.var(values))
    return max(1.0 - float((left**2).mean()) / size, -1.0) if size else 0.0


def _slopes(observed: Array, inputs: Array, change: Array, rng: np.random.Generator) -> tuple[float, float]:
    """The share of opposite pairs of local slopes, and the share of the change that the good ones explain."""
    from scipy.spatial import cKDTree  # here, because it takes longer to import than all the rest

    width = inputs.shape[1]
    count = min(max(6 * width, 60), len(change) // 8)
    tree = cKDTree(observed)
    slopes, shares = [], []
    for centre in rng.choice(len(change), CELLS):
        near = tree.query(observed[centre], count)[1]
        around, values = inputs[near] - inputs[near].mean(axis=0), change[near] - change[near].mean()
        penalty = 1e-3 * count * max(float(around.var(axis=0).max()), 1e-12)
        slope = np.linalg.solve(around.T @ around + penalty * np.eye(width), around.T @ values)
        size = float((values**2).sum())
        slopes.append(slope)
        shares.append(1.0 - float(((values - around @ slope) ** 2).sum()) / size if size else 0.0)
    good = np.array(shares) > GOOD
    if good.mean() < ENOUGH_CELLS:
        return 0.0, float(np.median(shares))
    kept = np.array(slopes)[good]
    unit = kept / np.maximum(np.linalg.norm(kept, axis=1, keepdims=True), 1e-300)
    return float((unit @ unit.T < OPPOSITE).mean()), float(np.median(np.array(shares)[good]))


def _standard(columns: Array) -> Array:
    """Columns with mean 0 and deviation 1, without those that never varied."""
    spread = columns.std(axis=0)
    varied = spread > 1e-9 * (1.0 + np.abs(columns).max(axis=0, initial=0.0))
    return (columns[:, varied] - columns[:, varied].mean(axis=0)) / spread[varied]


def _with_one(inputs: Array) -> Array:
    return np.column_stack([inputs, np.ones(len(inputs))])


def _quadratic(inputs: Array) -> Array:
    first, second = np.triu_indices(inputs.shape[1])
    return np.column_stack([_with_one(inputs), inputs[:, first] * inputs[:, second]])


def _ridge(features: Array, values: Array) -> Array:
    gram = features.T @ features
    return np.asarray(np.linalg.solve(gram + 1e-5 * len(values) * np.eye(len(gram)), features.T @ values))
