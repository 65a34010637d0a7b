"""Translation of `Support`: widths outside the range of the data."""

from __future__ import annotations

from safexp.compiled.program import Place, Program
from safexp.quantifiers.support import Support


def support_fields(program: Program, support: Support, place: Place, actions: int) -> dict[str, int | str]:
    """Fields of the C struct `support`."""
    ranges = support.ranges
    fields: dict[str, int | str] = {"state": place.start, "states": place.size, "actions": actions}
    for name, values in ranges._asdict().items():
        fields[name] = program.tables.add(f"range of the data: {name}", values)
    fields["reach"] = program.tables.add("distance at which widths become infinite", [support.reach])
    return fields | {"shared": program.reserve(1)}


def widen(program: Program, support: Support, place: Place, width: str) -> None:
    """Multiply widths by the factor of the support."""
    program.use("support")
    name = program.struct("support", **support_fields(program, support, place, program.actions))
    program.of_state.append(f"support_state(&{name}, s);")
    program.predict.append(f"support_widen(&{name}, s, a, {width});")
