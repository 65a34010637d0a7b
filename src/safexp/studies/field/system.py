"""What a user gives of a system: its environment, its limits, a cautious controller and a backup."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from safexp.constraints import Within
from safexp.core.arrays import Controller
from safexp.studies.field.ledger import Reading


@dataclass(frozen=True)
class System:
    """A system of a field trial.

    Attributes:
        make: makes the environment, whose observations and infos have the limited signals.
        limits: limits on its signals.
        reading: the same quantities from the environment itself, for the ledger.
        cautious: the controller that drives the log.
        backup: brings the system to where it can stay.
        horizon: number of steps in which it does.
        noise: exploration of the log: standard deviation as a share of half the range of a box, or probability of a
            random discrete action.
        steps: number of environment steps of training.
        log_episodes: number of episodes of the log.
    """

    make: Callable[[], gym.Env[Any, Any]]
    limits: Within
    reading: Reading
    cautious: Controller
    backup: Controller
    horizon: int
    noise: float
    steps: int
    log_episodes: int = 100
