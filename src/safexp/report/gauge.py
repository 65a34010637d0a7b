"""Gauge of the remaining budget, or of the last cost or signal."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from safexp.constraints import Budget, Constraint, Within

LOW = 0.25
"""Remaining share below which a budget is shown as low."""


class Gauge(NamedTuple):
    """A bar filled to `level` in [0, 1], with a `mark` if there is a limit."""

    label: str
    level: float
    mark: float | None
    state: Literal["good", "low", "bad"]


def gauge(constraint: Constraint, threshold: float, signal: float | None) -> Gauge:
    """Gauge of the remaining budget; for limits on signals, of the last value; else of the last cost and its limit.

    `threshold` is in the constraint's scale, `signal` is that of the last step in the user's units.
    """
    if isinstance(constraint, Budget):
        left = threshold * constraint.cost_max
        if left < 0:
            return Gauge(f"budget of {constraint.limit:g} overspent by {-left:.3g}", 1.0, None, "bad")
        share = min(left / constraint.limit, 1.0) if constraint.limit else 0.0
        return Gauge(f"budget left: {left:.3g} of {constraint.limit:g}", share, None, "good" if share > LOW else "low")
    if isinstance(constraint, Within):
        name = ", ".join(constraint.names)
        if signal is None:
            return Gauge(
                f"{name}: several limits" if constraint.num_costs > 1 else f"{name}: none yet", 0.5, 0.5, "good"
            )
        room = 1.0 - float(constraint.normalise(np.asarray(signal)))
        return Gauge(f"{name}: {signal:.3g}", room, 1.0 - threshold, "bad" if room < 1.0 - threshold else "good")
    cost = 0.0 if signal is None else signal / constraint.cost_max
    label = f"last cost: {cost * constraint.cost_max:.3g}, limit {threshold * constraint.cost_max:.3g}"
    return Gauge(label, _clipped(cost), _clipped(threshold), "bad" if cost > threshold else "good")


def _clipped(value: float) -> float:
    return min(max(value, 0.0), 1.0)
