"""Gymnasium spaces as JSON."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from safexp.core.files import CheckpointError, Document, count, plain


def describe_space(space: spaces.Space[Any]) -> Document:
    """Convert a Gymnasium space to JSON."""
    if isinstance(space, spaces.Box):
        return {
            "kind": "Box",
            "low": plain(space.low),
            "high": plain(space.high),
            "dtype": str(space.dtype),
        }
    if isinstance(space, spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        return {"kind": "MultiDiscrete", "nvec": space.nvec.tolist(), "start": space.start.tolist()}
    if isinstance(space, spaces.MultiBinary):
        return {"kind": "MultiBinary", "n": plain(space.n)}
    if isinstance(space, spaces.Dict):
        return {"kind": "Dict", "spaces": {key: describe_space(part) for key, part in space.spaces.items()}}
    if isinstance(space, spaces.Tuple):
        return {"kind": "Tuple", "spaces": [describe_space(part) for part in space.spaces]}
    raise CheckpointError(f"the space {space} cannot be saved.")


def build_space(document: Document) -> spaces.Space[Any]:
    """Build a space from the JSON of `describe_space`."""
    match document["kind"]:
        case "Box":
            dtype = np.dtype(document["dtype"])
            low, high = (np.array(document[end], dtype=dtype) for end in ("low", "high"))
            return spaces.Box(low, high, dtype=dtype.type)
        case "Discrete":
            return spaces.Discrete(count(document["n"], "Discrete actions"), start=document["start"])
        case "MultiDiscrete":
            return spaces.MultiDiscrete(document["nvec"], start=document.get("start"))
        case "MultiBinary":
            shape = document["n"]
            for part in shape if isinstance(shape, list) else [shape]:
                count(part, "entries of a space")
            return spaces.MultiBinary(shape)
        case "Dict":
            return spaces.Dict({key: build_space(part) for key, part in document["spaces"].items()})
        case "Tuple":
            return spaces.Tuple([build_space(part) for part in document["spaces"]])
        case other:
            raise CheckpointError(f"the file has a space of unknown kind {other!r}.")
