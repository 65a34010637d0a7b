"""What remains of a constraint, as a bar that a person reads at a glance."""

from __future__ import annotations

from typing import Literal, NamedTuple

from safexp.constraints import Budget, Constraint, Margin

LOW = 0.25
"""A budget of which less than this share is left is shown as low."""


class Gauge(NamedTuple):
    """A bar filled to `level` in [0, 1], with a `mark` on it if there is a limit to stay below."""

    label: str
    level: float
    mark: float | None
    state: Literal["good", "low", "bad"]


def gauge(constraint: Constraint, threshold: float, signal: float | None) -> Gauge:
    """Of a budget what is left of it; of a margin the last one; of anything else the last cost beside its limit.

    `threshold` is scaled as the constraint has it, `signal` is what the last step brought, in the user's units.
    """
    if isinstance(constraint, Budget):
        left = threshold * constraint.cost_max
        if left < 0:
            return Gauge(f"budget of {constraint.limit:g} overspent by {-left:.3g}", 1.0, None, "bad")
        share = min(left / constraint.limit, 1.0) if constraint.limit else 0.0
        return Gauge(f"budget left: {left:.3g} of {constraint.limit:g}", share, None, "good" if share > LOW else "low")
    if isinstance(constraint, Margin):
        label = "margin: none yet" if signal is None else f"margin: {signal:.3g}"
        level = 0.5 if signal is None else _clipped(0.5 + signal / (2 * constraint.scale))
        return Gauge(label, level, 0.5, "bad" if level < 0.5 else "good")
    cost = 0.0 if signal is None else signal / constraint.cost_max
    label = f"last cost: {cost * constraint.cost_max:.3g}, limit {threshold * constraint.cost_max:.3g}"
    return Gauge(label, _clipped(cost), _clipped(threshold), "bad" if cost > threshold else "good")


def _clipped(value: float) -> float:
    return min(max(value, 0.0), 1.0)
