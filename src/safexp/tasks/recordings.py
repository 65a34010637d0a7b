"""Recorded transitions of Safety-Gymnasium, replayed on our tasks."""

from __future__ import annotations

import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from safexp.tasks.goal import UNLIMITED, GoalVectorEnv
from safexp.tasks.layouts import DYNAMIC, GOAL1, STATIC, Layout
from safexp.tasks.robots import CAR, POINT, Array, Robot

TOLERANCE: Final = 1e-8
"""Largest difference in an observation or a reward that still counts as the same task."""
VASE_COORDINATES: Final = 7
FIELDS: Final = (
    *("qpos", "qvel", "qacc_warmstart", "goal", "hazards", "last_distance", "episode", "action"),
    *("obs", "reward", "cost", "goal_met", "goal_after", "terminated"),
)


@dataclass(frozen=True, slots=True)
class Verification:
    """How a replay of recorded transitions compares with the recording."""

    task: str
    rows: int
    max_observation_difference: float
    max_reward_difference: float
    cost_mismatches: int
    goal_mismatches: int
    termination_mismatches: int

    @property
    def ok(self) -> bool:
        """Whether observations and rewards agree within 1e-8 and all flags exactly."""
        exact = self.cost_mismatches == self.goal_mismatches == self.termination_mismatches == 0
        return bool(exact and self.max_observation_difference <= TOLERANCE and self.max_reward_difference <= TOLERANCE)

    def row(self) -> dict[str, Any]:
        """The fields and the verdict, for a table or JSON."""
        return {**asdict(self), "ok": self.ok}


def verify(path: str | Path) -> Verification:
    """Take every recorded transition of an `.npz` file on its own, and compare what our task makes of it.

    Each row holds a state in world coordinates (`qpos`, `qvel`, `qacc_warmstart`, `goal`, `hazards`,
    `last_distance`), the `episode` it belongs to, an `action`, and what followed (`obs`, `reward`, `cost`, `goal_met`,
    `goal_after`, `terminated`). The task is told by the shapes. A goal that was reached is put where the recording
    put it.
    """
    rows = _read(Path(path))
    robot, layout, bins = _task_of(rows)
    count = len(rows["qpos"])
    env = GoalVectorEnv(
        count,
        robot.name,
        layout,
        lidar_bins=bins,
        autoreset_mode=AutoresetMode.DISABLED,
        max_episode_steps=UNLIMITED,
    )
    env.reset(seed=0)
    # The frame of an episode's start keeps the Point's rounding errors, which its servo amplifies, near the original's.
    _, first, episode = np.unique(rows["episode"], return_index=True, return_inverse=True)
    frames = rows["qpos"][first[episode], :3]
    env.physics.load(rows["qpos"], rows["qvel"], rows["qacc_warmstart"], frames)
    env.goal[:], env.hazards[:], env.last_distance[:] = rows["goal"], rows["hazards"], rows["last_distance"]
    _, rewards, terminated, _, info = env.step(rows["action"])
    env.goal[:] = rows["goal_after"]
    observations = env.observe(slice(None))
    return Verification(
        task=f"{robot.name} {layout.name}",
        rows=count,
        max_observation_difference=_largest(observations - rows["obs"]),
        max_reward_difference=_largest(rewards - rows["reward"]),
        cost_mismatches=int(np.count_nonzero(info["cost"] != rows["cost"])),
        goal_mismatches=int(np.count_nonzero(info["goal_met"] != rows["goal_met"])),
        termination_mismatches=int(np.count_nonzero(terminated != rows["terminated"])),
    )


def _read(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a recording, all of the same length."""
    try:
        archive = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not a .npz file of arrays, as recordings are.") from error
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise ValueError(f"{path} holds a single array; expected a .npz file with {', '.join(FIELDS)}.")
    with archive as file:
        missing = [name for name in FIELDS if name not in file]
        if missing:
            raise ValueError(f"{path} has no {', '.join(missing)}; expected a recording with {', '.join(FIELDS)}.")
        rows = {name: file[name] for name in FIELDS}
    lengths = {len(array) for array in rows.values()}
    if len(lengths) != 1 or lengths == {0}:
        raise ValueError(f"{path} has fields of lengths {sorted(lengths)}; expected one length of 1 or more.")
    return rows


def _task_of(rows: dict[str, NDArray[Any]]) -> tuple[Robot, Layout, int]:
    """Robot, layout and lidar bins that the shapes of a recording fit."""
    coordinates, hazards = rows["qpos"].shape[1], rows["hazards"].shape[1]
    for robot in (POINT, CAR):
        for layout in (STATIC, DYNAMIC, GOAL1):
            fits = coordinates == robot.coordinates + VASE_COORDINATES * layout.vase and hazards == layout.hazards
            readings = rows["obs"].shape[1] - robot.sensors
            lidars = 3 if layout.vase else 2
            if fits and readings > 0 and readings % lidars == 0:
                return robot, layout, readings // lidars
    raise ValueError(
        f"No task has {coordinates} coordinates, {hazards} hazards and {rows['obs'].shape[1]} observations; expected "
        "a recording of the Point or the Car in the Static, Dynamic or Goal1 layout."
    )


def _largest(differences: Array) -> float:
    """The largest magnitude; NaN if any is NaN, so that it never passes for small."""
    return float(np.abs(differences).max())
