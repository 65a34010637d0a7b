"""What remains of a constraint, as a bar that a person reads at a glance."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from safexp.constraints import Budget, Constraint, Within

LOW = 0.25
"""A budget of which less than this share is left is shown as low."""


class Gauge(NamedTuple):
    """A bar filled to `level` in [0, 1], with a `mark` on it if there is a limit to stay below."""

    label: str
    level: float
    mark: float | None
    state: Literal["good", "low", "bad"]


def gauge(constraint: Constraint, threshold: float, signal: float | None) -> Gauge:
    """Of a budget what is left of it; of a signal the last value; of anything else the last cost beside its limit.

    `threshold` is scaled as the constraint has it, `signal` is what the last step brought, in the user's units.
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
