"""Translation of `DeepGP(shared=True)`."""

from __future__ import annotations

import numpy as np

from safexp.compiled.blueprint import NotExportableError
from safexp.compiled.program import Place, Program
from safexp.compiled.tables import LANES, padded, tiled, triangle, widened
from safexp.core.arrays import Array
from safexp.quantifiers.gp.deep import DeepGP
from safexp.quantifiers.gp.deep_model import LayerModel, Output, Shared, draws
from safexp.quantifiers.targets import prior_mean

NOWHERE = 1e30
"""Squared norm of the inducing points that fill a tile: their kernel is 0 everywhere."""


def translate_deep(program: Program, quantifier: DeepGP, place: Place, mean: str, width: str) -> None:
    """Statements for mean and width of a fitted deep process."""
    model = quantifier.model
    assert model is not None, "only fitted processes are translated"
    if not quantifier.widths:
        raise NotExportableError("DeepGP(widths=()) has no hidden layer and cannot be exported to C: use SparseGP.")
    if not quantifier.shared:
        raise NotExportableError(
            "DeepGP(shared=False) cannot be exported to C: its processes have inducing points of their own, and a "
            "decision would take milliseconds. DeepGP(shared=True) can."
        )
    add = program.tables.add
    hidden, last = model.layers[:-1], Output(model.layers[-1])
    sample = [
        draws(quantifier.num_samples, layer.weights.shape[1], quantifier.seed, k) for k, layer in enumerate(hidden)
    ]
    layers = [_layer_fields(program, layer, own) for layer, own in zip(hidden, sample, strict=True)]
    points, inputs = padded(len(last.weights)), len(last.correlation.rate)
    sizes = [size for layer in layers for size in (layer["inputs"], layer["points"], layer["outputs"])]
    widest = max(padded(int(size)) for size in [*sizes, points, inputs])
    program.use("deep_gp")
    name = program.struct(
        "deep_gp",
        state=place.start,
        states=place.size,
        actions=program.actions,
        samples=quantifier.num_samples,
        widest=widest,
        shift=add("deep GP: means of the inputs", model.shift),
        scale=add("standard deviations of the inputs", model.scale),
        numbers=add(
            "prior mean, noise, multiplier, variance",
            [
                prior_mean(quantifier.target),
                float(np.exp(model.log_noise)),
                quantifier.width_multiplier,
                last.variance,
            ],
        ),
        layers=program.structs("deep_layer", layers),
        count=len(layers),
        points=points,
        inputs=inputs,
        rate=add("output: 1 / lengthscales", last.correlation.rate),
        centres=add("output: inducing inputs", _columns(last.correlation.inducing, points)),
        norms=add("output: half their squared norms", widened(last.correlation.norms, points, NOWHERE)),
        weights=add("output: weights of the mean", widened(last.weights, points)),
        triangle=add("output: triangular root of the explained variance", triangle(last.root)),
    )
    program.work((9 * widest + quantifier.num_samples) * LANES)
    program.predict.append(f"deep_gp_interval(&{name}, s, a, {mean}, {width});")


def _layer_fields(program: Program, layer: LayerModel, sample: Array) -> dict[str, int | str]:
    add, shared = program.tables.add, Shared(layer)
    points, outputs = padded(len(shared.whiten)), padded(layer.weights.shape[1])

    def whole(matrix: Array) -> Array:
        rows = np.zeros((points, matrix.shape[1]))
        rows[: len(matrix)] = matrix
        return tiled(rows)

    return {
        "inputs": len(shared.correlation.rate),
        "points": points,
        "outputs": outputs,
        "rate": add("hidden layer: 1 / lengthscales", shared.correlation.rate),
        "centres": add("hidden layer: inducing inputs", _columns(shared.correlation.inducing, points)),
        "norms": add("hidden layer: half their squared norms", widened(shared.correlation.norms, points, NOWHERE)),
        "whiten": add("hidden layer: inverse root", whole(shared.whiten)),
        "linear": add("hidden layer: linear mean", tiled(shared.linear)),
        "means": add("hidden layer: means", whole(shared.mean)),
        "gains": add("hidden layer: variances less 1", whole(shared.gain)),
        "variance": add("hidden layer: prior variance", [shared.variance]),
        "draws": add("hidden layer: draws", [widened(row, outputs) for row in sample]),
    }


def _columns(inducing: Array, points: int) -> Array:
    """Scaled inducing inputs (d, M) in tiles, padded to this number of points."""
    whole = np.zeros((len(inducing), points))
    whole[:, : inducing.shape[1]] = inducing
    return tiled(whole)
