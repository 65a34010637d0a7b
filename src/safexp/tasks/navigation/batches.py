"""Input checks of batched environments, and Gymnasium's formats of their results."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safexp.core.arrays import Array, Flags
from safexp.envs.infos import Info


def checked_actions(actions: ArrayLike, shape: tuple[int, ...]) -> Array:
    """`actions` as finite floats of `shape`; raises `ValueError` on anything else."""
    try:
        array = np.asarray(actions, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"The action {actions!r} is not numeric; expected {shape} numbers in [-1, 1].") from error
    if array.shape != shape:
        raise ValueError(
            f"The action has shape {array.shape}; expected {shape}, two numbers in [-1, 1] for each environment."
        )
    if not np.isfinite(array).all():
        bad = array.reshape(-1, 2)[~np.isfinite(array).reshape(-1, 2).all(axis=1)]
        raise ValueError(
            f"The action is not finite in {len(bad)} environments, first {bad[0]}; expected numbers in [-1, 1]. "
            "Check whether a policy or a normalisation has diverged."
        )
    return array


def reset_mask(options: dict[str, Any] | None, num_envs: int) -> Flags:
    """Which environments to reset according to `options`, (n,); all without a mask."""
    mask = np.asarray((options or {}).get("reset_mask", np.ones(num_envs, dtype=np.bool_)))
    if mask.shape != (num_envs,) or mask.dtype != np.bool_ or not mask.any():
        raise ValueError(
            f"options['reset_mask'] has shape {mask.shape}, type {mask.dtype} and {np.count_nonzero(mask)} true "
            f"entries; expected a boolean array of shape ({num_envs},) with at least one."
        )
    return mask


def first_of(info: Info) -> Info:
    """The info of a batch of one as that of a single environment."""
    return {key: value[0] if value.ndim > 1 else value[0].item() for key, value in info.items()}


def only_where(mask: Flags, value: NDArray[Any]) -> NDArray[Any]:
    """`value` (n, ...) with zeros outside `mask` (n,)."""
    return value * mask.reshape(-1, *[1] * (value.ndim - 1))


def object_rows(values: Array, mask: Flags) -> NDArray[np.object_]:
    """The rows of `values` in `mask` as separate arrays, `None` elsewhere: Gymnasium's format of `final_obs`."""
    rows = np.full(len(values), None, dtype=object)
    rows[mask] = np.fromiter(values[mask], dtype=object, count=np.count_nonzero(mask))
    return rows
