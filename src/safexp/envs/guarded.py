"""Environments behind a new shield: the common set-up of `MASE` and `wrap`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from safexp.backups.penalty import Penalty
from safexp.backups.recovery import Recovery
from safexp.constraints import Constraint
from safexp.core.arrays import Controller
from safexp.envs.guard import Guard
from safexp.envs.vector import as_vec_env
from safexp.quantifiers import Quantifier
from safexp.quantifiers.foreign import check_round_trip
from safexp.shield.candidates import SafeAction
from safexp.shield.compiled_shield import CompiledShield
from safexp.shield.logs import Log, read_log
from safexp.shield.shield import Shield
from safexp.shield.transitions import parts_of

log = logging.getLogger("safexp")

Trust = Literal["calibrated", "uncalibrated"]


def guarded(
    env: Any,
    constraint: Constraint,
    quantifier: Quantifier,
    *,
    penalty: Penalty | None,
    seed_data: Log | str | Path | None = None,
    safe_action: SafeAction | None = None,
    seed_controller: Controller | None = None,
    backup: Recovery | None = None,
    levels: Sequence[Any] | None = None,
    verify_safe_action: bool = True,
    show_threshold: bool | None = None,
    shielding: bool = True,
    trust: Trust = "calibrated",
    compiled: bool = False,
) -> Guard:
    """Environments that run only certified actions, with a shield for their spaces, fitted to the seed data.

    If `compiled`, costs are predicted in C (`CompiledShield`).

    Raises:
        TypeError: if an argument is of another kind.
        ValueError: if the parts do not go together.
    """
    for name, given, kind in [
        ("constraint", constraint, Constraint),
        ("quantifier", quantifier, Quantifier),
        ("penalty", penalty, Penalty),
        ("backup", backup, Recovery),
    ]:
        if not isinstance(given, kind) and not (given is None and name in ("penalty", "backup")):
            raise TypeError(f"{name}={given!r} is not a safexp.{kind.__name__}.")
    venv = as_vec_env(env)
    shield = Shield(
        quantifier,
        venv.observation_space,
        venv.action_space,
        constraint=constraint,
        levels=levels,
        safe_action=safe_action,
        verify_safe_action=verify_safe_action,
        seed_controller=seed_controller,
        backup=backup if backup is not None and backup.horizon else None,
    )
    quantifier = shield.quantifier
    for limit, own in zip(parts_of(constraint), shield.levels or (), strict=False):
        if own is not None and not limit.on_realised_cost:
            raise ValueError(f"levels={levels} would round the risks of JointChance down to zero: leave them out.")
    if constraint.on_realised_cost and not quantifier.bounds_realised_cost:
        log.warning(
            "%s limits realised costs, but %s bounds their expectation: noise may exceed the bound",
            type(constraint).__name__,
            type(quantifier).__name__,
        )
    if trust not in get_args(Trust):
        raise ValueError(f"trust={trust!r} is not one of {', '.join(get_args(Trust))}.")
    if untested(constraint, quantifier) and trust != "uncalibrated" and shielding:
        raise ValueError(
            f"{type(constraint).__name__} limits every step, and the widths of {type(quantifier).__name__} are a "
            "fit without a guarantee: give Calibrated(...) of it, or trust='uncalibrated'."
        )
    if seed_data is not None:
        shield.fit(read_log(seed_data) if isinstance(seed_data, str | Path) else seed_data)
    check_round_trip(quantifier)
    if compiled:
        shield.compiled = CompiledShield(shield)
    return Guard(venv, constraint, shield, penalty, shielding=shielding, show_threshold=show_threshold, backup=backup)


def untested(constraint: Constraint, quantifier: Quantifier) -> bool:
    """Whether uncalibrated widths would certify actions under a limit on every step."""
    return any(part.on_every_step for part in parts_of(constraint)) and not quantifier.promises_coverage
