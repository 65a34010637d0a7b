"""A quantifier made to answer for a constraint: one for each of its limits, models of change for measured signals."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from safexp.constraints import AllOf, Constraint, Within
from safexp.core.encoding import encoded_size
from safexp.quantifiers.base import Quantifier
from safexp.quantifiers.calibrated import Calibrated
from safexp.quantifiers.change import ChangeModel
from safexp.quantifiers.known import Known
from safexp.quantifiers.per_cost import PerCost
from safexp.quantifiers.unknown import Unknown
from safexp.shield.transitions import parts_of


def certificate_for(constraint: Constraint, quantifier: Quantifier, observation_space: spaces.Space[Any]) -> Quantifier:
    """The quantifier that bounds all costs of a constraint: given for each of its parts, or copied for each.

    Raises:
        ValueError: where it cannot answer for the constraint.
    """
    parts = parts_of(constraint)
    if isinstance(constraint, AllOf) and not isinstance(quantifier, PerCost):
        quantifier = PerCost.of(quantifier, len(parts))
    given = quantifier.parts if isinstance(quantifier, PerCost) else (quantifier,)
    if isinstance(quantifier, PerCost) and len(given) == len(parts):
        found = [_for_part(part, own, observation_space) for part, own in zip(parts, given, strict=True)]
        quantifier = quantifier if all(a is b for a, b in zip(found, given, strict=True)) else PerCost(*found)
    elif len(parts) == 1:
        quantifier = _for_part(constraint, quantifier, observation_space)
    if quantifier.num_costs != constraint.num_costs:
        raise ValueError(
            f"quantifiers for {quantifier.num_costs} costs, but {type(constraint).__name__} limits "
            f"{constraint.num_costs}: give one for each part of AllOf, or one that is copied for each."
        )
    return quantifier


def _for_part(constraint: Constraint, quantifier: Quantifier, space: spaces.Space[Any]) -> Quantifier:
    """What bounds the costs of one simple constraint."""
    if not isinstance(constraint, Within):
        return quantifier
    if isinstance(quantifier, Calibrated):
        inner = _for_part(constraint, quantifier.quantifier, space)
        return quantifier if inner is quantifier.quantifier else Calibrated(inner, **quantifier.settings())
    if isinstance(quantifier, ChangeModel):
        return (
            quantifier
            if quantifier.sides is not None
            else quantifier.bound_to(constraint.sides, _inputs(constraint, space))
        )
    if isinstance(quantifier, Known) or quantifier.is_regression:
        return ChangeModel(quantifier).bound_to(constraint.sides, _inputs(constraint, space))
    if isinstance(quantifier, Unknown) and constraint.num_costs > 1:
        return PerCost.of(quantifier, constraint.num_costs)
    return quantifier


def _inputs(constraint: Within, space: spaces.Space[Any]) -> tuple[int, ...]:
    """Which entries of a state, the observation's and then the signals', are learned from where the user names none.

    All of the observation, and those signals that are not simply one of its entries.
    """
    size = encoded_size(space)
    derived = [k for k, source in enumerate(constraint.sources) if not _is_entry(source, space)]
    return (*range(size), *(size + k for k in derived))


def _is_entry(source: Any, space: spaces.Space[Any]) -> bool:
    if isinstance(source, str):
        return isinstance(space, spaces.Dict) and source in space.spaces
    return isinstance(source, int | np.integer)
