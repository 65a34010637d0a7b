"""Translation of `FeatureRegression`."""

from __future__ import annotations

import math

import numpy as np

from safexp.compiled.network import layer_fields
from safexp.compiled.program import Place, Program
from safexp.compiled.tables import LANES, in_blocks, padded, tiled, triangle, widened
from safexp.core.arrays import Array
from safexp.core.network import Layer
from safexp.quantifiers.features import FeatureRegression
from safexp.quantifiers.targets import prior_mean


def translate_features(program: Program, quantifier: FeatureRegression, place: Place, mean: str, width: str) -> None:
    """Statements for mean and width of a fitted regression on features."""
    if quantifier.features == "random":
        _translate_random(program, quantifier, place, mean, width)
    else:
        _translate_learned(program, quantifier, place, mean, width)


def _translate_random(program: Program, quantifier: FeatureRegression, place: Place, mean: str, width: str) -> None:
    frequencies, phases = quantifier.layers
    features, add = padded(len(phases)), program.tables.add
    program.use("features")
    name = program.struct(
        "random_features",
        state=place.start,
        states=place.size,
        actions=program.actions,
        features=features,
        state_tiles=add("random features: frequencies of the state", tiled(frequencies[: place.size])),
        action_tiles=add("frequencies of the action", tiled(frequencies[place.size :])),
        phases=add("phases", widened(phases, features)),
        candidates=add("cosines and sines of the fixed candidates", _angles(program, frequencies[place.size :])),
        **_head(program, quantifier, math.sqrt(2 / quantifier.num_features)),
        shared=program.reserve(3 * features),
    )
    program.work(max(features * LANES, features + program.actions))
    program.of_state.append(f"random_features_state(&{name}, s);")
    program.of_all.append(f"random_features_all(&{name}, s);")
    program.predict.append(f"random_features_interval(&{name}, s, a, {mean}, {width});")


def _translate_learned(program: Program, quantifier: FeatureRegression, place: Place, mean: str, width: str) -> None:
    given = quantifier.layers
    layers = [Layer(*pair, "tanh") for pair in zip(given[::2], given[1::2], strict=True)]
    program.use("network", "learned_features")
    inside = program.structs("dense_layer", layer_fields(program, layers))
    widest = max(padded(len(layer.biases)) for layer in layers)
    features = padded(quantifier.num_features)
    name = program.struct(
        "learned_features",
        state=place.start,
        states=place.size,
        actions=program.actions,
        features=features,
        widest=widest,
        layers=inside,
        count=len(layers),
        **_head(program, quantifier, 1 / math.sqrt(quantifier.num_features)),
    )
    program.work((place.size + program.actions + 2 * widest + features) * LANES)
    program.predict.append(f"learned_features_interval(&{name}, s, a, {mean}, {width});")


def _head(program: Program, quantifier: FeatureRegression, factor: float) -> dict[str, int | str]:
    head, add = quantifier.head, program.tables.add
    assert head is not None, "only fitted regressions are translated"
    scale, residual = quantifier.width_factors
    inverse = (head.inverse + head.inverse.T) / 2
    eigenvalues, axes = np.linalg.eigh(inverse)
    return {
        "weights": add("weights", widened(head.weights, padded(len(head.weights)))),
        "triangle": add("triangular root of the covariance", triangle(axes * np.sqrt(np.maximum(eigenvalues, 0.0)))),
        "numbers": add(
            "prior mean, factor of the features, of their norm, and residual",
            [prior_mean(quantifier.target), factor, scale, residual],
        ),
    }


def _angles(program: Program, frequencies: Array) -> Array:
    """Cosines, then sines, of the fixed actions' angles, block by block."""
    angles = np.zeros((len(program.blueprint.candidates), padded(frequencies.shape[1])))
    angles[:, : frequencies.shape[1]] = program.blueprint.candidates @ frequencies
    return in_blocks(np.concatenate([np.cos(angles), np.sin(angles)], axis=1))
