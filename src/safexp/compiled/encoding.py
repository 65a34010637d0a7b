"""Translation of spaces: observations as states, actions as vectors, signals in the observation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from safexp.compiled.blueprint import NotExportableError
from safexp.compiled.program import Program
from safexp.compiled.tables import LANES, in_blocks
from safexp.core.arrays import Array, named
from safexp.core.encoding import as_dict_space, encoded_size, entry_sizes, index_of
from safexp.core.signals import SignalSource

Fields = dict[str, int | str]


def observation_fields(program: Program, space: spaces.Space[Any], start: int = 0, to: int = 0) -> list[Fields]:
    """Fields of the C struct `observation_part` for each part of an observation, which begins at number `start`."""
    if isinstance(space, spaces.Tuple):
        space = as_dict_space(space)
    if isinstance(space, spaces.Dict):
        found: list[Fields] = []
        for key in sorted(space.spaces):
            found += observation_fields(program, space[key], start, to)
            start, to = start + flat_size(space[key]), to + encoded_size(space[key])
        return found
    if isinstance(space, spaces.Discrete):
        low, high = np.array([space.start]), np.array([space.start + space.n - 1])
        kind, entries = "ONE_HOT", int(space.n)
    elif isinstance(space, spaces.Box):
        low, high, entries = space.low.ravel(), space.high.ravel(), int(np.prod(space.shape))
        kind = "SINGLE" if space.dtype == np.float32 else "PLAIN"
    elif isinstance(space, spaces.MultiBinary):
        entries, kind = int(np.prod(space.shape)), "WHOLE"
        low, high = np.zeros(entries), np.ones(entries)
    elif isinstance(space, spaces.MultiDiscrete):
        low, kind = np.asarray(space.start).ravel(), "WHOLE"
        high, entries = low + space.nvec.ravel() - 1, low.size
    else:
        raise NotExportableError(f"observations of {space} cannot be exported to C.")
    return [
        {
            "kind": kind,
            "entries": entries,
            "from": start,
            "to": to,
            "low": program.tables.add("observation: smallest", low),
            "high": program.tables.add("observation: largest", high),
        }
    ]


def flat_size(space: spaces.Space[Any]) -> int:
    """Numbers of an observation: one for each entry, and one for a discrete choice."""
    if isinstance(space, spaces.Tuple):
        space = as_dict_space(space)
    if isinstance(space, spaces.Dict):
        return sum(flat_size(part) for part in space.spaces.values())
    return 1 if isinstance(space, spaces.Discrete) else int(np.prod(space.shape or ()))


def flatten(space: spaces.Space[Any], observations: Any) -> Array:
    """Observations (n, ...) as the numbers (n, d) that the C functions take."""
    if isinstance(space, spaces.Tuple):
        space, observations = as_dict_space(space), named(observations)
    if isinstance(space, spaces.Dict):
        return np.concatenate([flatten(space[key], observations[key]) for key in sorted(space.spaces)], axis=1)
    batch = np.asarray(observations, dtype=np.float64)
    return batch.reshape(len(batch), -1)


def signal_entry(source: SignalSource, space: spaces.Space[Any]) -> int:
    """Number of the observation that is this signal, or -1 if the caller must measure it."""
    if isinstance(space, spaces.Tuple):
        space = as_dict_space(space)
    if isinstance(source, str):
        if not isinstance(space, spaces.Dict) or source not in space.spaces or flat_size(space[source]) != 1:
            return -1
        before = [key for key in sorted(space.spaces) if key < source]
        return sum(flat_size(space[key]) for key in before)
    if callable(source) or isinstance(space, spaces.Dict):
        return -1
    return int(source) % flat_size(space)


def action_macros(program: Program) -> dict[str, int | str]:
    """Macros about actions and candidates."""
    blueprint, add = program.blueprint, program.tables.add
    space, candidates = blueprint.action_space, blueprint.candidates
    macros: dict[str, int | str] = {
        "ACTIONS": candidates.shape[1],
        "CANDIDATE_COUNT": len(candidates),
        "BLOCKS": -(-len(candidates) // LANES),
        "CANDIDATES": add("fixed candidates", in_blocks(candidates)),
        "VOUCHED": int(blueprint.vouched is not None),
    }
    if not isinstance(space, spaces.Box):
        if blueprint.vouched is not None:
            macros["VOUCHED_CHOICE"] = int(index_of(space, blueprint.vouched[None])[0])
        counts = entry_sizes(space)
        starts = [0] * len(counts) if isinstance(space, spaces.MultiBinary) else np.ravel(space.start).tolist()
        return macros | {
            "ACTION_STARTS": _initialiser(starts),
            "ACTION_COUNTS": _initialiser(counts),
            "SEVERAL_ENTRIES": int(not isinstance(space, spaces.Discrete)),
            "IS_ACTION(x)": "(choice_of(x) >= 0)",
        }
    if space.dtype not in (np.float32, np.float64):
        raise NotExportableError(f"actions of the precision {space.dtype} cannot be exported; use float32 or float64.")
    if blueprint.vouched is not None:
        macros["VOUCHED_ACTION"] = add("the user's safe action", blueprint.vouched)
    span = np.maximum(space.high - space.low, np.finfo(np.float32).tiny).ravel()
    return macros | {
        "ACTION_LOW": add("actions: smallest", space.low),
        "ACTION_HIGH": add("actions: largest", space.high),
        "APPROACH": len(blueprint.ways),
        "WAYS": add("shares of the way to the proposal", blueprint.ways),
        "ACTION_SPAN": add("actions: spans", span),
        "ROUNDED(x)": "narrow(x)" if space.dtype == np.float32 else "(x)",
        "IS_ACTION(x)": "((x) != NULL)",
    }


def _initialiser(values: Sequence[int]) -> str:
    return "{" + ", ".join(map(str, values)) + "}"
