"""Translation of constraints: the account of an episode, and its thresholds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from safexp.compiled.blueprint import NotExportableError
from safexp.compiled.program import Program
from safexp.constraints import TOLERANCE, AllOf, Budget, Constraint, Instantaneous, Schedule, Within

Fields = dict[str, int | str]


def parts_of(constraint: Constraint | None) -> tuple[Constraint, ...]:
    """Simple constraints that a constraint consists of."""
    if constraint is None:
        return ()
    return constraint.parts if isinstance(constraint, AllOf) else (constraint,)


def readings_of(constraint: Constraint | None) -> int:
    """Numbers that the caller reports after every step: one for each cost and each signal."""
    return sum(len(part.sources) if isinstance(part, Within) else 1 for part in parts_of(constraint))


def limit_fields(program: Program, constraint: Constraint | None) -> list[Fields]:
    """Fields of the C struct `account_limit` for each part of a constraint."""
    found: list[Fields] = []
    first = reading = 0
    for part in parts_of(constraint):
        signals = len(part.sources) if isinstance(part, Within) else 0
        place: Fields = {"first": first, "costs": part.num_costs, "reading": reading, "signals": signals}
        found.append(place | _fields(program, part))
        first, reading = first + part.num_costs, reading + (signals or 1)
    return found


def _fields(program: Program, part: Constraint) -> Fields:
    add = program.tables.add
    if type(part) is Within:
        sides = part.sides
        return {
            **_phases(program, part),
            "sides": add("sign, limit and scale of every limit", [*sides.sign, *sides.reference, *sides.scale]),
            "which": program.integers("sides", sides.which),
        }
    if type(part) not in (Instantaneous, Schedule, Budget) or part.sources:
        raise NotExportableError(
            f"{part} cannot be exported to C: only Within, Budget, Instantaneous, Schedule and AllOf of these can, "
            "without obstacles. Export a shield without a constraint, and give it thresholds of your own."
        )
    largest: Fields = {"cost_max": add("largest cost of a step", [part.cost_max])}
    if isinstance(part, Budget):
        numbers = [part.limit / part.cost_max, part.discount]
        return largest | {"kind": "BUDGET", "numbers": add("budget: limit and discount", numbers)}
    if isinstance(part, Schedule) and callable(part.limits):
        raise NotExportableError("Schedule(limits=<function>) cannot be exported to C: give an array of limits.")
    return largest | _phases(program, part)


def _phases(program: Program, part: Constraint) -> Fields:
    """Thresholds that hold from certain steps on."""
    steps = _changes(part)
    limits = np.stack([np.atleast_1d(_threshold_at(part, step)) for step in steps])
    numbers = program.tables.add("thresholds", limits)
    if len(steps) == 1:
        return {"kind": "STEADY", "numbers": numbers, "phases": 1, "starts": "NULL"}
    starts = program.integers("phases", steps, "long")
    return {"kind": "PHASES", "numbers": numbers, "phases": len(steps), "starts": starts}


def _changes(part: Constraint) -> list[int]:
    """Steps at which the limits change, the first being 0."""
    if isinstance(part, Schedule):
        return list(range(len(np.asarray(part.limits))))
    if not isinstance(part, Within):
        return [0]
    limits = (part.low, part.high)
    if any(callable(limit) for limit in limits):
        raise NotExportableError("Within(low or high=<function>) cannot be exported to C: give {first step: limit}.")
    return sorted({0, *(int(step) for limit in limits if isinstance(limit, Mapping) for step in limit)})


def _threshold_at(part: Constraint, step: int) -> np.ndarray:
    """Thresholds () or (K,) at a step."""
    state = part.start(np.zeros((1, 1)))
    if isinstance(part, Schedule | Within) and part.memory:
        limits = np.asarray(part.limits_at(np.array([step]))).reshape(1, -1)
        state = np.concatenate([np.full((1, 1), float(step)), limits], axis=1)
    return part.threshold(state)[0]


def account_macros() -> dict[str, int | str]:
    """Macros of the account."""
    return {"TOLERANCE": repr(TOLERANCE)}
