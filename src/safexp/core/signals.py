"""Measured signals, read from the observation, the info or a function, and one-sided limits on them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safexp.core.arrays import Array, Observations, batch_size
from safexp.core.costs import Step

SignalSource = int | str | Callable[[Observations], ArrayLike]
"""The index of an observation's entry, a key of the observation or the info, or a function of observations (n, ...).

A key such as `imu[2]` is an entry of the array under the key `imu`, flattened and counted from 0."""


class Sides(NamedTuple):
    """K one-sided limits on S signals: sign_k · signal[which_k] ≤ sign_k · limit_k, (K,) each.

    The cost of side k is ½ + sign_k · (signal[which_k] − reference_k) / (2 · scale_k): ½ at the reference limit.
    """

    which: NDArray[np.int64]
    sign: Array
    reference: Array
    scale: Array

    @classmethod
    def of(cls, which: ArrayLike, sign: ArrayLike, reference: ArrayLike, scale: ArrayLike) -> Sides:
        """Build from lists, as stored in a file."""
        return cls(
            np.asarray(which, dtype=np.int64),
            *(np.asarray(part, dtype=np.float64) for part in (sign, reference, scale)),
        )

    def costs(self, by_side: Array) -> Array:
        """Costs (..., K), not clipped to [0, 1], of the signal of each side (..., K)."""
        return 0.5 + self.sign * (by_side - self.reference) / (2 * self.scale)


def check_source(source: Any) -> None:
    """Raise `TypeError` if this does not specify a signal."""
    whole = isinstance(source, int | np.integer) and not isinstance(source, bool)
    if not (whole or isinstance(source, str) or callable(source)):
        raise TypeError(
            f"signal {source!r} must be the index of an entry of the observation, a key of the observation or the "
            "info, or a function of the observations (n, ...) that returns one number for each."
        )


def name_of_signal(source: SignalSource) -> str:
    """Name of a signal in tables and messages."""
    if isinstance(source, str):
        return source
    return getattr(source, "__name__", "signal") if callable(source) else f"observation[{source}]"


@lru_cache(maxsize=1024)
def key_and_entry(name: str) -> tuple[str, int | None]:
    """Key of an info or a log, and the entry of its array if the name has one: `imu[2]` -> (`imu`, 2)."""
    found = re.fullmatch(r"(.+)\[(\d+)\]", name)
    return (name, None) if found is None else (found[1], int(found[2]))


def column_of(values: NDArray[Any], name: str) -> NDArray[Any]:
    """Values (n,) of a signal in the array (n, ...) under its key.

    Raises:
        ValueError: if the array does not have one number for each, or not that entry.
    """
    key, entry = key_and_entry(name)
    if entry is None:
        if values.ndim != 1:
            raise ValueError(
                f"info[{key!r}] has the shape {values.shape[1:]} at a step, expected a single number: name one of its "
                f"entries, such as {key}[0]."
            )
        return values
    flat = values.reshape(len(values), -1)
    if entry >= flat.shape[1]:
        raise ValueError(f"signal {name}: info[{key!r}] has {flat.shape[1]} entries, counted from 0.")
    return flat[:, entry]


def in_observation(source: SignalSource, observations: Observations) -> bool:
    """Whether a signal can be read from these observations alone."""
    return not isinstance(source, str) or (isinstance(observations, dict) and source in observations)


def signal_in(source: SignalSource, observations: Observations) -> Array:
    """The signal (n,) in a batch of observations, NaN if it is only in the info of a step.

    Raises:
        ValueError: if the observations have no such entry, or it is not one number for each.
    """
    n = batch_size(observations)
    if not in_observation(source, observations):
        return np.full(n, np.nan)
    if callable(source):
        values = np.asarray(source(observations), dtype=np.float64)
    elif isinstance(observations, dict):
        if source not in observations:
            raise ValueError(
                f"observations have the keys {sorted(observations)}, so index {source} does not name an entry: "
                "give a key, or a function of the observations."
            )
        values = np.asarray(observations[source], dtype=np.float64).reshape(n, -1)
        values = values[:, 0] if values.shape[1] == 1 else values
    else:
        assert not isinstance(source, str), "keys of the info were handled above"
        flat = np.asarray(observations, dtype=np.float64).reshape(n, -1)
        if not -flat.shape[1] <= source < flat.shape[1]:
            raise ValueError(f"signal {source}: observations have {flat.shape[1]} entries, counted from 0.")
        values = flat[:, source]
    if values.shape != (n,):
        raise ValueError(
            f"signal {name_of_signal(source)} has shape {values.shape}, expected ({n},): one number for each "
            "observation. Give a function that picks one."
        )
    return values


def signal_after(source: SignalSource, step: Step) -> Array:
    """The signal (n,) after a step."""
    if in_observation(source, step.next_observations):
        return signal_in(source, step.next_observations)
    assert isinstance(source, str), "everything else is in the observation"
    return column_of(np.asarray(step.info(key_and_entry(source)[0]), dtype=np.float64), source)
