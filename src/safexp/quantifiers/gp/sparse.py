"""A sparse variational Gaussian process: inducing points, quick refits, and predictions without a factorisation."""

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
    """A Gaussian process with inducing points (Titsias 2009, Hensman et al. 2013) on the cost or on the margin.

    The width is a multiple of the predictive standard deviation, the noise of an observation included. That is a
    statement of the model: an approximate posterior with fitted lengthscales promises nothing about the world. Measure
    its coverage and calibrate it. Two things make ignorance look like ignorance: away from all data the worst is
    predicted (cost 1, or margin 0), and the prior's deviation never falls below the root mean square distance of the
    data from that, so that a run without costs does not conclude that there are none.

    An update takes `steps` gradient steps on kernel and inducing inputs from where they are; in between, q(v) and the
    noise are set to their optimum on the whole data set, which has a closed form.

    Args:
        target: "cost", or "margin": the cost is then 0 where the margin is surely above 0 and 1 where it is surely
            below. An indicator cost jumps, which no RBF process does; its margin is smooth.
        num_inducing: M, the number of inducing points.
        delta: a normal variable leaves the interval with probability δ; each time, and under the model only.
        multiplier: of the deviation, in place of the normal quantile that belongs to `delta`.
        capacity: how many transitions are kept; see `DataSet`.
        steps: gradient steps of an update.
        first_steps: gradient steps from scratch.
        batch_size: how many transitions a gradient step looks at.
        learning_rate: of Adam.
        reach: how far beyond the visited range of an input widths are finite, in its standard deviations.
        seed: of the first inducing inputs, of batches, and of what is kept.
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
