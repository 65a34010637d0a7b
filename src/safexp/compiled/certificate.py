"""Translation of quantifiers: which C functions bound the costs of an action."""

from __future__ import annotations

import math

from safexp.compiled.blueprint import NotExportableError
from safexp.compiled.change import translate_trend
from safexp.compiled.deep_gp import translate_deep
from safexp.compiled.features import translate_features
from safexp.compiled.known import translate_known
from safexp.compiled.landmarks import restrict_to
from safexp.compiled.program import Place, Program
from safexp.compiled.rollout import translate_rollout
from safexp.compiled.sparse_gp import translate_sparse
from safexp.compiled.support import widen
from safexp.core.signals import Sides
from safexp.quantifiers.base import Quantifier
from safexp.quantifiers.calibrated import Calibrated
from safexp.quantifiers.change import ChangeModel
from safexp.quantifiers.features import FeatureRegression
from safexp.quantifiers.fitted import FittedQuantifier
from safexp.quantifiers.gp.deep import DeepGP
from safexp.quantifiers.gp.sparse import SparseGP
from safexp.quantifiers.known import Known
from safexp.quantifiers.per_cost import PerCost
from safexp.quantifiers.rollout import Rollout
from safexp.quantifiers.unknown import Unknown


def translate_costs(program: Program, quantifier: Quantifier, place: Place, first: int = 0) -> None:
    """Statements that write mean and width of the costs from number `first` on, of actions in the state at a place."""
    if type(quantifier) is PerCost:
        _translate_parts(program, quantifier, place, first)
        return
    scale, inner = _calibration(quantifier)
    mean, width = (f"{name} + {first} * a->lanes" if first else name for name in ("mean", "width"))
    if isinstance(inner, FittedQuantifier) and inner.knows:
        _translate_fitted(program, inner, place, mean, width)
        _calibrate(program, scale, 1, width)
        if inner.target == "margin":
            program.use("margin")
            program.predict.append(f"margin_costs(a, {mean}, {width});")
    elif type(inner) is ChangeModel:
        _translate_change(program, inner, scale, place, mean, width)
    elif type(inner) is Rollout and inner.knows:
        translate_rollout(program, inner, scale if math.isfinite(scale) else 1.0, place, mean, width)
        _calibrate(program, scale if math.isinf(scale) else 1.0, inner.num_costs, width)
        assert inner.sides is not None, "fitted for its limits"
        _limit(program, inner.sides, range(inner.num_costs), (mean, width), (mean, width))
    elif type(inner) is Known:
        translate_known(program, inner, place, inner.num_costs, mean, width)
        _calibrate(program, scale, inner.num_costs, width)
    elif type(inner) is Unknown or (not inner.knows and isinstance(inner, FittedQuantifier | Rollout)):
        _unknown(program, inner.num_costs, mean, width)
    else:
        raise _not_exportable(inner)


def _translate_parts(program: Program, quantifier: PerCost, place: Place, first: int) -> None:
    """Every part of `PerCost` with its own signals after the observation."""
    bare, signal = place.size - quantifier.num_signals, 0
    for part in quantifier.parts:
        own = range(bare + signal, bare + signal + part.num_signals)
        where = place if not quantifier.num_signals else program.gathered(place, [*range(bare), *own])
        translate_costs(program, part, where, first)
        first, signal = first + part.num_costs, signal + part.num_signals


def _translate_fitted(program: Program, quantifier: Quantifier, place: Place, mean: str, width: str) -> None:
    """A regression that was fitted, in its own units; widths grow outside the range of its data."""
    if type(quantifier) is SparseGP:
        translate_sparse(program, quantifier, place, mean, width)
    elif type(quantifier) is FeatureRegression:
        translate_features(program, quantifier, place, mean, width)
    elif type(quantifier) is DeepGP:
        translate_deep(program, quantifier, place, mean, width)
    else:
        raise _not_exportable(quantifier)
    widen(program, quantifier.support, place, width)
    if quantifier.visited is not None:
        restrict_to(program, quantifier.visited, place, width)


def _translate_change(program: Program, model: ChangeModel, scale: float, place: Place, mean: str, width: str) -> None:
    """Signals after the step, and the costs of their limits."""
    signals, bare = model.num_signals, place.size - model.num_signals
    assert model.sides is not None, "set by the shield"
    if not model.knows:
        _unknown(program, model.num_costs, mean, width)
        return
    signal, spread = program.name("signal"), program.name("spread")
    program.predict.append(f"real {signal}[{signals} * LANES], {spread}[{signals} * LANES];")
    if isinstance(model.quantifier, Known):
        translate_known(program, model.quantifier, Place(place.start, bare), signals, signal, spread)
    else:
        chosen = program.gathered(
            place, range(bare) if model.inputs is None else [i % place.size for i in model.inputs]
        )
        translate_trend(program, model, scale, chosen, place.start + bare, signal, spread)
        of_residual, of_width = program.name("residual"), program.name("residual_width")
        program.predict.append(f"real {of_residual}[LANES], {of_width}[LANES];")
        for k, (unit, regression) in enumerate(model.residuals):
            if not regression.knows:
                _unknown(program, 1, of_residual, of_width)
            else:
                _translate_fitted(program, regression, chosen, of_residual, of_width)
            scaled = program.tables.add(f"size of the residual of signal {k}", [unit])
            at = f"{k} * a->lanes"
            program.predict.append(
                f"change_add(s, {scaled}, a, {of_residual}, {of_width}, {signal} + {at}, {spread} + {at});"
            )
    _calibrate(program, scale, signals, spread)
    _limit(program, model.sides, model.sides.which.tolist(), (signal, spread), (mean, width))


def _limit(program: Program, sides: Sides, which: object, given: tuple[str, str], result: tuple[str, str]) -> None:
    """Costs of one-sided limits from the signal of each."""
    program.use("sides")
    name = program.struct(
        "side_limits",
        sides=len(sides.which),
        numbers=program.tables.add(
            "sign, limit and scale of every limit", [*sides.sign, *sides.reference, *sides.scale]
        ),
        which=program.integers("sides", list(which)),  # type: ignore[call-overload]
    )
    program.predict.append(f"side_costs(&{name}, s, a, {', '.join((*given, *result))});")


def _calibration(quantifier: Quantifier) -> tuple[float, Quantifier]:
    """Scale of all calibrations around a quantifier, and that quantifier."""
    scale = 1.0
    while type(quantifier) is Calibrated:
        scale, quantifier = scale * quantifier.scale, quantifier.quantifier
    return scale, quantifier


def _calibrate(program: Program, scale: float, values: int, width: str) -> None:
    if scale != 1.0:
        at = program.tables.add("scale of the calibration", [scale])
        program.use("calibration")
        program.predict.append(f"calibrate(s, {at}, {values}, a, {width});")


def _unknown(program: Program, values: int, mean: str, width: str) -> None:
    program.use("unknown")
    program.predict.append(f"unknown({values}, a, {mean}, {width});")


def _not_exportable(quantifier: Quantifier) -> NotExportableError:
    return NotExportableError(
        f"{type(quantifier).__name__} cannot be exported to C. SparseGP, DeepGP(shared=True), FeatureRegression, "
        "Known(safexp.Linear(...)), Unknown, and ChangeModel, Rollout, Calibrated and PerCost of these can."
    )
