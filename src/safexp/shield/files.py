"""Conversion of shields to JSON and arrays, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from safexp.constraints import Constraint
from safexp.constraints.files import build_constraint, describe_constraint, has_functions
from safexp.core import files
from safexp.core.arrays import Controller
from safexp.core.spaces import build_space, describe_space
from safexp.quantifiers.base import Quantifier
from safexp.quantifiers.files import build_quantifier, describe_quantifier
from safexp.quantifiers.foreign import take_back
from safexp.quantifiers.per_cost import PerCost
from safexp.shield.bounds import describe_levels
from safexp.shield.candidates import SafeAction
from safexp.shield.lookahead import BackupController

if TYPE_CHECKING:
    from safexp.shield.shield import Shield

Kind = TypeVar("Kind", bound="Shield")

LEARNED = "quantifier."
"""Prefix of the names of a quantifier's arrays in a file."""
VOUCHED = "vouched."
"""Prefix of the names of the safe action's outcomes in a file."""


def describe_shield(shield: Shield) -> tuple[files.Document, files.Arrays]:
    """JSON description of a shield, and the arrays that it learned."""
    vouched = shield.vouched if shield.vouched is not None and shield.vouched.everywhere else None
    safe_action = None if vouched is None else vouched.action
    given = None if safe_action is None else np.asarray(safe_action).tolist()
    document = {
        "quantifier": describe_quantifier(shield.quantifier),
        "constraint": None if shield.constraint is None else describe_constraint(shield.constraint),
        "observation_space": describe_space(shield.observation_space),
        "action_space": describe_space(shield.action_space),
        "num_candidates": shield.num_candidates,
        "levels": describe_levels(shield.levels),
        "safe_action": "function" if callable(safe_action) else given,
        "verify_safe_action": vouched is None or vouched.verify,
        "horizon": 0 if shield.backup is None else shield.backup.horizon,
    }
    outcomes = {} if vouched is None else vouched.state()
    return document, {
        **{f"{LEARNED}{name}": part for name, part in shield.quantifier.state().items()},
        **{f"{VOUCHED}{name}": part for name, part in outcomes.items()},
    }


def build_shield(
    kind: type[Kind],
    document: files.Document,
    arrays: files.Arrays,
    constraint: Constraint | None,
    quantifier: Quantifier | None,
    safe_action: SafeAction | None,
    backup: BackupController | Controller | None = None,
) -> Kind:
    """Shield from the output of `describe_shield`; functions cannot be saved and must be passed again.

    A shield that does not look ahead ignores the backup.
    """
    if safe_action is None and document["safe_action"] == "function":
        raise files.CheckpointError(
            "the file's shield has a function as its safe action, which a file cannot hold: load it with "
            "safe_action=<the same function>."
        )
    ahead = _backup_ahead(int(document.get("horizon", 0)), backup)
    if quantifier is None:
        quantifier = build_quantifier(document["quantifier"])
    elif document["quantifier"]["name"] == "PerCost" and not isinstance(quantifier, PerCost):
        quantifier = PerCost.of(quantifier, len(document["quantifier"]["parts"]))  # as during training
    described = document["constraint"]
    if constraint is None and described is not None and not has_functions(described):
        constraint = build_constraint(described)
    shield = kind(
        quantifier,
        build_space(document["observation_space"]),
        build_space(document["action_space"]),
        constraint=constraint,
        num_candidates=files.count(document["num_candidates"], "num_candidates"),
        levels=document["levels"],
        safe_action=document["safe_action"] if safe_action is None else safe_action,
        verify_safe_action=document["verify_safe_action"],
        backup=ahead,
    )
    restore_shield(shield, arrays)
    return shield


def _backup_ahead(horizon: int, backup: BackupController | Controller | None) -> BackupController | None:
    """The backup to which a shield looks ahead by `horizon` steps, None for 0 steps; raises if it is not given."""
    if not horizon:
        return None
    if callable(backup):
        raise files.CheckpointError(
            f"backup={backup!r} is a function, and the file's shield looks {horizon} steps ahead to a backup with a "
            f"horizon: load it with backup=Backup(<the function>, {horizon})."
        )
    if backup is None or backup.horizon != horizon:
        raise files.CheckpointError(
            f"the file's shield looks {horizon} steps ahead to a backup, which a file cannot hold: load it with "
            f"backup=Backup(<the same controller>, {horizon})."
        )
    return backup


def restore_shield(shield: Shield, arrays: files.Arrays) -> None:
    """Restore the learned state of a described shield: its quantifier and the outcomes of its safe action."""
    take_back(shield.quantifier, _named(arrays, LEARNED))
    if shield.vouched is not None:
        shield.vouched.restore(_named(arrays, VOUCHED))


def _named(arrays: files.Arrays, prefix: str) -> files.Arrays:
    """Arrays whose names start with a prefix, by their names without it."""
    return {name[len(prefix) :]: part for name, part in arrays.items() if name.startswith(prefix)}
