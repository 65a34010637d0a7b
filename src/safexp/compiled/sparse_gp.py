"""Translation of `SparseGP`."""

from __future__ import annotations

import numpy as np

from safexp.compiled.program import Place, Program
from safexp.compiled.tables import LANES, in_blocks, padded, tiled, triangle, widened
from safexp.core.arrays import Array
from safexp.quantifiers.gp.sparse import SparseGP
from safexp.quantifiers.gp.sparse_model import SparseModel, SparsePredictor
from safexp.quantifiers.targets import prior_mean

NOWHERE = 1e30
"""Squared norm of the inducing points that fill a tile: their kernel is 0 everywhere."""


def translate_sparse(program: Program, quantifier: SparseGP, place: Place, mean: str, width: str) -> None:
    """Statements for mean and width of a fitted sparse process."""
    model = quantifier.model
    assert model is not None, "only fitted processes are translated"
    split, add = place.size, program.tables.add
    points = padded(len(model.inducing))
    rate = np.exp(-model.log_lengthscales) / model.scale
    inducing = model.inducing * np.exp(-model.log_lengthscales)
    weights = SparsePredictor(model, split).weights
    variance, noise = float(np.exp(model.log_variance)), float(np.exp(model.log_noise))
    program.use("sparse_gp")
    name = program.struct(
        "sparse_gp",
        state=place.start,
        states=split,
        actions=program.actions,
        points=points,
        shift=add("sparse GP: means of the inputs", model.shift),
        rate=add("1 / (lengthscale times standard deviation)", rate),
        state_points=add("inducing inputs, entries of the state", _transposed(inducing[:, :split], points)),
        state_norms=add("half their squared norms", _half_norms(inducing[:, :split], points)),
        action_points=add("inducing inputs, entries of the action", _transposed(inducing[:, split:], points)),
        action_norms=add("half their squared norms", _half_norms(inducing[:, split:], points)),
        candidates=add("kernel of the fixed candidates", in_blocks(_of_candidates(program, model, inducing, rate))),
        weights=add("weights of the mean", widened(weights[:, -1], points)),
        triangle=add("triangular root of the explained variance", triangle(weights[:, :-1])),
        numbers=add(
            "prior mean, variance, noise, multiplier",
            [prior_mean(quantifier.target), variance, noise, quantifier.width_multiplier],
        ),
        shared=program.reserve(2 * points),
    )
    program.work(max(points * LANES, points + program.actions, split))
    program.of_state.append(f"sparse_gp_state(&{name}, s);")
    program.of_all.append(f"sparse_gp_all(&{name}, s);")
    program.predict.append(f"sparse_gp_interval(&{name}, s, a, {mean}, {width});")


def _transposed(inducing: Array, points: int) -> Array:
    whole = np.zeros((points, inducing.shape[1]))
    whole[: len(inducing)] = inducing
    return tiled(whole.T)


def _half_norms(inducing: Array, points: int) -> Array:
    return widened(0.5 * np.einsum("md,md->m", inducing, inducing), points, NOWHERE)


def _of_candidates(program: Program, model: SparseModel, inducing: Array, rate: Array) -> Array:
    """The kernel's factor (m, points) of the fixed actions, 0 for the points that fill a tile."""
    actions, split = program.blueprint.candidates, len(rate) - program.actions
    scaled = (actions - model.shift[split:]) * rate[split:]
    squares = ((scaled[:, None] - inducing[None, :, split:]) ** 2).sum(axis=2)
    factors = np.zeros((len(actions), padded(len(inducing))))
    factors[:, : len(inducing)] = np.exp(-0.5 * squares)
    return factors
