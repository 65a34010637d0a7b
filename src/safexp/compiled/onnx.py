"""Certificate of a shield as an ONNX graph: upper bounds of the costs of actions, in double precision."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from safexp.compiled.blueprint import Blueprint, NotExportableError
from safexp.core.arrays import Array
from safexp.core.extras import needed_for
from safexp.core.files import write_bytes
from safexp.core.linear import Linear
from safexp.core.signals import Sides
from safexp.quantifiers.base import Quantifier
from safexp.quantifiers.calibrated import Calibrated
from safexp.quantifiers.change import LEAST_WIDTH, ChangeModel
from safexp.quantifiers.features import FeatureRegression
from safexp.quantifiers.fitted import FittedQuantifier
from safexp.quantifiers.gp.sparse import SparseGP
from safexp.quantifiers.gp.sparse_model import SparsePredictor
from safexp.quantifiers.known import Known
from safexp.quantifiers.per_cost import PerCost
from safexp.quantifiers.support import Support
from safexp.quantifiers.targets import normal_multiplier, prior_mean
from safexp.quantifiers.unknown import Unknown

OPSET, IR_VERSION = 18, 8
"""Versions that runtimes of 2023 support."""

DOUBLE = np.dtype(np.float64)

Interval = tuple[str, str]
"""Names of a mean and a width, (n, values) each."""


def write_certificate(blueprint: Blueprint, path: Path) -> None:
    """Write the certificate of a shield: inputs `observation`, `measured` (if signals are limited), `action`.

    All are double precision with a batch axis, vectors that are finite and within their spaces; the output
    `upper_bound` (n, K) bounds the costs, 1 where nothing is known.

    Raises:
        MissingExtraError: if `onnx` is not installed.
        NotExportableError: if a part of the shield has no graph.
    """
    with needed_for("exporting a certificate"):
        from onnx import checker, helper
    for space in (blueprint.observation_space, blueprint.action_space):
        if not isinstance(space, spaces.Box):
            raise NotExportableError(f"a certificate can be exported for vectors, not for {space}.")
    if blueprint.levels is not None:
        raise NotExportableError("a certificate with levels cannot be exported to ONNX: leave levels out.")
    graph = _Graph(helper)
    signals = blueprint.quantifier.num_signals
    sizes = {"observation": int(np.prod(blueprint.observation_space.shape or ())), "measured": signals}
    sizes["action"] = blueprint.candidates.shape[1]
    inputs = {name: graph.value(name, size) for name, size in sizes.items() if size}
    state = graph.add("Concat", "observation", "measured", axis=1) if signals else "observation"
    mean, width = _costs(graph, blueprint.quantifier, state, sizes["observation"] + signals)
    bound = graph.add("Max", graph.add("Add", mean, width), 0.0)
    graph.add("Min", bound, min(blueprint.most, np.finfo(DOUBLE).max), output="upper_bound")
    output = graph.value("upper_bound", blueprint.quantifier.num_costs)
    model = helper.make_model(
        helper.make_graph(graph.nodes, "certificate", list(inputs.values()), [output], graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="safexp",
        doc_string=f"shield {blueprint.digest}, delta {blueprint.quantifier.delta:g}",
    )
    checker.check_model(model, full_check=True)
    write_bytes(path, model.SerializeToString())


class _Graph:
    """Nodes and constants of a graph under construction, in double precision."""

    def __init__(self, helper: Any) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._helper = helper

    def value(self, name: str, size: int) -> Any:
        """Batch of vectors."""
        return self._helper.make_tensor_value_info(name, self._helper.np_dtype_to_tensor_dtype(DOUBLE), ["n", size])

    def add(self, kind: str, *inputs: str | ArrayLike, output: str | None = None, **attributes: Any) -> str:
        """Add a node; inputs that are not names are constants. Returns the name of its output."""
        names = [given if isinstance(given, str) else self.constant(np.asarray(given, DOUBLE)) for given in inputs]
        name = output or f"value{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(kind, names, [name], **attributes))
        return name

    def constant(self, array: Any) -> str:
        name = f"constant{len(self.constants)}"
        kind = self._helper.np_dtype_to_tensor_dtype(array.dtype)
        self.constants.append(self._helper.make_tensor(name, kind, array.shape, array.tobytes(), raw=True))
        return name

    def squares(self, value: str) -> str:
        """Sum of the squares of each row, (n, 1)."""
        return self.add("ReduceSumSquare", value, self.constant(np.array([1])), keepdims=1)

    def shifted(self, value: str, constant: float) -> str:
        """A value plus a constant; no node for 0, which optimisers of some runtimes stumble over."""
        return self.add("Add", value, constant) if constant else value

    def scaled(self, value: str, factor: float) -> str:
        """A value times a constant; no node for 1."""
        return value if factor == 1 else self.add("Mul", value, factor)

    def columns(self, value: str, entries: Any) -> str:
        """Some columns of a value."""
        return self.add("Gather", value, self.constant(np.asarray(list(entries), dtype=np.int64)), axis=1)


def _costs(graph: _Graph, quantifier: Quantifier, state: str, size: int) -> Interval:
    """Mean and width of the costs, for a state of this size."""
    if type(quantifier) is PerCost:
        return _parts(graph, quantifier, state, size)
    scale, inner = 1.0, quantifier
    while type(inner) is Calibrated:
        scale, inner = scale * inner.scale, inner.quantifier
    if type(inner) is Unknown or math.isinf(scale) or (not inner.knows and type(inner) is not Known):
        zero = graph.add("Mul", graph.columns(state, [0] * inner.num_costs), 0.0)
        return zero, graph.add("Add", zero, np.inf)
    if isinstance(inner, FittedQuantifier):
        mean, width = _fitted(graph, inner, state, size)
        width = graph.scaled(width, scale)
        return (mean, width) if inner.target != "margin" else _of_margin(graph, mean, width)
    if type(inner) is Known:
        mean, width = _linear(graph, inner, state)
        return mean, graph.scaled(width, scale)
    if type(inner) is ChangeModel:
        mean, width, beyond = _signals(graph, inner, state, size)
        assert inner.sides is not None, "set by the shield"
        width = graph.scaled(width, scale)
        return _limits(graph, inner.sides, mean, graph.add("Add", width, beyond) if beyond else width)
    raise NotExportableError(
        f"{type(inner).__name__} cannot be exported to ONNX. SparseGP, FeatureRegression, Known(safexp.Linear(...)), "
        "Unknown, and ChangeModel, Calibrated and PerCost of these can; Shield.export_c translates more."
    )


def _parts(graph: _Graph, quantifier: PerCost, state: str, size: int) -> Interval:
    bare, signal, found = size - quantifier.num_signals, 0, []
    for part in quantifier.parts:
        own = range(bare + signal, bare + signal + part.num_signals)
        where = graph.columns(state, [*range(bare), *own]) if quantifier.num_signals else state
        found.append(_costs(graph, part, where, bare + part.num_signals))
        signal += part.num_signals
    mean, width = (graph.add("Concat", *kind, axis=1) for kind in zip(*found, strict=True))
    return mean, width


def _fitted(graph: _Graph, quantifier: Quantifier, state: str, size: int) -> Interval:
    """A fitted regression in its own units; widths grow outside the range of its data."""
    pair = graph.add("Concat", state, "action", axis=1)
    if type(quantifier) is SparseGP:
        mean, width = _sparse(graph, quantifier, pair, size)
    elif type(quantifier) is FeatureRegression:
        mean, width = _features(graph, quantifier, pair)
    else:
        raise NotExportableError(f"{type(quantifier).__name__} cannot be exported to ONNX; Shield.export_c may.")
    mean = graph.shifted(mean, prior_mean(quantifier.target))
    width = graph.add("Mul", width, _factor(graph, quantifier.support, pair))
    if (visited := quantifier.visited) is not None:
        standard = graph.add("Div", graph.add("Sub", pair, visited.shift), visited.scale)
        far = graph.add("Greater", _distance(graph, standard, visited.landmarks.points), visited.reach)
        width = graph.add("Where", far, np.inf, width)
    return mean, width


def _sparse(graph: _Graph, quantifier: SparseGP, pair: str, size: int) -> Interval:
    model = quantifier.model
    assert model is not None, "only fitted processes are translated"
    weights = SparsePredictor(model, size).weights
    inducing = model.inducing * np.exp(-model.log_lengthscales)
    rate = np.exp(-model.log_lengthscales) / model.scale
    scaled = graph.add("Mul", graph.add("Sub", pair, model.shift), rate)
    half = graph.add("Mul", graph.squares(scaled), 0.5)
    norms = 0.5 * np.einsum("md,md->m", inducing, inducing)
    exponent = graph.add("Sub", graph.add("Sub", graph.add("MatMul", scaled, inducing.T), norms), half)
    kernel = graph.add("Exp", graph.add("Min", exponent, 0.0))
    explained = graph.squares(graph.add("MatMul", kernel, weights[:, :-1]))
    variance = graph.add("Max", graph.add("Sub", float(np.exp(model.log_variance)), explained), 0.0)
    deviation = graph.add("Sqrt", graph.add("Add", variance, float(np.exp(model.log_noise))))
    return graph.add("MatMul", kernel, weights[:, -1:]), graph.add("Mul", deviation, quantifier.width_multiplier)


def _features(graph: _Graph, quantifier: FeatureRegression, pair: str) -> Interval:
    layers, head = quantifier.layers, quantifier.head
    assert head is not None, "only fitted regressions are translated"
    value = pair
    for weights, biases in zip(layers[::2], layers[1::2], strict=True):
        value = graph.add("Add", graph.add("MatMul", value, weights), biases)
        value = graph.add("Cos" if quantifier.features == "random" else "Tanh", value)
    # All factors are in the matrices: onnxruntime would fuse a factor of a product into it, in single precision.
    factor = math.sqrt((2 if quantifier.features == "random" else 1) / quantifier.num_features)
    scale, residual = quantifier.width_factors
    eigenvalues, axes = np.linalg.eigh((head.inverse + head.inverse.T) / 2)
    root = factor * scale * axes * np.sqrt(np.maximum(eigenvalues, 0.0))
    width = graph.add("Sqrt", graph.squares(graph.add("MatMul", value, root)))
    return graph.add("MatMul", value, factor * head.weights[:, None]), graph.shifted(width, residual)


def _factor(graph: _Graph, support: Support, pair: str) -> str:
    """Factor (n, 1) of widths outside the range of the data, infinite where nothing is known."""
    ranges = support.ranges
    beyond = graph.add("Max", graph.add("Sub", ranges.low, pair), graph.add("Sub", pair, ranges.high), 0.0)
    unknown = graph.add("Or", graph.add("Less", pair, ranges.least), graph.add("Greater", pair, ranges.most))
    beyond = graph.add("Where", unknown, np.inf, graph.add("Mul", beyond, ranges.rate))
    worst = graph.add("ReduceMax", beyond, graph.constant(np.array([1])), keepdims=1)
    room = graph.add("Max", graph.add("Sub", 1.0, graph.add("Div", worst, support.reach)), 0.0)
    return graph.add("Div", 1.0, room)


def _distance(graph: _Graph, standard: str, points: Array) -> str:
    """Distance (n, 1) of standardised inputs from the nearest of the points."""
    squares = graph.add("Add", graph.add("MatMul", standard, -2.0 * points.T), (points**2).sum(axis=1))
    nearest = graph.add("ReduceMin", squares, graph.constant(np.array([1])), keepdims=1)
    return graph.add("Sqrt", graph.add("Max", graph.add("Add", nearest, graph.squares(standard)), 0.0))


def _of_margin(graph: _Graph, mean: str, width: str) -> Interval:
    unsure = graph.add("Where", graph.add("Greater", graph.add("Abs", mean), width), 0.0, 0.5)
    return graph.add("Where", graph.add("Less", mean, graph.add("Neg", width)), 1.0, unsure), unsure


def _linear(graph: _Graph, quantifier: Known, state: str) -> Interval:
    function = quantifier.cost
    if not isinstance(function, Linear) or callable(quantifier.width):
        raise NotExportableError(
            "Known(<function>) cannot be exported to ONNX: use Known(safexp.Linear(...), <number>)."
        )
    of_states, of_actions = (part.reshape(len(part), -1) for part in (function.of_states, function.of_actions))
    sum_ = graph.add("Add", graph.add("MatMul", state, of_states), graph.add("MatMul", "action", of_actions))
    mean = graph.add("Add", sum_, function.constant)
    return mean, graph.add("Add", graph.add("Mul", mean, 0.0), quantifier.width)


def _signals(graph: _Graph, model: ChangeModel, state: str, size: int) -> tuple[str, str, str]:
    """Mean and width of the signals after the step, and the width of the distance from the data, or ''."""
    bare, signals = size - model.num_signals, model.num_signals
    if isinstance(model.quantifier, Known):
        return *_linear(graph, model.quantifier, graph.columns(state, range(bare))), ""
    trend, beyond = model.trend, model.extrapolation
    assert trend is not None and beyond is not None, "only fitted models are translated"
    entries = list(range(bare)) if model.inputs is None else [i % size for i in model.inputs]
    chosen = graph.columns(state, entries)
    pair = graph.add("Concat", chosen, "action", axis=1)
    standard = graph.add("Div", graph.add("Sub", pair, trend.shift), trend.scale)
    moved = graph.add("Add", graph.add("MatMul", standard, trend.weights[:-1]), trend.weights[-1])
    mean = graph.add("Add", moved, graph.columns(state, range(bare, size)))
    spreads = [graph.add("Add", graph.add("MatMul", standard, root[:-1]), root[-1]) for root in trend.roots]
    deviation = graph.add("Concat", *(graph.add("Sqrt", graph.squares(one)) for one in spreads), axis=1)
    width = graph.add("Mul", deviation, normal_multiplier(model.delta / signals))
    width = graph.add("Add", width, LEAST_WIDTH * model.sizes)
    near = _distance(graph, standard, beyond.landmarks.points)
    distance = graph.add("Max", graph.add("Sub", near, beyond.landmarks.radius), 0.0)
    far = graph.add(
        "Where", graph.add("Greater", distance, beyond.tested), np.inf, graph.add("Mul", distance, beyond.slopes)
    )
    found = [_fitted(graph, own, chosen, len(entries)) for _, own in model.residuals]
    scales = np.array([unit for unit, _ in model.residuals])
    of_mean, of_width = (
        graph.add("Mul", graph.add("Concat", *kind, axis=1), scales) for kind in zip(*found, strict=True)
    )
    return graph.add("Add", mean, of_mean), graph.add("Add", width, of_width), far


def _limits(graph: _Graph, sides: Sides, mean: str, width: str) -> Interval:
    """Costs of one-sided limits from the signals."""
    by_side, spread = (graph.columns(part, sides.which) for part in (mean, width))
    excess = graph.add("Mul", graph.add("Sub", by_side, sides.reference), sides.sign / (2 * sides.scale))
    return graph.add("Add", excess, 0.5), graph.add("Div", spread, 2 * sides.scale)
