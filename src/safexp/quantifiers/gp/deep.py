"""The paper's deep Gaussian process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.core.extras import needed_for
from safexp.quantifiers.gp.deep_model import DeepModel, DeepPredictor, HiddenLayers
from safexp.quantifiers.gp.inducing import InducingGP
from safexp.quantifiers.regression import check_counts
from safexp.quantifiers.support import REACH
from safexp.quantifiers.targets import Target


class DeepGP(InducingGP[DeepModel]):
    """Deep Gaussian process (Salimbeni and Deisenroth 2017) of the cost or the margin.

    Hidden layers of `widths` processes with linear means, then one process whose q(v) and noise are set to their
    optimum in closed form. Mean and width come from `num_samples` fixed samples of the hidden values; the width is a
    multiple of the standard deviation of an observation. It has no guarantee: measure its coverage and calibrate it.
    Inputs are standardised by the first data.

    As in `SparseGP`, far from the output layer's inducing points the worst is predicted; but linear means have no
    bound, so distant inputs may be mapped to known hidden values: a deep GP can be confident where it has no data.

    Try `SparseGP` first: it is faster, and its width rests on fewer approximations.

    Args:
        target: "cost" or "margin"; see `SparseGP`.
        widths: numbers of processes in the hidden layers; the paper's are (16, 16).
        num_inducing: inducing points of every process; the paper's are 128.
        shared: the faster variant. The processes of a hidden layer share their inducing inputs and kernel, and the
            entries of q(v) are independent.
        delta: a normal variable leaves the interval with probability δ; for a single prediction, under the model.
        multiplier: multiplier of the standard deviation, in place of the normal quantile of `delta`.
        num_samples: samples of the hidden values in a prediction; 10, or 2 for the faster variant.
        capacity: number of transitions stored; see `DataSet`.
        steps: gradient steps of an update.
        first_steps: gradient steps from scratch.
        batch_size: transitions in a gradient step.
        learning_rate: learning rate of Adam from scratch; an update uses a fifth of it.
        reach: see `SparseGP`.
        seed: seed of initial values, batches, samples, and the stored sample.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> states, actions = rng.uniform(0, 1, (200, 1)), rng.uniform(0, 1, (200, 1))
        >>> data = safexp.Transitions(states, actions, costs=states[:, 0] * actions[:, 0])
        >>> model = safexp.DeepGP(widths=(2,), num_inducing=8, first_steps=5)
        >>> model.fit(data)
        >>> mean, width = model.predict(np.array([[0.5]]), np.array([[[0.2], [0.9]]]))
        >>> mean.shape
        (1, 2)
    """

    def __init__(
        self,
        target: Target = "cost",
        *,
        widths: Sequence[int] = (16, 16),
        num_inducing: int = 128,
        shared: bool = False,
        delta: float = 0.01,
        multiplier: float | None = None,
        num_samples: int | None = None,
        capacity: int = 2048,
        steps: int = 20,
        first_steps: int = 200,
        batch_size: int = 64,
        learning_rate: float = 0.005,
        reach: float = REACH,
        seed: int = 0,
    ) -> None:
        super().__init__(
            target,
            num_inducing=num_inducing,
            delta=delta,
            multiplier=multiplier,
            capacity=capacity,
            steps=steps,
            first_steps=first_steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            reach=reach,
            seed=seed,
        )
        check_counts("DeepGP", **{f"widths[{k}]": width for k, width in enumerate(widths)})
        self.widths = list(widths)
        self.shared = shared
        self.num_samples = (2 if shared else 10) if num_samples is None else num_samples
        check_counts("DeepGP", num_samples=self.num_samples)

    def _trained(self, pairs: Array, values: Array, steps: int, rng: np.random.Generator) -> DeepPredictor:
        with needed_for("training DeepGP"):
            from safexp.quantifiers.gp.deep_training import train

        trained = train(
            pairs,
            values,
            self.model,
            widths=self.widths,
            shared=self.shared,
            num_inducing=self.num_inducing,
            steps=steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            rng=rng,
        )
        return DeepPredictor(*trained, self.num_samples, self.seed)

    def _from_state(self, parts: dict[str, NDArray[Any]]) -> DeepPredictor:
        model = DeepModel.of(parts)
        return DeepPredictor(model, HiddenLayers(model.layers[:-1]), self.num_samples, self.seed)
