"""Quantifiers that users wrote: whether what they learn comes back from a file."""

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
    """The quantifiers in this one, or itself, whose classes are not safexp's."""
    if type(quantifier).__module__.partition(".")[0] != "safexp":
        yield quantifier
    for part in inner_of(quantifier):
        yield from foreign_parts(part)


def check_round_trip(quantifier: Quantifier) -> None:
    """Put users' own quantifiers through a file and back, on copies: later it would cost them a training.

    Raises:
        ValueError: where one does not come back as it was, with its class and why.
    """
    for part in foreign_parts(quantifier):
        name = type(part).__name__
        try:
            json.dumps(describe_quantifier(part))
            saved = part.state()
            problem = _problem(part, saved, through_file(saved))
        except Exception as error:  # whatever a user's class, or a file that cannot hold its state, raises
            problem = f"{type(error).__name__}: {error}"
        if problem:
            raise ValueError(
                f"{name} does not come back from a file, so that a trained agent could not be used ({problem}). "
                f"{name}.settings must return JSON values or raise TypeError, {name}.state named arrays, and "
                f"{name}.restore must take these, in their shapes."
            )


def take_back(quantifier: Quantifier, learned: Arrays) -> None:
    """Restore what a quantifier learned from a file; what a user's own raises names its class, not the file."""
    try:
        quantifier.restore(learned)
    except Exception as error:
        names = ", ".join(type(part).__name__ for part in foreign_parts(quantifier))
        if not names or isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"{names} does not take back what the file holds of it ({type(error).__name__}: {error}): was it saved by "
            f"the same class, and does {names}.restore take what {names}.state returns?"
        ) from error


def _problem(part: Quantifier, saved: Arrays, read: Arrays) -> str:
    """What is different in a copy that took back what was read; raises what its `restore` raises."""
    try:
        twin = copy.deepcopy(part)
    except Exception as error:  # it may hold a connection or a lock
        name = type(part).__name__
        log.warning("%s cannot be copied, so that its restore is not tried before training: %s", name, error)
        return ""
    twin.restore(read)
    again = twin.state()
    if again.keys() != saved.keys():
        return f"restored, its state has {sorted(again)}, and had {sorted(saved)}"
    changed = [name for name in saved if not _same(again[name], saved[name])]
    return f"restored, its state has another {changed[0]!r}" if changed else ""


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether two arrays are the same but for rounding."""
    return np.shape(one) == np.shape(other) and np.allclose(one, other, equal_nan=True)
