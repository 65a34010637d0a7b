"""Translation of `Rollout`: a look ahead to the backup, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from safexp.compiled.blueprint import NotExportableError
from safexp.compiled.program import Place, Program
from safexp.compiled.support import support_fields
from safexp.compiled.tables import padded, tiled, triangle
from safexp.core.arrays import Array, Indices
from safexp.core.signals import name_of_signal
from safexp.quantifiers.dynamics import Dynamics
from safexp.quantifiers.path_errors import LEAST_WIDTH
from safexp.quantifiers.polynomial import Polynomial
from safexp.quantifiers.rollout import Rollout
from safexp.quantifiers.targets import normal_multiplier


def translate_rollout(program: Program, quantifier: Rollout, scale: float, place: Place, mean: str, width: str) -> None:
    """Statements for the worst signal of each side on the path, and its width there."""
    model, sides, add = quantifier.model, quantifier.sides, program.tables.add
    assert model is not None and sides is not None, "only fitted models are translated"
    observed = place.size - quantifier.num_signals
    inputs = list(range(place.size)) if quantifier.inputs is None else [i % place.size for i in quantifier.inputs]
    errors = quantifier.errors
    features = padded(len(model.polynomial.weights))
    outputs = padded(place.size)
    program.use("support", "rollout")
    chosen = Place(place.start, len(inputs))
    numbers = [scale, normal_multiplier(quantifier.delta / quantifier.num_signals), LEAST_WIDTH]
    name = program.struct(
        "rollout",
        state=place.start,
        states=place.size,
        observed=observed,
        inputs=len(inputs),
        actions=program.actions,
        signals=quantifier.num_signals,
        sides=quantifier.num_costs,
        steps=program.blueprint.horizon + 1,
        degree=model.degree,
        features=features,
        input_entries=program.integers("inputs", inputs),
        signal_entries=program.integers("signals", _entries(program, quantifier, observed)),
        which=program.integers("sides", sides.which),
        **_polynomial(program, model.polynomial),
        **_model(program, model),
        root=add("look-ahead: root of the uncertainty of the weights", triangle(model.polynomial.root)),
        level=add("look-ahead: squared width after every step", errors.level),
        slope=add("look-ahead: its growth with the squared distance", errors.slope),
        least=add("look-ahead: least width of every signal", errors.least),
        sign=add("look-ahead: sign of every limit", sides.sign),
        numbers=add("look-ahead: scale, multiplier, share of the distance", numbers),
        range="&" + program.struct("support", **support_fields(program, quantifier.support, chosen, program.actions)),
        outputs=outputs,
    )
    entries = 2 * outputs + len(inputs) + 2 * program.actions + features + observed
    program.work(entries + 2 * quantifier.num_signals + quantifier.num_costs)
    program.predict.append(f"rollout_interval(&{name}, s, a, {mean}, {width});")


def _model(program: Program, model: Dynamics) -> dict[str, int | str]:
    """The step: matrices of a linear model, or weights of monomials."""
    add, weights = program.tables.add, model.polynomial.weights
    if model.linear is not None:
        parts = zip(("of_states", "of_actions", "constant"), model.linear, strict=True)
        return {"weights": 0, **{name: add(f"look-ahead: next state, {name}", part) for name, part in parts}}
    whole = np.zeros((padded(len(weights)), weights.shape[1]))
    whole[: len(weights)] = weights
    fields: dict[str, int | str] = dict.fromkeys(("of_states", "of_actions", "constant"), 0)
    return fields | {"weights": add("look-ahead: weights of the monomials", tiled(whole))}


def _polynomial(program: Program, polynomial: Polynomial) -> dict[str, int | str]:
    """Standardised inputs, and how monomials are made of them."""
    shift, scale, extent = polynomial.inputs
    made: list[Array | Indices] = []
    start = 1
    size = len(shift)
    for shorter, factor in polynomial.factors:
        made.append(np.stack([start + shorter, factor], axis=1))
        start, size = start + size, len(factor)
    factors = np.concatenate(made) if made else np.zeros((0, 2))
    add = program.tables.add
    return {
        "factors": program.integers("factors", factors),
        "monomials": len(factors),
        "shift": add("look-ahead: means of the inputs", shift),
        "scale": add("look-ahead: standard deviations of the inputs", scale),
        "extent": add("look-ahead: limits of the standardised inputs", extent),
    }


def _entries(program: Program, quantifier: Rollout, observed: int) -> list[int]:
    """Entry of the state that holds each signal along the path."""
    blueprint = program.blueprint
    space: spaces.Space[Any] = blueprint.observation_space
    if not isinstance(space, spaces.Box):
        raise NotExportableError(f"Rollout cannot be exported for observations of {space}: it needs a Box.")
    assert blueprint.constraint is not None, "Rollout answers for a constraint"
    sources = blueprint.constraint.sources
    if len(sources) != quantifier.num_signals:
        raise NotExportableError("Rollout cannot be exported as one part of AllOf: limit its signals with one Within.")
    entries = []
    for k, source in enumerate(sources):
        if callable(source):
            raise NotExportableError(
                f"the signal {name_of_signal(source)} is a Python function of the observation, so Rollout cannot be "
                "exported: add the signal to the observation and limit that entry."
            )
        entries.append(observed + k if isinstance(source, str) else int(source) % observed)
    return entries
