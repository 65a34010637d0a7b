"""Batched MuJoCo simulations of a robot among objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import mujoco
import numpy as np
from mujoco.batch import Batch
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.tasks.navigation.model import body_name, build
from safexp.tasks.navigation.robots import Robot
from safexp.tasks.navigation.things import GREMLINS, TRAVEL, Group

SUBSTEPS: Final = 10
"""Physics steps under one action."""
STALE: Final = int(mujoco.mjtStage.mjSTAGE_NONE)
FRESH: Final = int(mujoco.mjtStage.mjSTAGE_ACC)
"""A full forward pass, after which sensors describe the present state and not the one before the last substep."""
NO_SENSORS: Final = int(mujoco.mjtDisableBit.mjDSBL_SENSOR)
INPUTS: Final = int(mujoco.mjtState.mjSTATE_CTRL | mujoco.mjtState.mjSTATE_MOCAP_POS)


class State(NamedTuple):
    """Complete states of n simulations in MuJoCo's coordinates.

    `frame_pos` (n, 3), `frame_quat` (n, 4) and `qpos0` are the poses at the start of the episode, of the robot's body
    with its joints at zero and of everything that moves. `places` (n, k, 2) and `quats` (n, k, 4) are, by name, the
    poses of fixed objects and the initial poses of driven ones.
    """

    frame_pos: Array
    frame_quat: Array
    qpos0: Array
    time: Array
    qpos: Array
    qvel: Array
    qacc_warmstart: Array
    places: Mapping[str, Array]
    quats: Mapping[str, Array]


class Physics:
    """`num_envs` simulations of one robot among `groups` of objects, on `threads` threads.

    `position` (n, 3) and `rotation` (n, 3, 3; robot to world) of the robot, `places` (n, k, 3) and `quats` (n, k, 4) of
    each group and `contacts` (n, k) of each watched group with the robot are views: MuJoCo updates them at every call
    to the state after it. With `sleep`, objects at rest are not simulated until something touches them.

    The model's constants are computed for the initial pose of an episode, as in Safety-Gymnasium, which compiles a
    model for every episode. In a contact their last digit can determine where objects go.
    """

    transient = ("position", "rotation", "places", "quats", "contacts", "_sensordata")  # derived from the state

    def __init__(self, robot: Robot, groups: Sequence[Group], num_envs: int, *, threads: int, sleep: bool) -> None:
        self.robot = robot
        self.groups = tuple(group for group in groups if group.count)
        self.threads = threads
        self.sleep = sleep
        model = build(robot.name, self.groups, sleep)
        self.batch = Batch(model, num_envs, threads, persistent=sleep)
        bodies = {group.kind.name: _span(model.body(body_name(group.kind, 0)).id, group.count) for group in self.groups}
        body = model.body("robot").id
        places, quats = self.batch.bind("xpos"), self.batch.bind("xquat")
        self.position: Array = places[:, body]
        self.rotation: Array = self.batch.bind("xmat").reshape(num_envs, -1, 3, 3)[:, body]
        self.places: dict[str, Array] = {name: places[:, span] for name, span in bodies.items()}
        self.quats: dict[str, Array] = {name: quats[:, span] for name, span in bodies.items()}
        sensors = self.batch.bind("sensordata")
        watched = {group.kind.name: model.sensor(body_name(group.kind, 0)) for group in self.groups if group.watched}
        own = min((int(sensor.adr[0]) for sensor in watched.values()), default=model.nsensordata)
        self._sensordata: Array = sensors[:, :own]
        self.contacts: dict[str, Array] = {
            name: sensors[:, _span(sensor.adr[0], self.places[name].shape[1])] for name, sensor in watched.items()
        }

        self._timestep = float(model.opt.timestep)
        self._state: Array = self.batch.state
        self._time: Array = self.batch.bind("time")
        self._qpos: Array = self.batch.bind("qpos")
        self._qvel: Array = self.batch.bind("qvel")
        self._warmstart: Array = self.batch.bind("qacc_warmstart")
        self._ctrl: Array = self.batch.bind("ctrl")
        self._flags: NDArray[np.int32] = self.batch.expand("opt.disableflags")
        positions, quaternions = self.batch.expand("body_pos"), self.batch.expand("body_quat")
        self._frame_position: Array = positions[:, body]
        self._frame_quaternion: Array = quaternions[:, body]
        self._qpos0: Array = self.batch.expand("qpos0")
        self._starts: dict[str, tuple[Array, Array]] = {}
        self._velocities: dict[str, Array] = {}
        for group in self.groups:
            name, count = group.kind.name, group.count
            if group.kind.motion == "fixed":
                self._starts[name] = positions[:, bodies[name]], quaternions[:, bodies[name]]
                continue
            joint = model.body(body_name(group.kind, 0)).jntadr[0]
            poses = self._qpos0[:, _span(model.jnt_qposadr[joint], 7 * count)].reshape(num_envs, count, 7)
            self._starts[name] = poses[..., :3], poses[..., 3:]
            speeds = self._qvel[:, _span(model.jnt_dofadr[joint], 6 * count)].reshape(num_envs, count, 6)
            self._velocities[name] = speeds[..., :3]
        self._driven = sum(group.count for group in self.groups if group.kind.motion == "driven")
        self._anchors: Array = self.batch.expand("eq_data")[..., 3:10] if self._driven else np.zeros((num_envs, 0, 7))

    def __deepcopy__(self, memo: dict[int, Any]) -> Physics:
        count = len(self.position)
        twin = memo[id(self)] = Physics(self.robot, self.groups, count, threads=self.threads, sleep=self.sleep)
        for name in ("_state", "_ctrl", "_flags", "_frame_position", "_frame_quaternion", "_qpos0", "_anchors"):
            getattr(twin, name)[...] = getattr(self, name)
        for name, poses in self._starts.items():
            for own, other in zip(twin._starts[name], poses, strict=True):
                own[...] = other
        twin.restored()
        return twin

    def place(
        self,
        rows: NDArray[np.intp],
        robots: Array,
        attitudes: Array,
        places: Mapping[str, Array],
        quats: Mapping[str, Array],
    ) -> None:
        """Place the robots of `rows` (m,) at rest at `robots` (m, 2), and objects of each name at `places` (m, k, 2).

        `attitudes` (m, 4) and `quats` (m, k, 4) are the unit quaternions of robots and objects. A robot on slides is
        placed by moving the frame in which its joints are zero, as in Safety Gym: with the same numbers a trajectory of
        the Point repeats bit for bit.
        """
        self._frame_position[rows, :2], self._frame_quaternion[rows] = robots, attitudes
        if self.robot.free:
            self._qpos0[rows, :2], self._qpos0[rows, 2], self._qpos0[rows, 3:7] = robots, self.robot.height, attitudes
        self._set_out(rows, places, quats)
        self.batch.set_const(rows)
        self.batch.reset(rows, stage=FRESH)

    def load(self, state: State) -> None:
        """Continue all simulations from recorded states."""
        self._frame_position[:], self._frame_quaternion[:], self._qpos0[:] = state[:3]
        self._set_out(slice(None), state.places, state.quats)
        self.batch.set_const()
        self.batch.reset(stage=STALE)
        self._time[:], self._qpos[:], self._qvel[:], self._warmstart[:] = state[3:7]

    def state(self) -> dict[str, Array]:
        """Positions, velocities and the solver's warm-start accelerations, (n, ·) each."""
        return {"qpos": self._qpos, "qvel": self._qvel, "qacc_warmstart": self._warmstart}

    def advance(self, actions: Array, rows: NDArray[np.intp] | None = None) -> None:
        """Apply `actions` (n, 2) for one control step, to all simulations or to those of `rows`."""
        np.clip(actions, -1.0, 1.0, out=self._ctrl)
        # Sensors do not affect the motion, so they are computed once, after the last substep: up to a fifth faster.
        self._flags |= NO_SENSORS
        if self._driven:
            self.batch.rollout(SUBSTEPS, self._driving(slice(None) if rows is None else rows), INPUTS, (), rows)
        else:
            self.batch.step(rows, nstep=SUBSTEPS, stage=STALE)
        self._flags &= ~NO_SENSORS
        self.batch.forward(rows, stage=FRESH)

    def restored(self) -> None:
        """Recompute all derived quantities after a state was restored."""
        state = self._state.copy()
        self.batch.set_const()
        self.batch.reset(stage=STALE)
        self._state[:] = state
        self.batch.forward(None, stage=FRESH)
        self._state[:] = state  # with the warm-start accelerations

    def sensors(self, rows: NDArray[np.intp] | slice) -> Array:
        """Sensor readings of the robots of `rows`, (m, sensors)."""
        return self.robot.read(self._sensordata[rows])

    def velocity(self) -> Array:
        """Velocities (n, 3) of the robots in the world's frame."""
        return np.einsum("nij,nj->ni", self.rotation, self._sensordata[:, 3:6])

    def speeds(self, name: str) -> Array:
        """Speeds (n, k) of the objects of that name."""
        return np.sqrt(np.square(self._velocities[name]).sum(axis=2))

    def _driving(self, rows: NDArray[np.intp] | slice) -> Array:
        """Controls and targets of driven objects (m, SUBSTEPS, ·) in each substep: circles around their start."""
        start = self._time[rows]
        # Summed in the same way as MuJoCo's clock, so that the targets are the same to the last digit.
        phases = np.cumsum(np.stack([start, *[np.full_like(start, self._timestep)] * (SUBSTEPS - 1)], axis=1), axis=1)
        circle = np.stack([TRAVEL * np.sin(phases), TRAVEL * np.cos(phases)], axis=2)
        target = np.concatenate([circle, np.full((*phases.shape, 1), GREMLINS.height)], axis=2)
        controls = np.repeat(self._ctrl[rows][:, None], SUBSTEPS, axis=1)
        return np.concatenate([controls, np.tile(target, (1, 1, self._driven))], axis=2)

    def _set_out(self, rows: NDArray[np.intp] | slice, places: Mapping[str, Array], quats: Mapping[str, Array]) -> None:
        """Set the initial poses of objects; those that are not named keep theirs."""
        for group in self.groups:
            name, height = group.kind.name, group.kind.height
            if name not in places:
                continue
            position, quaternion = self._starts[name]
            position[rows, :, :2], position[rows, :, 2], quaternion[rows] = places[name], height, quats[name]
            if group.kind.motion == "driven":
                self._anchors[rows, :, :3], self._anchors[rows, :, 3:] = position[rows], quaternion[rows]


def _span(first: int, count: int) -> slice:
    return slice(int(first), int(first) + count)
