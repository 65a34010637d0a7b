"""`PlanarRobot` with a witness: every step and its true cost are written to a file at once, even if the process dies.

It is independent of the shield, and counts unsafe steps when runs are killed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.tasks.planar_robot import PlanarRobotVector

TASK = "faults.witness:Witnessed-v0"


class Witnessed(PlanarRobotVector):
    """The task for n robots; a line of the file is what their episodes have cost so far, after each step."""

    def __init__(self, num_envs: int = 1, testimony: str = "") -> None:
        super().__init__(num_envs)
        self.testimony = testimony
        self._spent = np.zeros(num_envs)

    def step(self, actions: NDArray[Any]) -> tuple[Array, Array, Any, Any, dict[str, Any]]:
        before = self._spent.copy()
        observations, rewards, reached, late, infos = super().step(actions)
        spent = before + infos["cost"]
        with Path(self.testimony).open("ab") as file:
            file.write(spent.tobytes())
        self._spent = np.where(reached | late, 0.0, spent)
        return observations, rewards, reached, late, infos

    def _restart(self, rows: NDArray[np.bool_]) -> None:
        super()._restart(rows)
        self._spent[rows] = 0.0


def unsafe_steps(testimony: Path, limit: float) -> tuple[int, int]:
    """Number of steps in a file, and number of them after which the cost of an episode exceeded the limit."""
    spent = np.frombuffer(testimony.read_bytes()) if testimony.exists() else np.zeros(0)
    return len(spent), int((spent > limit * (1 + 1e-9)).sum())


gym.register("Witnessed-v0", vector_entry_point="faults.witness:Witnessed")
