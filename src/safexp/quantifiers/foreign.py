"""Checks that quantifiers written by users survive a round trip through a file."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp.core.files import Arrays, CheckpointError, through_file
from safexp.quantifiers.base import Quantifier, inner_of
from safexp.quantifiers.files import describe_quantifier

log = logging.getLogger("safexp")


def foreign_parts(quantifier: Quantifier) -> Iterator[Quantifier]:
    """This quantifier or those inside it, if their classes are not part of safexp."""
    if type(quantifier).__module__.partition(".")[0] != "safexp":
        yield quantifier
    for part in inner_of(quantifier):
        yield from foreign_parts(part)


def check_round_trip(quantifier: Quantifier) -> None:
    """Save and restore copies of users' quantifiers before training, since a later failure would lose the training.

    Raises:
        ValueError: if one differs after the round trip, with its class and the reason.
    """
    for part in foreign_parts(quantifier):
        name = type(part).__name__
        try:
            json.dumps(describe_quantifier(part))
            saved = part.state()
            problem = _problem(part, saved, through_file(saved))
        except Exception as error:  # from the user's class, or a state that a file cannot store
            problem = f"{type(error).__name__}: {error}"
        if problem:
            raise ValueError(
                f"{name} cannot be restored from a file, so a trained agent could not be used ({problem}). "
                f"{name}.settings must return JSON values or raise TypeError, {name}.state must return named arrays, "
                f"and {name}.restore must accept them in the same shapes."
            )


def take_back(quantifier: Quantifier, learned: Arrays) -> None:
    """Restore what a quantifier learned from a file; errors in a user's class name that class, not the file."""
    try:
        quantifier.restore(learned)
    except Exception as error:
        names = ", ".join(type(part).__name__ for part in foreign_parts(quantifier))
        if not names or isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"{names} cannot restore its state from the file ({type(error).__name__}: {error}): was it saved by "
            f"the same class, and does {names}.restore accept what {names}.state returns?"
        ) from error


def _problem(part: Quantifier, saved: Arrays, read: Arrays) -> str:
    """Difference in a copy after `restore`, as text; passes on what `restore` raises."""
    try:
        twin = copy.deepcopy(part)
    except Exception as error:  # it may hold a connection or a lock
        name = type(part).__name__
        log.warning("%s cannot be copied, so its restore is not tested before training: %s", name, error)
        return ""
    twin.restore(read)
    again = twin.state()
    if again.keys() != saved.keys():
        return f"after restore its state has {sorted(again)}, before it had {sorted(saved)}"
    changed = [name for name in saved if not _same(again[name], saved[name])]
    return f"after restore its state has a different {changed[0]!r}" if changed else ""


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether two arrays are equal up to rounding."""
    return np.shape(one) == np.shape(other) and np.allclose(one, other, equal_nan=True)
