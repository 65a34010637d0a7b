"""C source and header of a shield, put together from the core and the translated parts."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
from gymnasium import spaces

from safexp.compiled.account import account_macros, limit_fields, parts_of, readings_of
from safexp.compiled.blueprint import Blueprint
from safexp.compiled.certificate import translate_costs
from safexp.compiled.controllers import translate_backup, translate_policy
from safexp.compiled.encoding import action_macros, flat_size, observation_fields, signal_entry
from safexp.compiled.header import about
from safexp.compiled.program import Place, Program
from safexp.compiled.tables import number
from safexp.constraints import Within
from safexp.core.arrays import Array
from safexp.core.encoding import encoded_size
from safexp.core.files import write_bytes
from safexp.core.network import Network

Precision = Literal["double", "float"]

LEVEL_TOLERANCE = 1e-6
"""As in `shield/bounds.py`."""

POLICY = """
/* The deterministic action of the policy that was exported with the shield, not yet checked. */
void shield_policy(shield_t *s, const shield_real *observation, shield_real *action);
"""


class Source(NamedTuple):
    """Header, code without the learned numbers, and those numbers: as C, and as an array."""

    header: str
    code: str
    numbers: str
    model: Array

    @property
    def whole(self) -> str:
        """The C file."""
        return f"{self.code}\nstatic const real learned[{len(self.model)}] = {{\n{self.numbers}\n}};\n"


def write_c(
    blueprint: Blueprint,
    path: Path,
    *,
    precision: Precision = "double",
    policy: Network | None = None,
    braking: float = 0.0,
) -> None:
    """Write the C file of a shield, and its header beside it.

    Raises:
        ValueError: if the path does not end with .c and begin with a letter, or the shield cannot be exported.
    """
    name = path.stem
    if path.suffix != ".c" or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(
            f"{path} must be named like shield.c: small letters, digits and underscores, which become the prefix of "
            "the functions."
        )
    source = translate(blueprint, precision=precision, policy=policy, braking=braking, name=name)
    write_bytes(path, source.whole.encode())
    write_bytes(path.with_suffix(".h"), source.header.encode())


def translate(
    blueprint: Blueprint,
    *,
    precision: Precision = "double",
    policy: Network | None = None,
    braking: float = 0.0,
    name: str = "shield",
    binding: bool = False,
) -> Source:
    """C of a shield; with `binding`, for use from Python: the numbers are given at run time.

    Raises:
        ValueError: if a part of the shield cannot be exported, with the reason.
    """
    if precision not in get_args(Precision):
        raise ValueError(f"precision={precision!r} must be one of {', '.join(get_args(Precision))}.")
    program, single = Program(blueprint), precision == "float"
    space, quantifier, constraint = blueprint.observation_space, blueprint.quantifier, blueprint.constraint
    size = encoded_size(space)
    parts = observation_fields(program, space)
    macros = action_macros(program)
    translate_costs(program, quantifier, Place(0, size + quantifier.num_signals))
    backup = translate_backup(program)
    policy_macros = "" if policy is None else translate_policy(program, policy)
    limits = limit_fields(program, constraint)
    sources = () if constraint is None else constraint.sources
    entries = [signal_entry(source, space) for source in sources[: quantifier.num_signals]]
    observed = bool(entries) and min(entries) >= 0 and len(entries) == len(sources)
    box = isinstance(blueprint.action_space, spaces.Box)
    macros |= account_macros() | {
        "STATES": size,
        "OBSERVATION_PARTS": len(parts),
        "ACCOUNT_LIMITS": len(limits),
        "LEVEL_TOLERANCE": repr(LEVEL_TOLERANCE),
        "MOST": number(blueprint.most, single).rstrip(","),
        "BACKUP": int(bool(backup)),
        "BRAKING": program.tables.add("reserve for braking", [braking]),
        "ALL_OBSERVED": int(observed and all(isinstance(part, Within) for part in parts_of(constraint))),
        "MODEL": "NULL" if binding else "learned",
        "SEEN(x)": "narrow(x)" if space.dtype == np.float32 else "(x)",  # as the backup sees a predicted observation
    }
    fixed = [
        ("PARTS", _array("observation_part", "observation_parts", parts)),
        ("LIMITS", _array("account_limit", "account_limits", limits)),
    ]
    levels = _levels(program)
    ending = ["decide_box" if box else "decide_discrete", "account", "answer"]
    ending += ["policy"] if policy is not None else []
    ending += ["binding"] if binding else []
    text = [
        f'#include "{name}.h"',
        _core("prologue"),
        *(() if binding else (f"static const real learned[{len(program.tables.values)}];",)),
        "\n".join(f"#define {key} {value}" for key, value in macros.items()),
        _core("kernels"),
        f"static const int signal_entries[] = {{{', '.join(map(str, entries)) or 0}}};",
        _core("encoding"),
        _core("box" if box else "choices"),
        *(_core(name) for name in program.snippets),
        policy_macros,
        "\n".join(program.constants),
        backup,
        _function("prepare", "shield_t *s", program.of_state, "(void)s;"),
        _function("prepare_all", "shield_t *s", program.of_all, "(void)s;"),
        _function("predict", "shield_t *s, const action_set *a, real *mean, real *width", program.predict, "(void)s;"),
        levels,
        _core("bounds"),
        *(_core(name) for name in ending),
    ]
    code = "\n".join(part for part in text if part)
    for mark, replacement in fixed:
        code = code.replace(f"@{mark}@", replacement)
    header = _core("shield", ".h")
    for mark, replacement in {
        "ABOUT": "" if binding else about(blueprint, precision, readings=readings_of(constraint)),
        "REAL": precision,
        "SINGLE": str(int(single)),
        "SIZES": _sizes(program, readings_of(constraint), len(limits)),
        "POLICY": POLICY if policy is not None else "",
    }.items():
        header = header.replace(f"@{mark}@", replacement)
    numbers = "" if binding else program.tables.as_c(single)
    return Source(_renamed(header, name), _renamed(code, name), numbers, program.tables.values)


def _sizes(program: Program, readings: int, limits: int) -> str:
    """Sizes that callers need, with what they count."""
    blueprint = program.blueprint
    action = int(np.prod(blueprint.action_space.shape or ()))
    sizes = {
        "OBSERVATION": (flat_size(blueprint.observation_space), "numbers of an observation"),
        "ACTION": (action, "numbers of an action"),
        "COSTS": (blueprint.quantifier.num_costs, "limited costs"),
        "SIGNALS": (blueprint.quantifier.num_signals, "measured signals that are limited"),
        "READINGS": (readings, "numbers of shield_observe"),
        "LIMITS": (max(limits, 1), "accounts that are kept"),
        "MEMORY": (program.memory + program.scratch, "numbers of work space"),
        "SCRATCH": (program.scratch, "of these, for one function at a time"),
    }
    return "\n".join(f"#define SHIELD_{name} {count} /* {what} */" for name, (count, what) in sizes.items())


def _levels(program: Program) -> str:
    """The values that costs can take."""
    given = program.blueprint.levels or (None,) * program.blueprint.quantifier.num_costs
    tables = [0 if own is None else program.tables.add("levels of a cost", own) for own in given]
    counts = [0 if own is None else len(own) for own in given]
    return "\n".join(
        f"static const int {name}[] = {{{', '.join(map(str, values))}}};"
        for name, values in (("level_tables", tables), ("level_counts", counts))
    )


def _array(kind: str, name: str, each: list[dict[str, int | str]]) -> str:
    rows = ["{" + ", ".join(f".{key} = {value}" for key, value in fields.items()) + "}" for fields in each]
    inside = ",\n    ".join(rows or ["{0}"])
    return f"static const {kind} {name}[] = {{\n    {inside},\n}};"


def _function(name: str, arguments: str, statements: list[str], unused: str) -> str:
    body = "\n".join(f"    {line}" for line in [unused, *statements])
    return f"static void {name}({arguments})\n{{\n{body}\n}}"


def _core(name: str, suffix: str = ".c") -> str:
    return files("safexp.compiled").joinpath("core", f"{name}{suffix}").read_text(encoding="utf-8").rstrip() + "\n"


def _renamed(text: str, name: str) -> str:
    """The text with the prefix of its public names replaced."""
    if name == "shield":
        return text
    return re.sub(r"\bSHIELD_", f"{name.upper()}_", re.sub(r"\bshield_", f"{name}_", text))
