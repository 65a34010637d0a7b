"""Models of the change of measured signals in a step, and the costs that follow: signals → limits → costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.core.signals import Sides
from safexp.quantifiers.base import Quantifier, Transitions, chunks_of, error_in_widths
from safexp.quantifiers.extrapolation import Extrapolation
from safexp.quantifiers.known import Known
from safexp.quantifiers.targets import normal_multiplier
from safexp.quantifiers.trend import Trend

BEYOND = "beyond."
"""Prefix of the arrays of the `Extrapolation` in `ChangeModel.state`."""

LEAST_RESIDUAL = 1e-6
"""Smallest scale of the residual of the trend, as a share of the scale of the changes."""

LEAST_WIDTH = 0.01
"""Part of every width, as a share of the size of the changes: no fit is trusted to be better than that."""


class ChangeModel(Quantifier):
    """Model of the *change* of each signal of `Within` over a step, signed and never folded.

    The present signal is measured; the model only adds how far it moves. The change is smaller and smoother than the
    level and depends on fewer inputs, so it generalises to states that the data has not seen. For each of S signals,

        signal after the step = signal now + trend(s, a) + residual(s, a) ± width,

    with a linear `Trend` and a regression of the residual. The width is the sum of both widths, of 1% of the root
    mean square change, since no model is trusted to be exact to the last digit, and of one that grows with the distance
    from the data (`Extrapolation`). `Calibrated` scales the others, by held-out errors that the distance does not
    excuse. The first data sets the trend, the units and that growth; the regression continues to learn. A state is the
    encoded observation, followed by the present values of the S signals.

    If widths are large, leave out inputs that do not matter (`inputs`); `examine` finds them. Where one step ahead is
    not enough to stay within the limits, use `Rollout` with a `Backup`.

    Args:
        quantifier: the regression of the residual, copied for each signal; or `Known`, a function of states and
            actions that returns the signals after the step.
        inputs: entries of the state to learn from: those of the encoded observation, counted from 0, followed by the
            signals. By default the whole observation, and the signals that are not among its entries.
        sides: the limits whose costs are bounded; a shield sets them from its constraint.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> states, actions = rng.uniform(-1, 1, (300, 1)), rng.uniform(-0.3, 0.3, (300, 1))
        >>> log = safexp.Log(states, actions, episodes=np.arange(300) // 10, next_observations=states + actions)
        >>> box = gym.spaces.Box(-2.0, 2.0, (1,), np.float64)
        >>> model = safexp.ChangeModel(safexp.FeatureRegression(num_features=16))
        >>> shield = safexp.Shield(model, box, box, constraint=safexp.Within(0, low=-1.0, high=1.0))
        >>> shield.fit(log)
        >>> shield.filter(np.array([0.9]), np.array([0.2])).intervened
        True
    """

    def __init__(
        self, quantifier: Quantifier, *, inputs: Sequence[int] | None = None, sides: Sides | None = None
    ) -> None:
        self.quantifier = quantifier
        self.inputs = None if inputs is None else tuple(inputs)
        self.sides = None if sides is None else Sides.of(*sides)
        self.delta = quantifier.delta
        self.bounds_realised_cost = quantifier.bounds_realised_cost
        self.num_signals = 0 if self.sides is None else int(self.sides.which.max()) + 1
        self.num_costs = 1 if self.sides is None else len(self.sides.which)
        self._regressions: list[Quantifier] = []
        self._trend: Trend | None = None
        self._beyond: Extrapolation | None = None
        self._size: Array = np.ones(self.num_signals)
        self._scale: Array = np.ones(self.num_signals)

    def bound_to(self, sides: Sides, inputs: Sequence[int]) -> ChangeModel:
        """An untrained copy for these limits, with these inputs unless the user chose some."""
        return ChangeModel(self.quantifier, inputs=inputs if self.inputs is None else self.inputs, sides=sides)

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        return self.as_costs(*self.interval(states, actions))

    def interval(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Mean and width (n, m, S) of the signals after the step."""
        return self.scaled_interval(states, actions, 1.0)

    def scaled_interval(self, states: Array, actions: Array, scale: float) -> tuple[Array, Array]:
        """`interval` with `scale` times the width, except for the part that grows with the distance from the data."""
        mean, width, beyond = self._parts(states, actions)
        return mean, scale * width + beyond

    def score(self, data: Transitions, *, held_out: bool = False) -> Array:
        found = []
        for some in chunks_of(data):
            mean, width, beyond = (part[:, 0] for part in self._parts(some.states, some.actions[:, None]))
            known = np.isfinite(beyond)  # elsewhere nothing is certified
            error = self.error(self.observed(some), mean) - np.where(known & (not held_out), beyond, 0.0)
            found.append(error_in_widths(np.maximum(error, 0.0), np.where(known, width, np.inf)).max(axis=1))
        return np.concatenate(found)

    def _parts(self, states: Array, actions: Array) -> tuple[Array, Array, Array]:
        """Mean, width of the models, and width that the distance from the data adds, (n, m, S) each."""
        inputs, now = self._split(states)
        shape = (*actions.shape[:2], self.num_signals)
        if isinstance(self.quantifier, Known):
            mean, width = self.quantifier.values(states[:, : -self.num_signals], actions, (self.num_signals,))
            return mean, width, np.zeros(shape)
        if self._trend is None or self._beyond is None:
            return np.broadcast_to(now[:, None], shape), np.full(shape, np.inf), np.zeros(shape)
        standard = self._trend.standard(inputs, actions)
        mean, deviation = self._trend.at(standard)
        mean += now[:, None]
        width = normal_multiplier(self.delta / self.num_signals) * deviation + LEAST_WIDTH * self._size
        for k, regression in enumerate(self._regressions):
            of_residual, spread = regression.interval(inputs, actions)
            mean[..., k] += self._scale[k] * of_residual
            width[..., k] += self._scale[k] * spread
        return mean, width, self._beyond.widths(standard)

    def observed(self, data: Transitions) -> Array:
        if data.signals is None:
            raise ValueError(
                "ChangeModel received transitions without signals: log the signals that `Within` limits, or add them "
                "to the info."
            )
        return data.signals

    def error(self, observed: Array, mean: Array) -> Array:
        return np.abs(observed - mean)

    def nearness(self, data: Transitions) -> Array:
        return self._nearness(self.observed(data))

    def as_costs(self, mean: Array, width: Array) -> tuple[Array, Array]:
        sides = self.sides
        assert sides is not None, "checked when it was asked"
        return sides.costs(mean[..., sides.which]), width[..., sides.which] / (2 * sides.scale)

    def update(self, data: Transitions) -> None:
        if isinstance(self.quantifier, Known):
            return
        inputs, now = self._split(data.states)
        change = self.observed(data) - now
        if self._trend is None or self._beyond is None:
            self._trend = Trend.fit(np.concatenate([inputs, data.actions], axis=1), change)
            standard = self._trend.standard(inputs, data.actions[:, None])[:, 0, :-1]
            self._beyond = Extrapolation.measured(standard, change, self._nearness(now))
            left = self._left(inputs, data.actions, change)
            self._size = np.maximum(np.sqrt((change**2).mean(axis=0)), np.finfo(np.float64).tiny)
            self._scale = np.maximum(np.sqrt((left**2).mean(axis=0)), LEAST_RESIDUAL * self._size)
            share = self.quantifier.delta / self.num_signals
            self._regressions = [self.quantifier.as_regression(share) for _ in range(self.num_signals)]
        else:
            self._beyond.add(self._trend.standard(inputs, data.actions[:, None])[:, 0, :-1])
        left = self._left(inputs, data.actions, change) / self._scale
        distance = 0.5 - self._nearness(now)  # before the step: a choice by the outcome would bias the changes
        for regression, values in zip(self._regressions, left.T, strict=True):
            regression.update(data._replace(states=inputs, costs=values, margins=distance, signals=None))

    def fit(self, data: Transitions) -> None:
        before = vars(self).copy()
        self._trend = None
        try:
            self.update(data)
        except Exception:
            self.__dict__ = before
            raise

    @property
    def trend(self) -> Trend | None:
        """Linear part of the changes, or None before the first fit."""
        return self._trend

    @property
    def extrapolation(self) -> Extrapolation | None:
        """Widths away from the data, or None before the first fit."""
        return self._beyond

    @property
    def residuals(self) -> list[tuple[float, Quantifier]]:
        """Scale of each signal's residual, and its regression."""
        return list(zip(self._scale.tolist(), self._regressions, strict=False))

    @property
    def sizes(self) -> Array:
        """Root mean square change (S,) of each signal."""
        return self._size

    @property
    def knows(self) -> bool:
        return isinstance(self.quantifier, Known) or self._trend is not None

    def settings(self) -> dict[str, Any]:
        sides = None if self.sides is None else [part.tolist() for part in self.sides]
        return {"inputs": self.inputs, "sides": sides}

    def state(self) -> dict[str, NDArray[Any]]:
        if self._trend is None or self._beyond is None:
            return {}
        learned = {f"{k}.{name}": part for k, own in enumerate(self._regressions) for name, part in own.state().items()}
        beyond = {f"{BEYOND}{name}": part for name, part in self._beyond.state().items()}
        return {**learned, **self._trend.state(), **beyond, "size": self._size.copy(), "scale": self._scale.copy()}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        if "scale" not in state:
            self._trend, self._beyond, self._regressions = None, None, []
            return
        self._beyond = Extrapolation.of(
            {name.removeprefix(BEYOND): part for name, part in state.items() if name.startswith(BEYOND)}
        )
        self._trend, self._size, self._scale = Trend.of(state), np.array(state["size"]), np.array(state["scale"])
        share = self.quantifier.delta / self.num_signals
        self._regressions = [self.quantifier.as_regression(share) for _ in range(self.num_signals)]
        for k, regression in enumerate(self._regressions):
            prefix = f"{k}."
            own = {name.removeprefix(prefix): part for name, part in state.items() if name.startswith(prefix)}
            regression.restore(own)

    def _nearness(self, signals: Array) -> Array:
        """The largest cost (n,) of signals (n, S), below 0 where they are far from all limits."""
        assert self.sides is not None, "checked when it was asked"
        return np.asarray(self.sides.costs(signals[..., self.sides.which]).max(axis=-1))

    def _left(self, inputs: Array, actions: Array, change: Array) -> Array:
        """Residuals (n, S) of the changes after the trend."""
        assert self._trend is not None, "fitted before it predicts"
        return change - self._trend.predict(inputs, actions[:, None])[0][:, 0]

    def _split(self, states: Array) -> tuple[Array, Array]:
        """The inputs (n, d) of the regression, and the present signals (n, S)."""
        if self.sides is None:
            raise ValueError("ChangeModel has no limits yet: pass it to a Shield or MASE together with Within(...).")
        now = states[:, states.shape[1] - self.num_signals :]
        return (states[:, : -self.num_signals] if self.inputs is None else states[:, list(self.inputs)]), now
