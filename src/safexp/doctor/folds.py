"""Folded signals: absolute values, distances to a band or to the nearest of several objects; and clipped signals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.core.findings import Finding, percent

CELLS = 80
"""Number of local neighbourhoods examined."""

GOOD = 0.8
"""Share of the variance of the change that a linear fit must explain for a neighbourhood's slope to count."""

ENOUGH_CELLS = 0.15
"""Smallest share of such neighbourhoods for a verdict."""

OPPOSITE, ENOUGH_OPPOSITE = -0.5, 0.04
"""Cosine below which two slopes are opposite, and share of opposite pairs above which a signal is folded."""

SIZE, DIRECTION = 0.5, 0.3
"""Hidden sign: explained share of the size of the change, and by how much less of its direction is explained."""

JUMPS = 0.005
"""Share of the largest changes that is ignored: jumps are not slopes."""

CLIPPED = 0.02
"""Share of rows at exactly the largest or the smallest value from which a signal counts as clipped."""

MOST_ROWS, MOST_QUADRATIC = 20_000, 30
"""Number of rows examined; number of inputs up to which their products are used."""


@dataclass(frozen=True)
class Fold:
    """Test of whether a signal is folded, like an absolute value.

    Attributes:
        signal: name of the signal.
        opposite: share of pairs of neighbourhoods in which the same inputs move the signal in opposite directions.
        smooth: share of the change that a smooth (quadratic) function of the inputs explains.
        local: share that linear functions explain within neighbourhoods.
        size: share of the squared change that the inputs explain.
        at_top: share of rows at exactly the largest value.
        at_bottom: share of rows at exactly the smallest value.
        folded: the verdict.
        hidden: the inputs do not determine the side of the fold.
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
    """Examine a signal before and after steps (n,) with actions (n, da) in states (n, ds).

    A signal such as |x| or the distance to the nearest wall is nearly linear in its inputs in any small neighbourhood,
    but with opposite slopes on the two sides of its kink, and no smooth function fits both. If the inputs do not
    determine the side, the size of the change can be predicted but not its direction.
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
    """Findings on folds and clipping."""
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
                f"{found.signal} looks folded, like an absolute value or a distance to the nearest of several objects: "
                f"{why}.",
                "A model learned on one side of the fold extrapolates to 'safer' on the other, where it is not.",
                "Log the signed signal and limit it on both sides (Within(signal, low, high)); for a distance to "
                "several objects, log the distance to each and limit each.",
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
                "Where a signal is clipped its change is 0 for every action, and it jumps when it comes back.",
                "Log the signal before it is clipped.",
            )
        )
    return told


def explained(features: Array, values: Array, episodes: NDArray[np.int64], rng: np.random.Generator) -> float:
    """Share of the variance of values (n,) that a linear function of features explains on other episodes."""
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
    """Share of opposite pairs of local slopes, and the share of the change that the good ones explain."""
    from scipy.spatial import cKDTree  # slow to import

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
