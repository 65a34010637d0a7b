"""What a task can tell before its first step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import ArrayLike

from safexp.backups.stops import Controller, WayOut
from safexp.core.arrays import Array
from safexp.shield.logs import Log


@dataclass(frozen=True)
class Knowledge:
    """What a task can tell before its first step, for quantifiers that cannot start from nothing.

    An environment, or vector environment, offers it as its attribute `knowledge`. Every part may be left out: a
    quantifier that needs a missing one is refused with a word about which.

    Args:
        cost: the costs (n,) of actions (n, da) in states (n, ds), in the task's units; discrete actions are one-hot.
        margin: their signed distances (n,) to the limit, likewise.
        log: safe transitions, with costs, margins and episodes, drawn with a generator.
        controller: the cautious controller that drove the log, for observations (n, ...): it drives where a learned
            quantifier certifies nothing yet.
        exact_gp: settings of `ExactGP` under which its bound is believable here.
        fallback: a controller that drives out of all cost, and a bound on what that costs, for `Fallback`.
    """

    cost: Callable[[Array, Array], ArrayLike] | None = None
    margin: Callable[[Array, Array], ArrayLike] | None = None
    log: Callable[[np.random.Generator], Log] | None = None
    controller: Controller | None = None
    exact_gp: Mapping[str, Any] = field(default_factory=dict)
    fallback: tuple[Controller, WayOut] | None = None


def knowledge_of(envs: VectorEnv[Any, Any, Any]) -> Knowledge:
    """What these environments can tell; nothing if they do not say."""
    batch = envs.unwrapped
    found = getattr(batch, "knowledge", None)
    for env in getattr(batch, "envs", ()):
        if found is None and env.has_wrapper_attr("knowledge"):
            found = env.get_wrapper_attr("knowledge")
    return found if isinstance(found, Knowledge) else Knowledge()
