"""Prior knowledge of a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import ArrayLike

from safexp.backups.recovery import WayOut
from safexp.core.arrays import Array, Controller
from safexp.core.obstacles import Obstacles
from safexp.shield.logs import Log


@dataclass(frozen=True)
class Knowledge:
    """Prior knowledge of a task, for quantifiers that need some to start from.

    An environment, or vector environment, provides it as its attribute `knowledge`. Every part is optional: a
    quantifier that needs a missing one raises an error that names it.

    Args:
        cost: function that returns the costs (n,) of actions (n, da) in states (n, ds), in the task's units; discrete
            actions are one-hot.
        margin: function that returns their signed distances (n,) to the limit, likewise.
        log: function of a generator that returns safe transitions, with costs, margins and episodes.
        controller: the cautious controller of the log, a function of observations (n, ...): it drives where a learned
            quantifier certifies nothing yet.
        exact_gp: settings of `ExactGP` under which its bound is plausible for this task.
        backup: a controller that comes to rest, and how many steps that takes, for `Backup`.
        hold: numbers of steps for which an action may be held before it drives, for `Backup(hold=...)`.
        drill_log: function like `log` whose log is interrupted by the backup, for certificates that learn from that.
        rescue: a controller that leaves a costly region, for `Backup(rescue=...)`.
        obstacles: what a robot in the plane must stay out of, for `PlanarPath`.
        no_backup: why the task has no backup whose cost is bounded, for the error of a run that asks for one.
        fallback: a controller that drives to where there is no cost, and a bound on its cost, for `Fallback`.

    Example:
        >>> brake = safexp.LinearFeedback([[0.0, -2.0]], low=-1.0, high=1.0)
        >>> class Cart(gym.Env):
        ...     knowledge = safexp.Knowledge(backup=(brake, 40))
        >>> Cart.knowledge.backup[1]
        40
    """

    cost: Callable[[Array, Array], ArrayLike] | None = None
    margin: Callable[[Array, Array], ArrayLike] | None = None
    log: Callable[[np.random.Generator], Log] | None = None
    controller: Controller | None = None
    exact_gp: Mapping[str, Any] = field(default_factory=dict)
    backup: tuple[Controller, int] | None = None
    hold: Sequence[int] = (0,)
    drill_log: Callable[[np.random.Generator], Log] | None = None
    rescue: Controller | None = None
    obstacles: Obstacles | None = None
    no_backup: str = ""
    fallback: tuple[Controller, WayOut] | None = None


def knowledge_of(envs: VectorEnv[Any, Any, Any]) -> Knowledge:
    """The knowledge that environments provide; empty if there is none."""
    batch = envs.unwrapped
    found = getattr(batch, "knowledge", None)
    for env in getattr(batch, "envs", ()):
        if found is None and env.has_wrapper_attr("knowledge"):
            found = env.get_wrapper_attr("knowledge")
    return found if isinstance(found, Knowledge) else Knowledge()
