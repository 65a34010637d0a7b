"""Many copies of robot, floor and vase, stepped together by MuJoCo."""

from __future__ import annotations

from typing import Any, Final

import mujoco
import numpy as np
from mujoco.batch import Batch
from numpy.typing import NDArray

from safexp.tasks.robots import VASE_HEIGHT, VASE_SIZE, Array, Robot, headings_to_quaternions, rotation_matrices

SUBSTEPS: Final = 10
"""Physics steps under one action."""
STALE: Final = int(mujoco.mjtStage.mjSTAGE_NONE)
FRESH: Final = int(mujoco.mjtStage.mjSTAGE_ACC)
"""A whole forward pass, after which sensors describe the present state and not the one before the last substep."""
NO_SENSORS: Final = int(mujoco.mjtDisableBit.mjDSBL_SENSOR)


class Physics:
    """`num_envs` simulations of one robot, on `threads` threads.

    `position` (n, 3) and `rotation` (n, 3, 3; robot to world) of the robot and `vase` (n, 2; NaN without one) are
    live: MuJoCo rewrites them at every call. They hold for the state after the call.
    """

    transient = ("position", "rotation", "vase", "_sensordata")  # they follow from the state

    def __init__(self, robot: Robot, vase: bool, num_envs: int, threads: int) -> None:
        self.robot = robot
        self.threads = threads
        model = robot.model(vase)
        self.batch = Batch(model, num_envs, threads)
        body = model.body("robot").id
        places = self.batch.bind("xpos")
        self.position: Array = places[:, body]
        self.rotation: Array = self.batch.bind("xmat").reshape(num_envs, -1, 3, 3)[:, body]
        self.vase: Array = places[:, model.body("vase").id, :2] if vase else np.full((num_envs, 2), np.nan)
        self._has_vase = vase
        self._height = float(model.body("robot").pos[2])
        self._state: Array = self.batch.state
        self._rest: Array = self._state[0].copy()
        self._sensordata: Array = self.batch.bind("sensordata")
        self._qpos: Array = self.batch.bind("qpos")
        self._qvel: Array = self.batch.bind("qvel")
        self._warmstart: Array = self.batch.bind("qacc_warmstart")
        self._ctrl: Array = self.batch.bind("ctrl")
        self._flags: NDArray[np.int32] = self.batch.expand("opt.disableflags")
        self._frame_position: Array = self.batch.expand("body_pos")[:, body]
        self._frame_quaternion: Array = self.batch.expand("body_quat")[:, body]

    def __deepcopy__(self, memo: dict[int, Any]) -> Physics:
        twin = memo[id(self)] = Physics(self.robot, self._has_vase, len(self.position), self.threads)
        for name in ("_state", "_ctrl", "_flags", "_frame_position", "_frame_quaternion"):
            getattr(twin, name)[...] = getattr(self, name)
        twin.restored()
        return twin

    def place(self, rows: NDArray[np.intp], robots: Array, attitudes: Array, vases: Array, turns: Array) -> None:
        """Put the robots of `rows` (m,) at rest at `robots` (m, 2), and their vases at `vases` (m, 2).

        `attitudes` and `turns` are the unit quaternions (m, 4) of robots and vases. A robot on slides is placed by
        moving the frame in which its joints are zero: that is how Safety Gym did it, and with the very same numbers
        a trajectory of the Point repeats bit for bit.
        """
        self._state[rows] = self._rest
        if self.robot.free:
            self._qpos[rows, :2], self._qpos[rows, 2], self._qpos[rows, 3:7] = robots, self._height, attitudes
        else:
            self._frame_position[rows, :2], self._frame_quaternion[rows] = robots, attitudes
        if self._has_vase:
            self._qpos[rows, -7:-5], self._qpos[rows, -5], self._qpos[rows, -4:] = vases, VASE_HEIGHT, turns
        self.batch.forward(rows, stage=FRESH)

    def load(self, qpos: Array, qvel: Array, warmstart: Array, frames: Array) -> None:
        """Continue all simulations from recorded states, given in world coordinates.

        `frames` (n, 3) are the poses x, y, heading in which the joints of a robot on slides are zero.
        """
        self._state[:] = self._rest
        self._qpos[:], self._qvel[:], self._warmstart[:] = qpos, qvel, warmstart
        if not self.robot.free:
            self._frame_position[:, :2] = frames[:, :2]
            self._frame_quaternion[:] = headings_to_quaternions(frames[:, 2])
            self._qpos[:, :3] -= frames
            cos, sin = np.cos(frames[:, 2]), np.sin(frames[:, 2])
            for values in (self._qpos, self._qvel, self._warmstart):
                x, y = values[:, 0].copy(), values[:, 1].copy()
                values[:, 0], values[:, 1] = cos * x + sin * y, cos * y - sin * x

    def advance(self, actions: Array, rows: NDArray[np.intp] | None = None) -> None:
        """Apply `actions` (n, 2) for one control step, to all simulations or to those of `rows`."""
        np.clip(actions, -1.0, 1.0, out=self._ctrl)
        # Sensors do not act on the motion, so they are read once, after the last substep: up to a fifth faster.
        self._flags |= NO_SENSORS
        self.batch.step(rows, nstep=SUBSTEPS, stage=STALE)
        self._flags &= ~NO_SENSORS
        self.batch.forward(rows, stage=FRESH)

    def restored(self) -> None:
        """Let everything follow from a state that was put back."""
        state = self._state.copy()
        self.batch.forward(None, stage=FRESH)
        self._state[:] = state  # with the accelerations that the solver starts from

    def vase_corners(self, row: int) -> Array:
        """The corners (4, 2) of one vase seen from above, as long as it stands."""
        turn = rotation_matrices(self._qpos[row : row + 1, -4:]).reshape(3, 3)[:2, :2]
        square = VASE_SIZE * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
        return self.vase[row] + square @ turn.T

    def sensors(self, rows: NDArray[np.intp] | slice) -> Array:
        """What the robots of `rows` sense, (m, sensors)."""
        return self.robot.read(self._sensordata[rows])
