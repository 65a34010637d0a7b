"""Parameters of a `SparseGP`, and its predictions, without torch and without a factorisation."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.gp.triangle import Triangle, lower_root
from safexp.quantifiers.regression import factor


@dataclass(frozen=True)
class SparseModel:
    """Learned parameters: M inducing inputs (M, d), the kernel, and q(v) = N(mean, covariance) of whitened values v.

    Inputs are standardised with `shift` and `scale` (d,); inducing inputs and lengthscales (d,) refer to standardised
    inputs. Variances are in squared units of the target.
    """

    shift: Array
    scale: Array
    inducing: Array
    log_lengthscales: Array
    log_variance: Array
    log_noise: Array
    mean: Array
    covariance: Array

    def state(self) -> dict[str, Array]:
        """The parameters as named arrays."""
        return asdict(self)

    @classmethod
    def of(cls, state: dict[str, NDArray[Any]]) -> SparseModel:
        """Build from the arrays of `state`."""
        scalars = ("log_variance", "log_noise")  # arrays of one entry in a file
        return cls(**{name: part.reshape(()) if name in scalars else part for name, part in state.items()})


class SparsePredictor:
    """Predictions of a model by one matrix product, without a factorisation.

    With a = L⁻¹k, the variance k** − aᵀ(I − covariance)a is k** − |kᵀT|² for the triangular root T of
    L⁻ᵀ(I − covariance)L⁻¹, a sum of squares that loses few digits; the mean is kᵀα for α = L⁻ᵀ·mean. `weights` are T
    and α, (M, M + 1). An RBF kernel of (state, action) is a product of two kernels, and a shield queries the same
    candidates again and again: the factor of actions that all states share is computed once and cached until other
    actions are queried.
    """

    def __init__(self, model: SparseModel, split: int) -> None:
        from scipy.linalg import solve_triangular  # not at the top: the command line starts twice as fast without it

        inducing = model.inducing * np.exp(-model.log_lengthscales)
        norms = 0.5 * np.einsum("md,md->m", inducing, inducing)
        root = factor(np.exp(np.minimum(inducing @ inducing.T - norms[:, None] - norms, 0.0) + model.log_variance))
        known, axes = np.linalg.eigh(np.eye(len(root)) - model.covariance)
        half = axes * np.sqrt(np.clip(known, 0.0, 1.0))
        weights = solve_triangular(root, np.column_stack([half, model.mean]), lower=True, trans="T")
        self.model = model
        weights *= np.exp(model.log_variance)
        self.weights = np.column_stack([lower_root(weights[:, :-1]), weights[:, -1]])
        self._root = Triangle(self.weights[:, :-1])
        self._of_pairs = _Factor(model, inducing, slice(None))
        self._of_states = _Factor(model, inducing, slice(None, split))
        self._of_actions = _Factor(model, inducing, slice(split, None))
        self._variance, self._noise = float(np.exp(model.log_variance)), float(np.exp(model.log_noise))
        self._remembered = b"", np.zeros((0, len(inducing)))

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Mean less the prior mean, and variance of an observation, (n, m)."""
        n, m, _ = actions.shape
        if n == m == 1:
            return self._predict_one(states[0], actions[0, 0])
        if m == 1:  # single proposals need no factors, and must not evict the cached candidates
            correlation = self._of_pairs(np.concatenate([states, actions[:, 0]], axis=1))
        else:
            correlation = (self._at_actions(actions) * self._of_states(states)[:, None]).reshape(n * m, -1)
        projected = self._root(correlation)
        explained = np.einsum("nm,nm->n", projected, projected)
        variance = np.maximum(self._variance - explained, 0.0) + self._noise
        return (correlation @ self.weights[:, -1]).reshape(n, m), variance.reshape(n, m)

    def _predict_one(self, state: Array, action: Array) -> tuple[Array, Array]:
        """Predict for one action in one state with vectors, in half the time: the common case of a deployed shield."""
        projected = self._of_pairs.at(np.concatenate([state, action])).dot(self.weights)
        known = projected[:-1]
        variance = max(self._variance - float(known.dot(known)), 0.0) + self._noise
        return projected[-1:, None], np.array([[variance]])

    def _at_actions(self, actions: Array) -> Array:
        """The kernel's factor of these actions: (n, m, M), or (1, m, M) if all states share them."""
        shared = (actions == actions[:1]).all(axis=(0, 2))
        common = actions[0, shared]
        remembered = self._remembered  # read only once: another thread may replace it
        if remembered[0] != common.tobytes():
            self._remembered = remembered = common.tobytes(), self._of_actions(common)
        if shared.all():
            return remembered[1][None]
        n, m, size = actions.shape
        factors = np.empty((n, m, self.weights.shape[0]))
        factors[:, shared] = remembered[1]
        factors[:, ~shared] = self._of_actions(actions[:, ~shared].reshape(-1, size)).reshape(n, -1, factors.shape[2])
        return factors


class _Factor:
    """Factor exp(−½|x − z|²) of a kernel from some of the inputs, for the inducing inputs z."""

    def __init__(self, model: SparseModel, inducing: Array, part: slice) -> None:
        self._shift, self._rate = model.shift[part], np.exp(-model.log_lengthscales[part]) / model.scale[part]
        self._inducing = np.ascontiguousarray(inducing[:, part].T)
        self._norms = 0.5 * np.einsum("dm,dm->m", self._inducing, self._inducing)

    def __call__(self, inputs: Array) -> Array:
        """(n, M) for inputs (n, d)."""
        inputs = (inputs - self._shift) * self._rate
        exponent = inputs @ self._inducing
        exponent -= self._norms
        exponent -= 0.5 * np.einsum("nd,nd->n", inputs, inputs)[:, None]
        np.minimum(exponent, 0.0, out=exponent)
        return np.asarray(np.exp(exponent, out=exponent))

    def at(self, one: Array) -> Array:
        """(M,) for one input (d,)."""
        one = (one - self._shift) * self._rate
        exponent = one.dot(self._inducing)
        exponent -= self._norms
        exponent -= 0.5 * one.dot(one)
        np.minimum(exponent, 0.0, out=exponent)
        return np.asarray(np.exp(exponent, out=exponent))
