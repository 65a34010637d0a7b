"""Comment at the head of an exported shield: its promise, its units, and where it came from."""

from __future__ import annotations

import textwrap

from safexp.compiled.account import parts_of
from safexp.compiled.blueprint import Blueprint
from safexp.constraints import Within
from safexp.core.files import versions
from safexp.quantifiers.base import Quantifier, inner_of

WIDTH = 110


def about(blueprint: Blueprint, precision: str, *, readings: int) -> str:
    """The comment."""
    quantifier = blueprint.quantifier
    look = f" and then of the backup for {blueprint.horizon} steps" if blueprint.horizon else ""
    paragraphs = [
        "Safety filter, exported by safexp " + str(versions()["safexp"]) + ".",
        f"Shield: {_names(quantifier)}; SHA-256 of its description and its learned numbers:\n{blueprint.digest}",
        f"Promise: with probability at least 1 - {quantifier.delta:g}, over the whole run, no cost of a certified "
        f"action{look} exceeds its bound, under the assumptions of the model (see the documentation of "
        f"{type(quantifier).__name__}). Arithmetic is in {precision}: decisions are those of the Python shield, except "
        f"where a bound equals its threshold up to rounding.",
        "Costs and thresholds are in units of the largest cost of a step, in [0, 1]. " + _limits(blueprint, readings),
        "Not safe: whatever is NaN or infinite, an observation outside its space (in shield_act), a signal that is not "
        "known. Nothing is allocated, no global state is written, and <math.h> is the only library.",
        "Compile with -std=c99 -O2, and without -ffast-math. -ffp-contract=off makes ties between equally near "
        "candidates fall as in Python.",
    ]
    lines = [line for part in paragraphs for text in part.split("\n") for line in [*textwrap.wrap(text, WIDTH)]]
    return "/*\n" + "\n".join(f" * {line}" for line in lines) + "\n */"


def _names(quantifier: Quantifier) -> str:
    inside = ", ".join(_names(part) for part in inner_of(quantifier))
    return type(quantifier).__name__ + (f"({inside})" if inside else "")


def _limits(blueprint: Blueprint, readings: int) -> str:
    parts = parts_of(blueprint.constraint)
    if not parts:
        return "The shield has no constraint: give shield_filter its thresholds."
    each = []
    for part in parts:
        if isinstance(part, Within):
            each.append(f"signals {', '.join(part.names)} in their own units")
        else:
            each.append(f"cost {part.cost!r} of at most {part.cost_max:g}")
    return f"shield_observe takes {readings} numbers: " + "; ".join(each) + "."
