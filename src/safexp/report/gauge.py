"""What remains of a constraint, as a bar that a person reads at a glance."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from safexp.constraints import Budget, Constraint

LOW = 0.25
"""A budget of which less than this share is left is shown as low."""


class Gauge(NamedTuple):
    """A bar filled to `level` in [0, 1], with a `mark` on it if there is a limit to stay below."""

    label: str
    level: float
    mark: float | None
    state: Literal["good", "low", "bad"]


def gauge(constraint: Constraint, threshold: float, cost: float) -> Gauge:
    """Of a budget what is left of it; of any other constraint the last cost beside the threshold, both scaled.

    `threshold` is scaled as the constraint has it, `cost` in the user's units.
    """
    if isinstance(constraint, Budget):
        left = threshold * constraint.cost_max
        share = float(np.clip(left / constraint.limit, 0.0, 1.0)) if constraint.limit else 0.0
        if left < 0:
            return Gauge(f"budget of {constraint.limit:g} overspent by {-left:.3g}", 1.0, None, "bad")
        return Gauge(f"budget left: {left:.3g} of {constraint.limit:g}", share, None, "good" if share > LOW else "low")
    level = cost / constraint.cost_max
    label = f"last cost: {cost:.3g}, limit {threshold * constraint.cost_max:.3g}"
    shown, mark = float(np.clip(level, 0.0, 1.0)), float(np.clip(threshold, 0.0, 1.0))
    return Gauge(label, shown, mark, "bad" if level > threshold else "good")
