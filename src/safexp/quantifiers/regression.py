"""Functions shared by learning quantifiers: checks, standardised inputs, refits that may fail."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from safexp.core.arrays import Array
from safexp.quantifiers.base import Transitions

Model = TypeVar("Model")

JITTERS = (1e-6, 1e-5, 1e-4, 1e-3)
"""Shares of a covariance's diagonal that are added to it, in turn, until it can be factorised."""

log = logging.getLogger("safexp")


def check_counts(owner: str, **counts: int) -> None:
    """Raise `ValueError` if a count is not a whole number of at least 1."""
    for name, count in counts.items():
        if not (isinstance(count, int) and count >= 1):
            raise ValueError(f"{owner}({name}={count}) must be a whole number of at least 1.")


def check_positive(owner: str, **values: float | None) -> None:
    """Raise `ValueError` if a value other than None is not finite and above 0."""
    for name, value in values.items():
        if value is not None and not (math.isfinite(value) and value > 0):
            raise ValueError(f"{owner}({name}={value}) must be finite and above 0.")


def check_delta(owner: str, delta: float) -> None:
    """Raise `ValueError` if δ is not strictly between 0 and 1."""
    if not 0 < delta < 1:
        raise ValueError(f"{owner}(delta={delta}) must lie in (0, 1).")


def check_question(owner: str, learned: tuple[int, int], states: Array, actions: Array) -> None:
    """Raise `ValueError` if states (n, ds) and actions (n, m, da) do not have the sizes of the training data."""
    asked = states.shape[-1], actions.shape[-1]
    if asked != learned or states.ndim != 2 or actions.ndim != 3 or len(states) != len(actions):
        raise ValueError(
            f"{owner} learned states (n, {learned[0]}) and actions (n, m, {learned[1]}), got {states.shape} and "
            f"{actions.shape}."
        )


def pairs_of(data: Transitions) -> Array:
    """States and actions side by side, (n, ds + da)."""
    return np.concatenate([data.states, data.actions], axis=1)


def standards(pairs: Array) -> tuple[Array, Array]:
    """Mean and deviation (d,) of inputs (n, d); an input that never changed has deviation 1."""
    deviation = pairs.std(axis=0)
    return pairs.mean(axis=0), np.where(deviation > 1e-8 * (1.0 + np.abs(pairs).max(axis=0)), deviation, 1.0)


def refit(owner: str, old: Model | None, train: Callable[[], Model]) -> Model | None:
    """Train a model; if that fails numerically or for lack of memory, log a warning and return the old one."""
    try:
        return train()
    except (ArithmeticError, ValueError, RuntimeError, MemoryError) as error:  # what numpy and torch raise
        kept = "keeps its old model" if old is not None else "has no model and certifies nothing"
        log.warning("%s could not be refitted and %s: %s: %s", owner, kept, type(error).__name__, error)
        return old


def check_finite(owner: str, **arrays: Array) -> None:
    """Raise `FloatingPointError` if training produced a NaN or an infinity."""
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise FloatingPointError(f"training {owner} produced {name} that are not finite")


def factor(matrix: Array, jitters: Sequence[float] = JITTERS) -> Array:
    """The lower Cholesky factor (n, n); raises `LinAlgError` if no jitter helps."""
    for jitter in jitters:
        try:
            return np.linalg.cholesky(matrix + jitter * np.diagonal(matrix).mean() * np.eye(len(matrix)))
        except np.linalg.LinAlgError:
            continue
    raise singular(len(matrix), jitters)


def singular(size: int, jitters: Sequence[float]) -> np.linalg.LinAlgError:
    """The error for a covariance that no jitter makes positive definite."""
    return np.linalg.LinAlgError(
        f"a covariance of {size} points is not positive definite, even with {jitters[-1]} of its diagonal added: "
        "inputs or lengthscales are not finite or badly scaled."
    )
