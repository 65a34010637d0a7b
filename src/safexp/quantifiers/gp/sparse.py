"""Sparse variational Gaussian process: inducing points, fast refits, and predictions without a factorisation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.core.extras import needed_for
from safexp.quantifiers.gp.inducing import InducingGP
from safexp.quantifiers.gp.sparse_model import SparseModel, SparsePredictor
from safexp.quantifiers.regression import check_finite


class SparseGP(InducingGP[SparseModel]):
    """Gaussian process with inducing points (Titsias 2009, Hensman et al. 2013) of the cost or the margin.

    The width is a multiple of the predictive standard deviation, including the noise of an observation. It holds under
    the model only: an approximate posterior with fitted lengthscales gives no guarantee. Measure its coverage and
    calibrate it. Two things keep it cautious without data: far from all data the worst is predicted (cost 1, or margin
    0), and the prior's standard deviation never falls below the root mean square distance of the data from that, so a
    run without costs does not conclude that there are none.

    An update takes `steps` gradient steps on kernel and inducing inputs; in between, q(v) and the noise are set to
    their optimum on the whole data set, which has a closed form.

    If its coverage is poor, wrap it in `Calibrated`; under `Within` it becomes the regression of a `ChangeModel`.

    Args:
        target: "cost", or "margin": the cost is then 0 where the margin is surely above 0 and 1 where it is surely
            below. An indicator cost is discontinuous, which no RBF process can model; its margin is smooth.
        num_inducing: M, the number of inducing points.
        delta: a normal variable leaves the interval with probability δ; for a single prediction, under the model.
        multiplier: multiplier of the standard deviation, in place of the normal quantile of `delta`.
        capacity: number of transitions stored; see `DataSet`.
        steps: gradient steps of an update.
        first_steps: gradient steps from scratch.
        batch_size: transitions in a gradient step.
        learning_rate: learning rate of Adam.
        reach: distance beyond the visited range of an input up to which widths are finite, in standard deviations.
        seed: seed of the first inducing inputs, batches, and the stored sample.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> states, actions = rng.uniform(0, 1, (200, 1)), rng.uniform(0, 1, (200, 1))
        >>> data = safexp.Transitions(states, actions, costs=states[:, 0] * actions[:, 0])
        >>> model = safexp.SparseGP(num_inducing=16, first_steps=20)
        >>> model.fit(data)
        >>> mean, width = model.predict(np.array([[0.5]]), np.array([[[0.2], [0.9]]]))
        >>> mean.shape
        (1, 2)
    """

    def _trained(self, pairs: Array, values: Array, steps: int, rng: np.random.Generator) -> SparsePredictor:
        with needed_for("training SparseGP"):
            from safexp.quantifiers.gp.sparse_training import train

        model = train(
            pairs,
            values,
            self.model,
            num_inducing=self.num_inducing,
            steps=steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            rng=rng,
        )
        check_finite("SparseGP", **model.state())
        return SparsePredictor(model, self._data.num_states)

    def _from_state(self, parts: dict[str, NDArray[Any]]) -> SparsePredictor:
        return SparsePredictor(SparseModel.of(parts), self._data.num_states)
