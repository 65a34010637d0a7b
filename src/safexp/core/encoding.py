"""Encoding of observations and actions of any Gymnasium space as vectors, which quantifiers work on."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from safexp.core.arrays import Array, Observations, every


def encode_observations(space: spaces.Space[Any], observations: Observations) -> Array:
    """Encode observations as states (n, ds): boxes raveled, discrete ones one-hot, dicts in the order of their keys.

    Raises:
        ValueError: if the batch does not fit the space or holds a NaN or an infinity.
    """
    if isinstance(space, spaces.Dict):
        if not isinstance(observations, dict) or set(observations) != set(space.spaces):
            given = sorted(observations) if isinstance(observations, dict) else type(observations).__name__
            raise ValueError(f"observations have keys {given}, expected {sorted(space.spaces)}.")
        parts = [encode_observations(space[key], observations[key]) for key in sorted(space.spaces)]
        return np.concatenate(parts, axis=1)
    if isinstance(space, spaces.Discrete):
        return one_hot(np.asarray(observations).reshape(-1) - space.start, int(space.n))
    if not isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete):
        raise ValueError(
            f"observation space {space} is not supported; use Box, Discrete, MultiBinary, MultiDiscrete or a Dict "
            "of them (gymnasium.wrappers.FlattenObservation turns others into a Box)."
        )
    batch = np.array(observations, dtype=np.float64)  # a copy, so that no one else can change a certified state
    if batch.shape[1:] != space.shape:
        raise ValueError(f"observations have shape {batch.shape}, expected (n, {', '.join(map(str, space.shape))}).")
    states = batch.reshape(len(batch), -1)
    finite = np.isfinite(states)
    if not every(finite):
        index = int(np.flatnonzero(~finite.all(axis=1))[0])
        raise ValueError(
            f"observation {index} of the batch holds a NaN or an infinity: {states[index]}; "
            "such a state cannot be certified: fix the environment or its sensors."
        )
    return states


def decode_observations(space: spaces.Space[Any], states: Array) -> Observations:
    """States (n, ds) that `encode_observations` made, as a batch of observations of the space."""
    if isinstance(space, spaces.Dict):
        sizes = [encoded_size(space[key]) for key in sorted(space.spaces)]
        parts = np.split(states, np.cumsum(sizes)[:-1], axis=1)
        return {
            key: decode_observations(space[key], part) for key, part in zip(sorted(space.spaces), parts, strict=True)
        }
    if isinstance(space, spaces.Discrete):
        return states.argmax(axis=1) + space.start
    return states.reshape(len(states), *(space.shape or ())).astype(space.dtype, copy=False)


def encoded_size(space: spaces.Space[Any]) -> int:
    """Length of an encoded observation of this space."""
    if isinstance(space, spaces.Dict):
        return sum(encoded_size(part) for part in space.spaces.values())
    return int(space.n) if isinstance(space, spaces.Discrete) else int(np.prod(space.shape or ()))


def encode_actions(space: spaces.Space[Any], actions: NDArray[Any]) -> Array:
    """Encode actions as vectors (n, da): boxes raveled and clipped, discrete ones one-hot."""
    if isinstance(space, spaces.Discrete):
        return one_hot(np.asarray(actions).reshape(-1) - space.start, int(space.n))
    assert isinstance(space, spaces.Box), "check_action_space came first"
    # In the space's own precision: exactly the action that will be executed is certified.
    batch = np.asarray(actions, dtype=space.dtype)
    if batch.shape[1:] != space.shape:
        raise ValueError(f"actions have shape {batch.shape}, expected (n, {', '.join(map(str, space.shape))}).")
    # Twice as fast as np.clip on small arrays.
    return np.minimum(np.maximum(batch, space.low), space.high).reshape(len(batch), -1).astype(np.float64)


def decode_actions(space: spaces.Box | spaces.Discrete, encoded: Array) -> NDArray[Any]:
    """Decode vectors (n, da) from `encode_actions` into actions (n, ...) of the space."""
    if isinstance(space, spaces.Discrete):
        return encoded.argmax(axis=1) + space.start
    return encoded.reshape(len(encoded), *space.shape).astype(space.dtype)


def fits(space: spaces.Space[Any], value: Any) -> bool:
    """Whether one observation or action has the shape of its space, is finite, and is within bounds."""
    if isinstance(space, spaces.Dict):
        parts = space.spaces
        return isinstance(value, dict) and value.keys() == parts.keys() and all(fits(parts[k], value[k]) for k in parts)
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    if array.shape != space.shape or not np.isfinite(array).all():
        return False
    if isinstance(space, spaces.Box):
        if np.issubdtype(space.dtype, np.floating):
            with np.errstate(over="ignore"):  # an overflow becomes infinite, which is out of bounds
                array = array.astype(space.dtype)  # rounded like the bounds
        return bool(((array >= space.low) & (array <= space.high)).all())
    return bool((array == np.floor(array)).all()) and space.contains(array.astype(space.dtype))


def check_action_space(space: spaces.Space[Any]) -> spaces.Box | spaces.Discrete:
    """Return the space if a shield can search it; raise `ValueError` otherwise."""
    if isinstance(space, spaces.Discrete):
        return space
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        if not space.is_bounded():
            raise ValueError(
                f"action space {space} has no finite bounds, so its safe actions cannot be searched; "
                "bound it, for example with gymnasium.wrappers.RescaleAction."
            )
        return space
    raise ValueError(f"action space {space} is not supported; use a bounded float Box or Discrete.")


def one_hot(indices: NDArray[Any], size: int) -> Array:
    """Indices (n,) as rows (n, size) of an identity matrix."""
    whole = indices.astype(np.int64) if np.isfinite(indices).all() else np.full(indices.shape, -1)
    if indices.size and not (whole.min() >= 0 and whole.max() < size and (whole == indices).all()):
        raise ValueError(f"{indices.tolist()} are not all indices of {size} choices.")
    return np.eye(size)[whole]
