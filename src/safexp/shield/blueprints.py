"""Blueprint of a shield, for its translation to C and ONNX."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from safexp.compiled.blueprint import Blueprint, NotExportableError
from safexp.core import files
from safexp.core.arrays import Array
from safexp.shield.candidates import APPROACH, SHORTER, vouched_actions

if TYPE_CHECKING:
    from safexp.shield.shield import Shield


def blueprint_of(shield: Shield) -> Blueprint:
    """Everything that the decisions of a shield depend on.

    Raises:
        NotExportableError: if that includes a Python function.
    """
    backup = shield.backup
    return Blueprint(
        shield.quantifier,
        shield.observation_space,
        shield.action_space,
        shield.constraint,
        shield.candidates,
        np.power(SHORTER, np.arange(1.0, APPROACH + 1)),
        shield.levels,
        shield.most,
        _vouched(shield),
        None if backup is None else getattr(backup, "controller", backup.act),
        0 if backup is None else backup.horizon,
        _digest(shield),
    )


def _vouched(shield: Shield) -> Array | None:
    """The user's safe action (da,), encoded, or None."""
    vouched = shield.vouched
    if vouched is None or not vouched.everywhere:  # a seed controller drives only from first states
        return None
    if callable(vouched.action):
        raise NotExportableError("safe_action=<function> cannot be exported to C: give one action, or none.")
    if vouched.verify and vouched.broken:
        raise NotExportableError(
            f"the safe action broke its promise {vouched.broken} times and is no longer trusted everywhere, which "
            "cannot be exported to C: build the shield without it."
        )
    found = vouched_actions(shield.action_space, vouched.action, np.empty(1))[0]
    return None if np.isnan(found).any() else found


def _digest(shield: Shield) -> str:
    """Fingerprint of a shield's description and of what it learned."""
    try:
        document, arrays = shield.describe()
    except TypeError:  # it holds a function, such as the cost of `Known`
        document, arrays = {"shield": repr((shield.action_space, shield.observation_space))}, shield.quantifier.state()
    return files.digest("shield", json.dumps(document, sort_keys=True, default=str), arrays)
