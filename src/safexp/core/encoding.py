"""Encoding of observations and actions of any Gymnasium space as vectors, which quantifiers work on."""

from __future__ import annotations

import math
from typing import Any, TypeGuard

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from safexp.core.arrays import Array, Observations, every, named

ActionSpace = spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary
"""What a shield can search: a bounded float Box, or a finite space."""

MOST_CHOICES = 4096
"""Largest number of actions of a finite space, all of which are asked about in every state."""


def encode_observations(space: spaces.Space[Any], observations: Observations) -> Array:
    """Encode observations as states (n, ds): boxes raveled, discrete ones one-hot, dicts in the order of their keys.

    A tuple is encoded like the dict of its numbered parts (`named`). Images are left out (`is_image`).

    Raises:
        ValueError: if the batch does not fit the space or holds a NaN or an infinity.
    """
    if isinstance(space, spaces.Tuple):
        space = as_dict_space(space)
    if isinstance(space, spaces.Dict):
        observations = named(observations)
        if not isinstance(observations, dict) or set(observations) != set(space.spaces):
            given = sorted(observations) if isinstance(observations, dict) else type(observations).__name__
            raise ValueError(f"observations have keys {given}, expected {sorted(space.spaces)}.")
        parts = [encode_observations(space[key], observations[key]) for key in sorted(space.spaces)]
        return np.concatenate(parts, axis=1)
    if isinstance(space, spaces.Discrete):
        return one_hot(np.asarray(observations).reshape(-1) - space.start, int(space.n))
    if not isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete):
        raise ValueError(
            f"observation space {space} is not supported; use Box, Discrete, MultiBinary, MultiDiscrete, or a Dict "
            "or Tuple of them (gymnasium.wrappers.FlattenObservation turns others into a Box)."
        )
    if is_image(space):
        shape = np.shape(observations)
        if sorted(shape[1:]) != sorted(space.shape):  # some learners store the channels first
            raise ValueError(f"images have shape {shape}, expected (n, {', '.join(map(str, space.shape))}).")
        return np.empty((shape[0], 0))
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
    """States (n, ds) that `encode_observations` made, as a batch of observations of the space; images are black."""
    if isinstance(space, spaces.Dict):
        sizes = [encoded_size(space[key]) for key in sorted(space.spaces)]
        parts = np.split(states, np.cumsum(sizes)[:-1], axis=1)
        return {
            key: decode_observations(space[key], part) for key, part in zip(sorted(space.spaces), parts, strict=True)
        }
    if isinstance(space, spaces.Discrete):
        return states.argmax(axis=1) + space.start
    if is_image(space):
        return np.zeros((len(states), *space.shape), dtype=space.dtype)
    return states.reshape(len(states), *(space.shape or ())).astype(space.dtype, copy=False)


def encoded_size(space: spaces.Space[Any]) -> int:
    """Length of an encoded observation of this space."""
    if isinstance(space, spaces.Tuple):
        space = as_dict_space(space)
    if isinstance(space, spaces.Dict):
        return sum(encoded_size(part) for part in space.spaces.values())
    if is_image(space):
        return 0
    return int(space.n) if isinstance(space, spaces.Discrete) else int(np.prod(space.shape or ()))


def is_image(space: spaces.Space[Any]) -> TypeGuard[spaces.Box]:
    """Whether observations are images, which learners see and quantifiers do not: a Box of bytes with three axes."""
    return isinstance(space, spaces.Box) and len(space.shape) == 3 and space.dtype == np.uint8


def encode_actions(space: spaces.Space[Any], actions: NDArray[Any]) -> Array:
    """Encode actions as vectors (n, da): boxes raveled and clipped, discrete ones one-hot, several in a row."""
    if isinstance(space, spaces.Discrete):
        return one_hot(np.asarray(actions).reshape(-1) - space.start, int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        rows = _entries(space, actions) - space.start.ravel()
        return np.concatenate([one_hot(column, int(n)) for column, n in zip(rows.T, space.nvec.flat, strict=True)], 1)
    if isinstance(space, spaces.MultiBinary):
        rows = _entries(space, actions)
        for column in rows.T:
            one_hot(column, 2)  # raises if it is neither 0 nor 1
        return rows.astype(np.float64)
    assert isinstance(space, spaces.Box), "check_action_space came first"
    # In the space's own precision: exactly the action that will be executed is certified.
    batch = np.asarray(actions, dtype=space.dtype)
    if batch.shape[1:] != space.shape:
        raise ValueError(f"actions have shape {batch.shape}, expected (n, {', '.join(map(str, space.shape))}).")
    # Twice as fast as np.clip on small arrays.
    return np.minimum(np.maximum(batch, space.low), space.high).reshape(len(batch), -1).astype(np.float64)


def decode_actions(space: ActionSpace, encoded: Array) -> NDArray[Any]:
    """Decode vectors (n, da) from `encode_actions` into actions (n, ...) of the space."""
    if isinstance(space, spaces.Discrete):
        return encoded.argmax(axis=1) + space.start
    if isinstance(space, spaces.MultiDiscrete):
        parts = np.split(encoded, np.cumsum(space.nvec.ravel())[:-1], axis=1)
        rows = np.stack([part.argmax(axis=1) for part in parts], axis=1) + space.start.ravel()
        return rows.reshape(len(encoded), *space.shape).astype(space.dtype)
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


def choices(space: ActionSpace) -> Array:
    """All actions of a finite space, encoded (m, da), in the order of `index_of`."""
    if isinstance(space, spaces.Discrete):
        return np.eye(int(space.n))
    assert not isinstance(space, spaces.Box)
    sizes = entry_sizes(space)
    rows = np.indices(sizes).reshape(len(sizes), -1).T
    if isinstance(space, spaces.MultiBinary):
        return rows.astype(np.float64)
    return encode_actions(space, (rows + space.start.ravel()).reshape(len(rows), *space.shape))


def index_of(space: ActionSpace, encoded: Array) -> NDArray[np.int64]:
    """Place (n,) of each encoded action (n, da) among the `choices` of a finite space."""
    if isinstance(space, spaces.Discrete):
        return encoded.argmax(axis=1)
    assert not isinstance(space, spaces.Box)
    columns = encoded
    if isinstance(space, spaces.MultiDiscrete):
        columns = np.stack([p.argmax(axis=1) for p in np.split(encoded, np.cumsum(space.nvec.ravel())[:-1], 1)], axis=1)
    return np.ravel_multi_index(tuple(columns.astype(np.int64).T), entry_sizes(space))


def changed_entries(space: ActionSpace, candidates: Array, proposals: Array) -> Array:
    """Number (n, m) of entries in which candidates (n, m, da) of a finite space differ from proposals (n, da)."""
    differing = (candidates != proposals[:, None]).sum(axis=2)
    return differing / (1.0 if isinstance(space, spaces.MultiBinary) else 2.0)  # two of a one-hot vector


def encoded_action_size(space: ActionSpace) -> int:
    """Length of an encoded action."""
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    return int(space.n) if isinstance(space, spaces.Discrete) else int(np.prod(space.shape or ()))


def from_zero(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """The same space with discrete actions numbered from 0, as learners propose them."""
    if isinstance(space, spaces.Discrete):
        return spaces.Discrete(space.n)
    return spaces.MultiDiscrete(space.nvec) if isinstance(space, spaces.MultiDiscrete) else space


def as_dict_space(space: spaces.Tuple[Any]) -> spaces.Dict:
    """Space of a tuple's parts by number, as `named` gives them."""
    return spaces.Dict(named(tuple(space.spaces)))


def entry_sizes(space: spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary) -> tuple[int, ...]:
    """Number of choices for every entry of an action of a finite space."""
    if isinstance(space, spaces.Discrete):
        return (int(space.n),)
    if isinstance(space, spaces.MultiBinary):
        return (2,) * int(np.prod(space.shape))
    return tuple(space.nvec.ravel().tolist())


def _entries(space: spaces.Space[Any], actions: NDArray[Any]) -> Array:
    batch = np.asarray(actions, dtype=np.float64)
    if batch.shape[1:] != space.shape:
        raise ValueError(f"actions have shape {batch.shape}, expected (n, {', '.join(map(str, space.shape or ()))}).")
    return batch.reshape(len(batch), -1)


def check_action_space(space: spaces.Space[Any]) -> ActionSpace:
    """Return the space if a shield can search it; raise `ValueError` otherwise."""
    if isinstance(space, spaces.Discrete):
        return space
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        if (number := math.prod(entry_sizes(space))) > MOST_CHOICES:
            raise ValueError(
                f"action space {space} has {number:,} actions, all of which a shield would ask about in every state; "
                f"at most {MOST_CHOICES:,} are supported: decide fewer of its entries at a time, or give coarser ones."
            )
        return space
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        if not space.is_bounded():
            raise ValueError(
                f"action space {space} has no finite bounds, so its safe actions cannot be searched; "
                "bound it, for example with gymnasium.wrappers.RescaleAction."
            )
        return space
    raise ValueError(
        f"action space {space} is not supported; use a bounded float Box, Discrete, MultiDiscrete or MultiBinary."
    )


def one_hot(indices: NDArray[Any], size: int) -> Array:
    """Indices (n,) as rows (n, size) of an identity matrix."""
    whole = indices.astype(np.int64) if np.isfinite(indices).all() else np.full(indices.shape, -1)
    if indices.size and not (whole.min() >= 0 and whole.max() < size and (whole == indices).all()):
        raise ValueError(f"{indices.tolist()} are not all indices of {size} choices.")
    return np.eye(size)[whole]
