"""Translation of `DeepGP(shared=True)`."""

from __future__ import annotations

import numpy as np

from safexp.compiled.blueprint import NotExportableError
from safexp.compiled.program import Place, Program
from safexp.compiled.tables import LANES, padded, tiled, widened
from safexp.core.arrays import Array
from safexp.quantifiers.gp.deep import DeepGP
from safexp.quantifiers.gp.deep_model import LayerModel, Output, Shared, Single, draws
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
    points, inputs = padded(len(last.norms)), len(last.rate)
    sizes = [size for layer in layers for size in (layer["inputs"], layer["points"], layer["outputs"])]
    widest = max(padded(int(size)) for size in [*sizes, points, inputs])
    weights = np.zeros((points, points))
    weights[: len(last.norms), : len(last.norms)] = last.weights[:, :-1]
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
                float(last.variance),
            ],
        ),
        layers=program.structs("deep_layer", layers),
        count=len(layers),
        points=points,
        inputs=inputs,
        rate=add("output: 1 / lengthscales", last.rate),
        centres=add("output: inducing inputs", _columns(last.inducing, points)),
        norms=add("output: half their squared norms", widened(last.norms, points, NOWHERE)),
        axes=add("output: axes of the explained variance", tiled(weights)),
        known=add("output: share that is explained along them", widened(last.known, points)),
        weights=add("output: weights of the mean", widened(last.weights[:, -1], points)),
    )
    program.work((9 * widest + quantifier.num_samples) * LANES)
    program.predict.append(f"deep_gp_interval(&{name}, s, a, {mean}, {width});")


def _layer_fields(program: Program, layer: LayerModel, sample: Single) -> dict[str, int | str]:
    add, shared = program.tables.add, Shared(layer)
    points, outputs = padded(len(shared.norms)), padded(layer.weights.shape[1])

    def whole(matrix: Single) -> Array:
        rows = np.zeros((points, matrix.shape[1]))
        rows[: len(matrix)] = matrix
        return tiled(rows)

    return {
        "inputs": len(shared.rate),
        "points": points,
        "outputs": outputs,
        "rate": add("hidden layer: 1 / lengthscales", shared.rate),
        "centres": add("hidden layer: inducing inputs", _columns(shared.inducing, points)),
        "norms": add("hidden layer: half their squared norms", widened(shared.norms, points, NOWHERE)),
        "whiten": add("hidden layer: inverse root", whole(shared.whiten)),
        "linear": add("hidden layer: linear mean", tiled(shared.linear.astype(np.float64))),
        "means": add("hidden layer: means", whole(shared.mean)),
        "gains": add("hidden layer: variances less 1", whole(shared.gain)),
        "variance": add("hidden layer: prior variance", [float(shared.variance)]),
        "draws": add("hidden layer: draws", [widened(row, outputs) for row in sample]),
    }


def _columns(inducing: Single, points: int) -> Array:
    """Scaled inducing inputs (d, M) in tiles, padded to this number of points."""
    whole = np.zeros((len(inducing), points))
    whole[:, : inducing.shape[1]] = inducing
    return tiled(whole)
