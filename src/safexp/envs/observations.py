"""Observations of a learner on wrapped environments: with added numbers, and with the ends of episodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from safexp.constraints import Constraint
from safexp.core.arrays import Array, Observations, take
from safexp.envs.infos import Infos
from safexp.records.episodes import Recorder

THRESHOLD = "threshold"
"""Key of the threshold in a Dict observation."""


def space_with(raw: spaces.Space[Any], key: str, added: spaces.Box) -> spaces.Space[Any]:
    """Space with added numbers: at the end of a vector, or under a key of a Dict."""
    if isinstance(raw, spaces.Box) and len(raw.shape) == 1 and np.issubdtype(raw.dtype, np.floating):
        low, high = np.append(raw.low, added.low), np.append(raw.high, added.high)
        return spaces.Box(low.astype(raw.dtype), high.astype(raw.dtype), dtype=raw.dtype.type)
    parts = raw.spaces if isinstance(raw, spaces.Dict) else {"observation": raw}
    if key in parts:
        raise ValueError(
            f"observations already have the key {key!r}, under which the learner would see the remaining budget: "
            "rename it, or give show_threshold=False."
        )
    return spaces.Dict({**parts, key: added})


def shown_with(observations: Observations, key: str, added: Array, space: spaces.Space[Any]) -> Observations:
    """Observations of such a space, from raw ones and the added numbers (n, …)."""
    rows = added.reshape(len(added), -1)
    if isinstance(space, spaces.Dict):
        parts = observations if isinstance(observations, dict) else {"observation": observations}
        return {**parts, key: rows.astype(np.float32)}
    return np.concatenate([observations, rows.astype(observations.dtype)], axis=1)


def without(raw: spaces.Space[Any], observations: Observations, key: str) -> Observations:
    """Raw observations without the added numbers."""
    if isinstance(raw, spaces.Dict):
        return {name: part for name, part in observations.items() if name != key}
    if isinstance(observations, dict):
        return observations["observation"]
    return observations[:, : raw.shape[0]]  # type: ignore[index]


def threshold_space(constraint: Constraint, raw: spaces.Space[Any]) -> spaces.Space[Any]:
    """Space with the thresholds of a constraint, scaled to [0, 1]."""
    count = int(np.size(constraint.largest_threshold))
    return space_with(raw, THRESHOLD, spaces.Box(0.0, 1.0, (count,), np.float32))


def threshold_shown(
    constraint: Constraint, observations: Observations, thresholds: Array, space: spaces.Space[Any]
) -> Observations:
    """Observations with their thresholds (n,) or (n, K) as a learner sees them: min(b / largest, 1)."""
    scaled = np.clip(thresholds / constraint.largest_threshold, 0.0, 1.0)
    return shown_with(observations, THRESHOLD, scaled, space)


def describe_ends(
    infos: Infos,
    ended: NDArray[np.bool_],
    stopped: NDArray[np.bool_],
    recorder: Recorder,
    terminal: Callable[[list[int]], Observations],
) -> None:
    """Add the info entries that SB3 expects at the ends of episodes: `terminal` gives the last observations of rows."""
    rows: list[int] = np.flatnonzero(ended).tolist()
    if not rows:
        return
    last = terminal(rows)
    for place, i in enumerate(rows):
        episode = recorder.episodes[place - len(rows)]
        infos[i]["terminal_observation"] = take(last, place)
        infos[i]["TimeLimit.truncated"] = infos[i].get("TimeLimit.truncated", False) and not stopped[i]
        infos[i]["episode"] = {"r": episode.true_return, "l": episode.length, "t": 0.0}
