"""Replay of recorded Safety-Gymnasium transitions on our tasks.

A recording is an `.npz` file with one row per transition, which `tools/record_safety_gymnasium.py` writes. `task` is
the original's id. Before the step, in MuJoCo's coordinates:

- `frame_pos` (3) and `frame_quat` (4) of the robot's body with its joints at zero, and `qpos0` at the episode's start;
- `time`, `qpos`, `qvel`, `qacc_warmstart`;
- the places `goal` (2), `hazards`, `pillars`, `buttons` (k, 2), the attitudes `pillars_quat`, `buttons_quat` (k, 4),
  and the poses `weld_anchors` (k, 7) at which gremlins started;
- `last_distance`, the remaining distance, `goal_button` and `timer`.

Then the `action` and its results: `obs`, `reward`, `cost` and its parts (`cost_hazards`, ...), `goal_met`,
`goal_after`, `goal_button_after`, `terminated`, `qpos_after`, `qvel_after`. A field that a task does not have is
omitted; the parts of the cost and the state after the step may be omitted.

Older recordings of the Goal tasks have no `task`, which is then inferred from the shapes, and no frames: their states
are in world coordinates, `episode` has the episode of each row, and the first row of an episode gives the frame.
"""

from __future__ import annotations

import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.tasks.navigation.layouts import DYNAMIC, STATIC, Layout
from safexp.tasks.navigation.physics import State
from safexp.tasks.navigation.robots import ROBOTS, Robot, headings_to_quaternions
from safexp.tasks.navigation.suite import GOAL1, SUITE
from safexp.tasks.navigation.vector_env import UNLIMITED, NavigationVectorEnv

Recording = dict[str, NDArray[Any]]

TOLERANCE: Final = 1e-8
"""Largest difference in an observation or a reward that counts as equal."""
VASE_COORDINATES: Final = 7
FIELDS: Final = ("qpos", "qvel", "qacc_warmstart", "action", "obs", "reward", "cost", "goal_met", "terminated")
FRAME_FIELDS: Final = ("frame_pos", "frame_quat", "qpos0", "time")
GOAL_FIELDS: Final = ("goal", "hazards", "last_distance", "episode", "goal_after")


@dataclass(frozen=True, slots=True)
class Verification:
    """Comparison of a replay with its recording.

    `max_state_difference` is that of positions and velocities after the step, NaN if the recording has none; it is
    reported but not judged.
    """

    task: str
    rows: int
    max_observation_difference: float
    max_reward_difference: float
    cost_mismatches: int
    goal_mismatches: int
    termination_mismatches: int
    max_state_difference: float = float("nan")

    @property
    def ok(self) -> bool:
        """Whether observations and rewards agree within 1e-8 and all flags exactly."""
        exact = self.cost_mismatches == self.goal_mismatches == self.termination_mismatches == 0
        return bool(exact and self.max_observation_difference <= TOLERANCE and self.max_reward_difference <= TOLERANCE)

    def row(self) -> dict[str, Any]:
        """The fields and the verdict as a row of a table."""
        return {**asdict(self), "ok": self.ok}


def verify(path: str | Path) -> Verification:
    """Replay every recorded transition of an `.npz` file separately, and compare the results.

    A goal that was reached is moved to its place in the recording.
    """
    rows = _read(Path(path))
    robot, layout, bins = _task_of(rows)
    env = NavigationVectorEnv(
        len(rows["qpos"]),
        robot.name,
        layout,
        lidar_bins=bins,
        autoreset_mode=AutoresetMode.DISABLED,
        max_episode_steps=UNLIMITED,
    )
    env.reset(seed=0)
    put(env, rows)
    _, rewards, terminated, _, info = env.step(rows["action"])
    for name in ("goal", "goal_button"):
        if f"{name}_after" in rows:
            getattr(env, name)[:] = rows[f"{name}_after"]
    state = env.physics.state()
    differences = [state[name] - rows[f"{name}_after"] for name in ("qpos", "qvel") if f"{name}_after" in rows]
    parts = [name for name in rows if name.startswith("cost") and name in info]
    return Verification(
        task=f"{robot.name} {layout.name}",
        rows=len(rows["qpos"]),
        max_observation_difference=_largest(env.observe(slice(None)) - rows["obs"]),
        max_reward_difference=_largest(rewards - rows["reward"]),
        cost_mismatches=int(np.any([info[name] != rows[name] for name in parts], axis=0).sum()),
        goal_mismatches=int(np.count_nonzero(info["goal_met"] != rows["goal_met"])),
        termination_mismatches=int(np.count_nonzero(terminated != rows["terminated"])),
        max_state_difference=max(map(_largest, differences), default=float("nan")),
    )


def put(env: NavigationVectorEnv, rows: Recording) -> None:
    """Set the state of each environment to that before the step in a row of the recording."""
    places: dict[str, Array] = {name: rows[name] for name in ("pillars", "buttons") if name in rows}
    quats: dict[str, Array] = {name: rows[f"{name}_quat"] for name in places}
    if env.layout.gremlins:
        places["gremlins"], quats["gremlins"] = rows["weld_anchors"][..., :2], rows["weld_anchors"][..., 3:]
    fields = {name: rows[name] for name in (*FRAME_FIELDS, "qpos", "qvel", "qacc_warmstart")}
    env.physics.load(State(**fields, places=places, quats=quats))
    for name in ("goal", "hazards", "last_distance", "goal_button", "timer"):
        if name in rows:
            getattr(env, name)[:] = rows[name]


def _read(path: Path) -> Recording:
    """The arrays of a recording in the present format, all of the same length."""
    try:
        archive = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not a recording: expected a .npz file of arrays.") from error
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise ValueError(f"{path} holds a single array; expected a .npz file with {', '.join(FIELDS)}.")
    with archive as file:
        fields = (*FIELDS, *(FRAME_FIELDS if "task" in file else GOAL_FIELDS))
        missing = [name for name in fields if name not in file]
        if missing:
            raise ValueError(f"{path} has no {', '.join(missing)}; expected a recording with {', '.join(fields)}.")
        rows = {name: file[name] for name in file}
    lengths = {len(array) for name, array in rows.items() if name != "task"}
    if len(lengths) != 1 or lengths == {0}:
        raise ValueError(f"{path} has fields of lengths {sorted(lengths)}; expected one length of 1 or more.")
    return rows if "task" in rows else _with_frames(rows)


def _with_frames(rows: Recording) -> Recording:
    """Convert a recording from world coordinates to the initial frames of a robot on slides.

    The initial frame of an episode keeps the Point's rounding errors, which its servo amplifies, near the original's.
    """
    robot, _, _ = _task_of(rows)
    _, first, episode = np.unique(rows["episode"], return_index=True, return_inverse=True)
    frames = rows["qpos"][first[episode], :3]
    heights = np.full((len(frames), 1), robot.height)
    found = {name: rows[name].copy() for name in ("qpos", "qvel", "qacc_warmstart")}
    if not robot.free:
        found["qpos"][:, :3] -= frames
        cos, sin = np.cos(frames[:, 2]), np.sin(frames[:, 2])
        for values in found.values():
            x, y = values[:, 0].copy(), values[:, 1].copy()
            values[:, 0], values[:, 1] = cos * x + sin * y, cos * y - sin * x
    return (
        rows
        | found
        | {
            "frame_pos": np.concatenate([frames[:, :2], heights], axis=1),
            "frame_quat": headings_to_quaternions(frames[:, 2]),
            "qpos0": found["qpos"][first[episode]],
            "time": np.zeros(len(frames)),
        }
    )


def _task_of(rows: Recording) -> tuple[Robot, Layout, int]:
    """Robot, layout and lidar bins of a recording, by its id or by its shapes."""
    observations = rows["obs"].shape[1]
    if "task" in rows:
        name = str(rows["task"])
        for robot in ROBOTS:
            for layout in SUITE:
                if name == f"Safety{robot.name}{layout.name}-v0":
                    return robot, layout, _bins(robot, layout, observations)
        raise ValueError(
            f"The recording is of {name!r}; expected SafetyPoint…-v0 or SafetyCar…-v0 with one of "
            f"{', '.join(layout.name for layout in SUITE)}."
        )
    coordinates, hazards = rows["qpos"].shape[1], rows["hazards"].shape[1]
    for robot in ROBOTS:
        for layout in (STATIC, DYNAMIC, GOAL1):
            fits = coordinates == robot.coordinates + VASE_COORDINATES * layout.vases and hazards == layout.hazards
            if fits and _bins(robot, layout, observations):
                return robot, layout, _bins(robot, layout, observations)
    raise ValueError(
        f"No task has {coordinates} coordinates, {hazards} hazards and {observations} observations; expected "
        "a recording of the Point or the Car in the Static, Dynamic or Goal1 layout."
    )


def _bins(robot: Robot, layout: Layout, observations: int) -> int:
    """Number of bins of each lidar for an observation of this length; 1 without lidars, 0 if no number fits."""
    lidars = (NavigationVectorEnv(1, robot.name, layout, lidar_bins=1).single_observation_space.shape or (0,))[0]
    lidars -= robot.sensors
    readings = observations - robot.sensors
    if lidars == 0:
        return int(readings == 0)
    return readings // lidars if readings % lidars == 0 else 0


def _largest(differences: Array) -> float:
    """The largest magnitude; NaN if any is NaN, so that a NaN never counts as small."""
    return float(np.abs(differences).max())
