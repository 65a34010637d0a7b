"""Table of the built-in tasks."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium import spaces

from safexp.core.extras import MissingExtraError
from safexp.tasks import catalogue


def task_rows() -> list[dict[str, Any]]:
    """One row for each built-in task."""
    rows = []
    for spec, about in catalogue():
        try:
            env = gymnasium.make(spec.id)
        except MissingExtraError as error:
            rows.append({"task": spec.id, "observation": "?", "action": "?", "what to do": f"{about} ({error})"})
            continue
        observation, action = shape(env.observation_space), shape(env.action_space)
        rows.append({"task": spec.id, "observation": observation, "action": action, "what to do": about})
        env.close()
    return rows


def shape(space: spaces.Space[Any]) -> str:
    """Short description of a space."""
    if isinstance(space, spaces.Discrete):
        return f"{space.n} choices"
    if isinstance(space, spaces.Dict):
        return ", ".join(f"{key} {shape(part)}" for key, part in space.spaces.items())
    return "x".join(map(str, space.shape or ())) + " reals" if isinstance(space, spaces.Box) else str(space)
