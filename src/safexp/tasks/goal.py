"""The Goal tasks: drive the Point or the Car to the goal, keep its centre out of the hazards.

`GoalVectorEnv` runs many at once and loops over none of them; `GoalEnv` is a batch of one. Definitions, and what is
known of the originals, are in docs/goal-tasks.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from safexp.tasks import placement
from safexp.tasks.drawing import draw
from safexp.tasks.knowledge import Knowledge
from safexp.tasks.layouts import GOAL, GOAL_RADIUS, HAZARDS, ROBOT, Layout, Place, layout_named
from safexp.tasks.lidar import lidar
from safexp.tasks.physics import Physics
from safexp.tasks.robots import Array, robot_named
from safexp.tasks.scene import Floor, Scene
from safexp.tasks.starts import Starts

Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]
Info = dict[str, Any]
CostKind = Literal["indicator", "margin"]

FRAMES_PER_SECOND: Final = 50
UNLIMITED: Final = 2**62
SOFTNESS: Final = 0.1
"""Metres over which `cost="margin"` changes from safe to unsafe."""


class GoalVectorEnv(gym.vector.VectorEnv[Array, Array, NDArray[Any]]):
    """`num_envs` Goal tasks stepped together.

    Args:
        num_envs: How many, 1 or more.
        robot: `"Point"` or `"Car"`.
        layout: `"Static"`, `"Dynamic"`, `"Goal1"`, `"Moving"`, or a `Layout`.
        cost: `"indicator"`: 1 inside a hazard, else 0. `"margin"`: 1 / (1 + exp(margin / 0.1)), smooth, ½ at the
            edge. Either lies in [0, 1] and is `info["cost"]`; the signed distance to the nearest hazard's edge
            is `info["margin"]` in any case.
        hazards: Another number of hazards, or their places [(x, y), ...].
        hazard_radius: Another radius of the hazards, in metres.
        extent: Another half-width of the square in which things are placed.
        lidar_bins: Directions of each lidar.
        max_episode_steps: Steps until truncation; `None` takes the layout's.
        autoreset_mode: What happens at an episode's end. It is kept in `metadata["autoreset_mode"]` and read there
            at every step.
        threads: Threads for the physics.
        render_mode: `"rgb_array"` for `render()`, drawn from above without a graphics stack.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": FRAMES_PER_SECOND}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int = 1,
        robot: str = "Point",
        layout: str | Layout = "Static",
        *,
        cost: CostKind = "indicator",
        hazards: int | Sequence[Place] | None = None,
        hazard_radius: float | None = None,
        extent: float | None = None,
        lidar_bins: int = 16,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        threads: int = 1,
        render_mode: str | None = None,
    ) -> None:
        counts = {"num_envs": num_envs, "lidar_bins": lidar_bins, "threads": threads}
        if max_episode_steps is not None:
            counts["max_episode_steps"] = max_episode_steps
        for option, value in counts.items():
            if not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{option}={value!r}: expected an integer of 1 or more.")
        if cost not in ("indicator", "margin"):
            raise ValueError(f"cost={cost!r} is not known; expected 'indicator' or 'margin'.")
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode={render_mode!r} is not known; expected None or 'rgb_array'.")
        kind = robot_named(robot)
        base = layout if isinstance(layout, Layout) else layout_named(layout)
        self.layout = base.changed(hazards, hazard_radius, extent)
        self.num_envs = int(num_envs)
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "autoreset_mode": AutoresetMode(autoreset_mode)}
        self.cost_kind = cost
        self._limit = self.layout.steps if max_episode_steps is None else max_episode_steps
        self.lidar_bins = int(lidar_bins)
        self._starts = Starts(self.layout)
        self.physics = Physics(kind, self.layout.vase, self.num_envs, int(threads))

        count = self.layout.hazards
        second_look = [2] * count if self.layout.orbit else []
        vase = [3 if second_look else 2] if self.layout.vase else []
        self._channels: Rows = np.array([0, *[1] * count, *second_look, *vase])
        low = np.full(kind.sensors + (int(self._channels.max()) + 1) * self.lidar_bins, -np.inf)
        low[kind.sensors :] = 0.0
        self.single_observation_space = gym.spaces.Box(low, np.where(low == 0.0, 1.0, np.inf), dtype=np.float64)
        self.single_action_space = gym.spaces.Box(-1.0, 1.0, (2,), dtype=np.float32)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

        self.goal: Array = np.zeros((self.num_envs, 2))
        self.hazards: Array = np.zeros((self.num_envs, count, 2))
        self.last_distance: Array = np.zeros(self.num_envs)
        self.steps: NDArray[np.int64] = np.zeros(self.num_envs, dtype=np.int64)
        self._centres = self.hazards.copy()
        self._phases, self._senses = np.zeros((2, self.num_envs, count))
        self._needs_reset: Mask = np.ones(self.num_envs, dtype=np.bool_)
        self._started = False
        self._observations: Array = np.zeros((self.num_envs, len(low)))
        self._trail: Array = np.zeros((self.num_envs, 256 if render_mode else 0, 2))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, Info]:
        """Start new episodes in all environments, or in those of `options["reset_mask"]` (n,).

        Returns the observations of all environments (n, d) and their `info`.
        """
        if seed is not None:
            if not isinstance(seed, int | np.integer):
                raise ValueError(f"seed={seed!r}: a batch has one generator; expected one integer or None.")
            super().reset(seed=int(seed))
            self._starts.discard()
        self._start(np.flatnonzero(_reset_mask(options, self.num_envs)))
        self._started = True
        return self._observations.copy(), self._info(np.zeros(self.num_envs, dtype=np.bool_))

    def step(self, actions: ArrayLike) -> tuple[Array, Array, Mask, Mask, Info]:
        """Apply `actions` (n, 2); returns observations (n, d), rewards, terminated, truncated (n,) and info.

        `info` describes the transition just made, also where an environment was reset in the same step; there
        `final_obs` and `final_info` are given as Gymnasium's vector environments do.
        """
        checked = checked_actions(actions, (self.num_envs, 2))
        mode = self.metadata["autoreset_mode"]
        resting = self._needs_reset.copy()
        if resting.any() and not (self._started and mode == AutoresetMode.NEXT_STEP):
            raise ResetNeeded(
                f"Environments {np.flatnonzero(resting)[:8].tolist()} have no running episode; call reset(), or "
                "reset(options={'reset_mask': mask}) for those alone, before step()."
            )
        rewards, goal_met, terminated = self._advance(checked, resting)
        truncated = ~resting & (self.steps >= self._limit)
        if resting.any():
            self._start(np.flatnonzero(resting))
        info = self._info(goal_met)
        done = terminated | truncated
        self._needs_reset = done.copy()
        observations = self._observations.copy()
        if mode == AutoresetMode.SAME_STEP and done.any():
            info |= {
                "final_obs": _object_rows(observations, done),
                "_final_obs": done,
                "final_info": {key: value * _column(done, value) for key, value in info.items()}
                | {f"_{key}": done for key in info},
                "_final_info": done,
            }
            self._start(np.flatnonzero(done))
            observations = self._observations.copy()
        return observations, rewards, terminated, truncated, info

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """A picture (height, width, 3) of each environment, or `None` without a render mode."""
        if self.render_mode is None:
            return None
        return tuple(draw(self.scene(index)) for index in range(self.num_envs))

    def scene(self, index: int) -> Scene:
        """What environment `index` looks like from above, now."""
        position, rotation = self.physics.position[index], self.physics.rotation[index]
        front = rotation[:2, :2] @ self.physics.robot.front
        floor = Floor(
            extent=self.layout.extent,
            goal=(float(self.goal[index, 0]), float(self.goal[index, 1])),
            goal_radius=GOAL_RADIUS,
            hazards=tuple((x, y) for x, y in self.hazards[index].tolist()),
            hazard_radius=self.layout.hazard_radius,
        )
        return Scene(
            floor,
            position=position[:2].copy(),
            heading=float(np.arctan2(front[1], front[0])),
            trail=self._trail[index, : self.steps[index] + 1].copy() if self.render_mode else position[None, :2].copy(),
            robot=self.physics.robot.name,
            vase=self.physics.vase_corners(index) if self.layout.vase else None,
        )

    @property
    def knowledge(self) -> Knowledge:
        """What the task tells beforehand: for the Point among few hazards, how a cautious driver does."""
        from safexp.tasks.cautious import knowledge_of_driving  # which drives these environments

        return knowledge_of_driving(self)

    def observe(self, rows: Rows | slice) -> Array:
        """Observations (m, d) of the present states of `rows`."""
        seen = [self.goal[rows, None], self.hazards[rows]]
        if self.layout.orbit:
            seen.append(self._hazards_at(self.layout.orbit.preview, rows))
        if self.layout.vase:
            seen.append(self.physics.vase[rows, None])
        position, rotation = self.physics.position[rows], self.physics.rotation[rows]
        readings = lidar(np.concatenate(seen, axis=1), self._channels, position, rotation, self.lidar_bins)
        return np.concatenate([self.physics.sensors(rows), readings], axis=1)

    def margins(self) -> Array:
        """Signed distances (n,) of the robots' centres to the edge of their nearest hazard, negative inside."""
        return _distances(self.hazards, self.physics.position[:, None, :2]).min(axis=1) - self.layout.hazard_radius

    def _advance(self, actions: Array, resting: Mask) -> tuple[Array, Mask, Mask]:
        """Move the robots that do not rest and their hazards; returns rewards, goals met and terminations (n,)."""
        moving = np.flatnonzero(~resting) if resting.any() else None
        self.physics.advance(actions, moving)
        self.steps += ~resting
        if self.layout.orbit:
            self.hazards[:] = self._hazards_at(0, slice(None))
        distance = _distances(self.goal, self.physics.position[:, :2])
        goal_met: Mask = (distance <= GOAL_RADIUS) & ~resting
        rewards = np.where(resting, 0.0, self.last_distance - distance + goal_met)
        self.last_distance = distance
        terminated = goal_met.copy()
        if not self.layout.ends_at_goal and goal_met.any():
            terminated[goal_met] = ~self._move_goals(np.flatnonzero(goal_met))
        self._observations = self.observe(slice(None))
        if self.render_mode:
            if self.steps.max() >= self._trail.shape[1]:
                self._trail = np.concatenate([self._trail, np.zeros_like(self._trail)], axis=1)
            self._trail[np.arange(self.num_envs), self.steps] = self.physics.position[:, :2]
        return rewards, goal_met, terminated

    def _start(self, rows: Rows) -> None:
        """Begin new episodes in `rows`."""
        start = self._starts.take(self.np_random, len(rows))
        robots = start.layouts[:, ROBOT]
        self.physics.place(rows, robots, start.attitudes, start.layouts[:, -1], start.turns)
        self.steps[rows] = 0
        self.goal[rows] = start.layouts[:, GOAL]
        self._centres[rows] = self.hazards[rows] = start.layouts[:, HAZARDS : HAZARDS + self.layout.hazards]
        if self.layout.orbit:
            self._phases[rows], self._senses[rows] = start.phases, start.senses
            self.hazards[rows] = self._hazards_at(0, rows)
        self.last_distance[rows] = _distances(self.goal[rows], robots)
        self._needs_reset[rows] = False
        self._observations[rows] = self.observe(rows)
        if self.render_mode:
            self._trail[rows, 0] = robots

    def _move_goals(self, rows: Rows) -> Mask:
        """Give the goals of `rows` new free places; returns whether there was one (m,)."""
        standing = [self.physics.position[rows, None, :2], self.goal[rows, None], self.hazards[rows]]
        if self.layout.vase:
            standing.append(self.physics.vase[rows, None])
        goals, found = placement.move(self.layout.things, self.np_random, GOAL, np.concatenate(standing, axis=1))
        self.goal[rows[found]] = goals[found]
        self.last_distance[rows] = _distances(self.goal[rows], self.physics.position[rows, :2])
        return found

    def _hazards_at(self, later: int, rows: Rows | slice) -> Array:
        """Where the orbiting hazards of `rows` are `later` steps from now, (m, k, 2)."""
        assert self.layout.orbit is not None
        offsets = self.layout.orbit.offsets(self.steps[rows] + later, self._phases[rows], self._senses[rows])
        return self._centres[rows] + offsets

    def _info(self, goal_met: Mask) -> Info:
        margin = self.margins()
        if self.cost_kind == "indicator":
            cost = (margin < 0.0).astype(np.float64)
        else:
            cost = 0.5 - 0.5 * np.tanh(margin / (2 * SOFTNESS))
        return {
            "cost": cost,
            "margin": margin,
            "goal_met": goal_met,
            "position": self.physics.position[:, :2].copy(),
        }


class GoalEnv(gym.Env[Array, Array]):
    """One Goal task: a `GoalVectorEnv` of one, whose options it shares. Its time limit is a wrapper's business."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": FRAMES_PER_SECOND}  # noqa: RUF012

    def __init__(
        self,
        robot: str = "Point",
        layout: str | Layout = "Static",
        *,
        cost: CostKind = "indicator",
        hazards: int | Sequence[Place] | None = None,
        hazard_radius: float | None = None,
        extent: float | None = None,
        lidar_bins: int = 16,
        render_mode: str | None = None,
    ) -> None:
        self.batch = GoalVectorEnv(
            1,
            robot,
            layout,
            cost=cost,
            hazards=hazards,
            hazard_radius=hazard_radius,
            extent=extent,
            lidar_bins=lidar_bins,
            max_episode_steps=UNLIMITED,
            autoreset_mode=AutoresetMode.DISABLED,
            render_mode=render_mode,
        )
        self.render_mode = render_mode
        self.observation_space = self.batch.single_observation_space
        self.action_space = self.batch.single_action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, Info]:
        """Start an episode; returns the observation (d,) and its info."""
        super().reset(seed=seed)
        observations, info = self.batch.reset(seed=seed)
        return observations[0], _first(info)

    def step(self, action: ArrayLike) -> tuple[Array, float, bool, bool, Info]:
        """Apply `action` (2,)."""
        observations, rewards, terminated, _, info = self.batch.step(checked_actions(action, (2,))[None])
        return observations[0], float(rewards[0]), bool(terminated[0]), False, _first(info)

    def render(self) -> NDArray[np.uint8] | None:
        """A picture (height, width, 3), or `None` without a render mode."""
        frames = self.batch.render()
        return frames[0] if frames else None

    def scene(self) -> Scene:
        """What the environment looks like from above, now."""
        return self.batch.scene(0)


def checked_actions(actions: ArrayLike, shape: tuple[int, ...]) -> Array:
    """`actions` as finite floats of `shape`; raises `ValueError` on anything else."""
    try:
        array = np.asarray(actions, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"The action {actions!r} is not numeric; expected {shape} numbers in [-1, 1].") from error
    if array.shape != shape:
        raise ValueError(
            f"The action has shape {array.shape}; expected {shape}, two numbers in [-1, 1] for each environment."
        )
    if not np.isfinite(array).all():
        bad = array.reshape(-1, 2)[~np.isfinite(array).reshape(-1, 2).all(axis=1)]
        raise ValueError(
            f"The action is not finite in {len(bad)} environments, first {bad[0]}; expected numbers in [-1, 1]. "
            "Look for a policy or a normalisation that diverged."
        )
    return array


def _reset_mask(options: dict[str, Any] | None, num_envs: int) -> Mask:
    """Which environments `options` ask to reset, (n,); all without a mask."""
    mask = np.asarray((options or {}).get("reset_mask", np.ones(num_envs, dtype=np.bool_)))
    if mask.shape != (num_envs,) or mask.dtype != np.bool_ or not mask.any():
        raise ValueError(
            f"options['reset_mask'] has shape {mask.shape}, type {mask.dtype} and {np.count_nonzero(mask)} true "
            f"entries; expected a boolean array of shape ({num_envs},) with at least one."
        )
    return mask


def _first(info: Info) -> Info:
    """The info of a batch of one as that of a single environment."""
    return {key: value[0] if value.ndim > 1 else value[0].item() for key, value in info.items()}


def _distances(a: Array, b: Array) -> Array:
    """Distances between points (..., 2)."""
    square: Array = np.square(a - b)
    return np.sqrt(square[..., 0] + square[..., 1])


def _column(mask: Mask, value: NDArray[Any]) -> Mask:
    """`mask` (n,) in a shape that broadcasts over `value` (n, ...)."""
    return mask.reshape(-1, *[1] * (value.ndim - 1))


def _object_rows(values: Array, mask: Mask) -> NDArray[np.object_]:
    """The rows of `values` in `mask`, each an array of its own, `None` elsewhere: Gymnasium's form of `final_obs`."""
    rows = np.full(len(values), None, dtype=object)
    rows[mask] = np.fromiter(values[mask], dtype=object, count=np.count_nonzero(mask))
    return rows
