"""Translation of `Known` functions that are linear."""

from __future__ import annotations

import numpy as np

from safexp.compiled.blueprint import NotExportableError
from safexp.compiled.program import Place, Program
from safexp.core.linear import Linear
from safexp.quantifiers.known import Known


def translate_known(program: Program, quantifier: Known, place: Place, values: int, mean: str, width: str) -> None:
    """Statements for the values of a linear function and their width."""
    function = quantifier.cost
    if not isinstance(function, Linear):
        raise NotExportableError(
            f"Known(cost={function!r}) cannot be exported: it is a Python function. Linear functions can: "
            "Known(safexp.Linear(of_states, of_actions, constant))."
        )
    if callable(quantifier.width):
        raise NotExportableError("Known(width=<function>) cannot be exported: give the width as a number.")
    of_states, of_actions = (part.reshape(len(part), -1) for part in (function.of_states, function.of_actions))
    expected = (place.size, program.actions, values)
    if (given := (len(of_states), len(of_actions), of_states.shape[1])) != expected:
        raise NotExportableError(
            f"Linear has coefficients for {given[0]} entries of a state, {given[1]} of an action and {given[2]} "
            f"values, but the shield has {expected[0]}, {expected[1]} and {expected[2]}."
        )
    add = program.tables.add
    program.use("linear")
    name = program.struct(
        "linear_model",
        state=place.start,
        states=place.size,
        actions=program.actions,
        values=values,
        of_states=add("linear function: coefficients of the state", of_states),
        of_actions=add("coefficients of the action", of_actions),
        constant=add("constant", np.broadcast_to(function.constant, (values,))),
        width=add("width", np.full(values, quantifier.width)),
    )
    program.predict.append(f"linear_interval(&{name}, s, a, {mean}, {width});")
