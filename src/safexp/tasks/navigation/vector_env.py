"""Batched navigation tasks, stepped without a loop over environments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from safexp.core.arrays import Array, Flags
from safexp.core.extras import needed_for
from safexp.envs.infos import Info
from safexp.tasks.knowledge import Knowledge
from safexp.tasks.navigation import costs, placement, rewards
from safexp.tasks.navigation.batches import checked_actions, object_rows, only_where, reset_mask
from safexp.tasks.navigation.layouts import GOAL_RADIUS, Layout
from safexp.tasks.navigation.lidar import lidar
from safexp.tasks.navigation.physics import Physics
from safexp.tasks.navigation.resets import StartSupply
from safexp.tasks.navigation.robots import robot_named
from safexp.tasks.navigation.scenery import scene_of
from safexp.tasks.navigation.suite import layout_named
from safexp.tasks.scene import Place, Scene

Rows = NDArray[np.intp]
CostKind = Literal["indicator", "margin"]

FRAMES_PER_SECOND: Final = 50
UNLIMITED: Final = 2**62
SOFTNESS: Final = 0.1
"""Width in metres of the transition of `cost="margin"` from safe to unsafe."""
PAUSE: Final = 10
"""Steps after a press during which buttons are invisible to the lidar and free of cost."""


class NavigationVectorEnv(gym.vector.VectorEnv[Array, Array, NDArray[Any]]):
    """`num_envs` navigation tasks stepped together.

    Args:
        num_envs: Number of environments, at least 1.
        robot: `"Point"` or `"Car"`.
        layout: A name of `safexp.LAYOUTS`, such as `"Static"` or `"Button1"`, or a `Layout`.
        cost: `"indicator"`: 1 if any cost occurs, else 0. `"margin"`: 1 / (1 + exp(margin / 0.1)), smooth, ½ at the
            edge. Either lies in [0, 1] and is `info["cost"]`. If only hazards and boundaries have costs,
            `info["margin"]` is the signed distance to the nearest edge; `"margin"` requires that. `info` also has the
            parts of the cost, 0 or 1 each, under Safety-Gymnasium's keys (`cost_hazards`, ...).
        hazards: Number of hazards, or their places [(x, y), ...], in place of the layout's.
        hazard_radius: Radius of the hazards in metres, in place of the layout's.
        extent: Half-width of the square in which objects are placed, in place of the layout's.
        lidar_bins: Number of directions of each lidar.
        max_episode_steps: Steps until truncation; `None` uses the layout's.
        autoreset_mode: Gymnasium's autoreset mode. It is stored in `metadata["autoreset_mode"]` and read there at
            every step.
        threads: Threads for the physics.
        render_mode: `"rgb_array"` for `render()`, drawn from above without a graphics stack.

    Example:
        >>> envs = safexp.NavigationVectorEnv(3, "Point", "Static", cost="margin")
        >>> observations, infos = envs.reset(seed=0)
        >>> observations, rewards, terminated, truncated, infos = envs.step(envs.action_space.sample())
        >>> infos["cost"].shape
        (3,)
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
        if cost == "margin" and not self.layout.has_margin:
            raise ValueError(
                f"cost='margin' with layout {self.layout.name!r}: its costs have no signed distance; expected "
                "'indicator', or a layout in which only hazards and boundaries have costs."
            )
        self.num_envs = int(num_envs)
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "autoreset_mode": AutoresetMode(autoreset_mode)}
        self.cost_kind = cost
        self._limit = self.layout.steps if max_episode_steps is None else max_episode_steps
        self.lidar_bins = int(lidar_bins)
        self._starts = StartSupply(self.layout, kind)
        self._spans = self.layout.spans(kind)
        self.physics = Physics(
            kind, self.layout.groups(kind), self.num_envs, threads=int(threads), sleep=self.layout.sleep
        )

        self.goal: Array = np.zeros((self.num_envs, 2))
        self.hazards: Array = np.zeros((self.num_envs, self.layout.hazards, 2))
        self.last_distance: Array = np.zeros(self.num_envs)
        self.goal_button: NDArray[np.int64] = np.zeros(self.num_envs, dtype=np.int64)
        self.timer: NDArray[np.int64] = np.zeros(self.num_envs, dtype=np.int64)
        self.steps: NDArray[np.int64] = np.zeros(self.num_envs, dtype=np.int64)
        self._centres = self.hazards.copy()
        self._phases, self._senses = np.zeros((2, self.num_envs, self.layout.hazards))
        self._needs_reset: Flags = np.ones(self.num_envs, dtype=np.bool_)
        self._started = False

        counts_seen = [places.shape[1] for places in self._seen(slice(0, 1))]
        self._channels: Rows = np.repeat(np.arange(len(counts_seen)), counts_seen)
        low = np.full(kind.sensors + len(counts_seen) * self.lidar_bins, -np.inf)
        low[kind.sensors :] = 0.0
        self.single_observation_space = gym.spaces.Box(low, np.where(low == 0.0, 1.0, np.inf), dtype=np.float64)
        self.single_action_space = gym.spaces.Box(-1.0, 1.0, (2,), dtype=np.float32)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
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
        self._start(np.flatnonzero(reset_mask(options, self.num_envs)))
        self._started = True
        return self._observations.copy(), self._info(np.zeros(self.num_envs, dtype=np.bool_), self._violations())

    def step(self, actions: ArrayLike) -> tuple[Array, Array, Flags, Flags, Info]:
        """Apply `actions` (n, 2); returns observations (n, d), rewards, terminated, truncated (n,) and info.

        `info` describes the transition, also of an environment that was reset in the same step, except for margin,
        pose and hazards, which are then those of the first state; `final_obs` and `final_info` are as in Gymnasium's
        vector environments.
        """
        checked = checked_actions(actions, (self.num_envs, 2))
        mode = self.metadata["autoreset_mode"]
        resting = self._needs_reset.copy()
        if resting.any() and not (self._started and mode == AutoresetMode.NEXT_STEP):
            raise ResetNeeded(
                f"Environments {np.flatnonzero(resting)[:8].tolist()} have no running episode; call reset(), or "
                "reset(options={'reset_mask': mask}) for only those, before step()."
            )
        paid, violations, goal_met, terminated = self._advance(checked, resting)
        truncated = ~resting & (self.steps >= self._limit)
        if resting.any():
            self._start(np.flatnonzero(resting))
        info = self._info(goal_met, violations)
        done = terminated | truncated
        self._needs_reset = done.copy()
        observations = self._observations.copy()
        if mode == AutoresetMode.SAME_STEP and done.any():
            info |= {
                "final_obs": object_rows(observations, done),
                "_final_obs": done,
                "final_info": {key: only_where(done, value) for key, value in info.items()}
                | {f"_{key}": done for key in info},
                "_final_info": done,
            }
            self._start(np.flatnonzero(done))
            observations = self._observations.copy()
            first = self._places()
            info |= {
                key: np.where(done.reshape(-1, *[1] * (now.ndim - 1)), now, info[key]) for key, now in first.items()
            }
        return observations, paid, terminated, truncated, info

    def step_some(self, environments: Flags, actions: ArrayLike) -> tuple[Array, Array, Flags, Flags, Info]:
        """Step only these environments (n,), without resets; the others stay as they are."""
        resting = ~environments
        paid, violations, goal_met, terminated = self._advance(checked_actions(actions, (self.num_envs, 2)), resting)
        truncated = environments & (self.steps >= self._limit)
        return self._observations.copy(), paid, terminated, truncated, self._info(goal_met, violations)

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """A picture (height, width, 3) of each environment, or `None` without a render mode."""
        if self.render_mode is None:
            return None
        with needed_for("drawing a task"):
            from safexp.tasks.drawing import draw
        return tuple(draw(self.scene(index)) for index in range(self.num_envs))

    def scene(self, index: int) -> Scene:
        """The present scene of environment `index` from above."""
        position = self.physics.position[index, :2].copy()
        trail = self._trail[index, : self.steps[index] + 1].copy() if self.render_mode else position[None]
        alarm = any(found[index] for found in self._violations().values())
        goal, hazards = self.goal[index], self.hazards[index]
        return scene_of(self.layout, self.physics, index, goal, hazards, trail=trail, alarm=alarm)

    @property
    def knowledge(self) -> Knowledge:
        """Prior knowledge of the task: a brake and its log, and a log of a cautious controller for the static Point."""
        from safexp.tasks.seed_controllers import knowledge_of_driving  # imports this module

        return knowledge_of_driving(self)

    def observe(self, rows: Rows | slice) -> Array:
        """Observations (m, d) of the present states of `rows`."""
        sensors, seen = self.physics.sensors(rows), self._seen(rows)
        if not seen:
            return sensors.copy()
        position, rotation = self.physics.position[rows], self.physics.rotation[rows]
        readings = lidar(
            np.concatenate(seen, axis=1),
            self._channels,
            position,
            rotation,
            bins=self.lidar_bins,
            reach=self.layout.lidar_range,
        )
        if self.layout.buttons:
            readings[self.timer[rows] > 0, : self.lidar_bins] = 0.0
        return np.concatenate([sensors, readings], axis=1)

    def margins(self) -> Array:
        """Signed distances (n,) of the robots' centres to the nearest edge of a costly region, negative inside."""
        return costs.margins(self.layout, self.physics, self.hazards)

    def _seen(self, rows: Rows | slice) -> list[Array]:
        """Positions (m, k, 2) of the objects of each lidar, in the order of the observation."""
        bodies = {name: places[rows, :, :2] for name, places in self.physics.places.items()}
        seen = [bodies.pop("buttons")] if self.layout.buttons else []
        if self.layout.pays == "circling":
            seen.append(np.zeros((len(self.goal[rows]), 1, 2)))
        if self.layout.has_goal:
            seen.append(self.goal[rows, None])
        if self.layout.hazards:
            seen.append(self.hazards[rows])
        if self.layout.orbit:
            seen.append(self._hazards_at(self.layout.orbit.preview, rows))
        return seen + list(bodies.values())

    def _advance(self, actions: Array, resting: Flags) -> tuple[Array, dict[str, Flags], Flags, Flags]:
        """Advance all but the `resting` ones; returns rewards (n,), costs, goals met (n,) and terminations (n,)."""
        moving = np.flatnonzero(~resting) if resting.any() else None
        self.physics.advance(actions, moving)
        self.steps += ~resting
        if self.layout.orbit:
            self.hazards[:] = self._hazards_at(0, slice(None))
        violations = {key: found & ~resting for key, found in self._violations().items()}
        left = self._remaining(slice(None))
        goal_met = self._goals_met(left) & ~resting
        paid = self.last_distance - left + goal_met
        if self.layout.pays == "circling":
            paid = rewards.circling(self.physics.position, self.physics.velocity())
        if self.layout.pays != "running":
            paid = np.clip(paid, -rewards.LARGEST, rewards.LARGEST)
        self.last_distance = left
        self.timer[:] = np.maximum(0, self.timer - ~resting)
        terminated = goal_met.copy()
        if not self.layout.ends_at_goal and goal_met.any():
            terminated[goal_met] = ~self._renew_goals(np.flatnonzero(goal_met))
        self._observations = self.observe(slice(None))
        if self.render_mode:
            if self.steps.max() >= self._trail.shape[1]:
                self._trail = np.concatenate([self._trail, np.zeros_like(self._trail)], axis=1)
            self._trail[np.arange(self.num_envs), self.steps] = self.physics.position[:, :2]
        return np.where(resting, 0.0, paid), violations, goal_met, terminated

    def _start(self, rows: Rows) -> None:
        """Start new episodes in `rows`."""
        start = self._starts.take(self.np_random, len(rows))
        robots = start.layouts[:, 0]
        places = {name: start.layouts[:, span] for name, span in self._spans.items()}
        quats, taken = {}, 0
        for group in self.physics.groups:
            quats[group.kind.name] = start.quats[:, taken : taken + group.count]
            taken += group.count
        self.physics.place(rows, robots, start.attitudes, places, quats)
        self.steps[rows] = 0
        self.timer[rows] = 0
        self._centres[rows] = self.hazards[rows] = places["hazards"]
        if self.layout.orbit:
            self._phases[rows], self._senses[rows] = start.phases, start.senses
            self.hazards[rows] = self._hazards_at(0, rows)
        if self.layout.buttons:
            self._light(rows, start.buttons.astype(np.int64))
        elif self.layout.has_goal:
            self.goal[rows] = places["goal"][:, 0]
        self.last_distance[rows] = self._remaining(rows)
        self._needs_reset[rows] = False
        self._observations[rows] = self.observe(rows)
        if self.render_mode:
            self._trail[rows, 0] = robots

    def _remaining(self, rows: Rows | slice) -> Array:
        """Remaining distances in `rows`, (m,)."""
        box = self.physics.places["push_box"][rows, 0] if self.layout.box else None
        return rewards.remaining(self.layout.pays, self.physics.position[rows], self.goal[rows], box)

    def _goals_met(self, left: Array) -> Flags:
        """Which goals are met now, (n,)."""
        if self.layout.buttons:
            return self.physics.contacts["buttons"][np.arange(self.num_envs), self.goal_button] > 0
        if self.layout.box:
            return rewards.box_to_goal(self.physics.places["push_box"][:, 0], self.goal) <= GOAL_RADIUS
        return left <= GOAL_RADIUS if self.layout.has_goal else np.zeros(self.num_envs, dtype=np.bool_)

    def _renew_goals(self, rows: Rows) -> Flags:
        """Give the goals of `rows` new free places; returns whether there was one (m,)."""
        found = np.ones(len(rows), dtype=np.bool_)
        if self.layout.buttons:
            self._light(rows, self.np_random.integers(self.layout.buttons, size=len(rows)))
            self.timer[rows] = PAUSE
        else:
            things, goal = self.layout.things(self.physics.robot), self._spans["goal"].start
            bodies = [places[rows, :, :2] for places in self.physics.places.values()]
            standing = [self.physics.position[rows, None, :2], self.goal[rows, None], self.hazards[rows], *bodies]
            goals, found = placement.move(things, self.np_random, goal, np.concatenate(standing, axis=1))
            self.goal[rows[found]] = goals[found]
        self.last_distance[rows] = self._remaining(rows)
        return found

    def _light(self, rows: Rows, buttons: NDArray[np.int64]) -> None:
        """Set the buttons (m,) to press in `rows`."""
        self.goal_button[rows] = buttons
        self.goal[rows] = self.physics.places["buttons"][rows, buttons, :2]

    def _hazards_at(self, later: int, rows: Rows | slice) -> Array:
        """Positions (m, k, 2) of the orbiting hazards of `rows`, `later` steps from now."""
        assert self.layout.orbit is not None
        offsets = self.layout.orbit.offsets(self.steps[rows] + later, self._phases[rows], self._senses[rows])
        return self._centres[rows] + offsets

    def _violations(self) -> dict[str, Flags]:
        """Which costs occur now, (n,) for each part."""
        return costs.violations(self.layout, self.physics, self.hazards, self.goal_button, self.timer > 0)

    def _info(self, goal_met: Flags, violations: dict[str, Flags]) -> Info:
        info: Info = {key: found.astype(np.float64) for key, found in violations.items()}
        info["cost"] = np.maximum.reduce([*info.values(), np.zeros(self.num_envs)])
        places = self._places()
        if self.cost_kind == "margin":
            info["cost"] = 0.5 - 0.5 * np.tanh(places["margin"] / (2 * SOFTNESS))
        return info | {"goal_met": goal_met, "position": self.physics.position[:, :2].copy(), **places}

    def _places(self) -> dict[str, Array]:
        """Poses (n, 3) of the robots, places (n, k, 2) of hazards and obstacles, and margins (n,), as in the info."""
        rotation = self.physics.rotation
        heading = np.arctan2(rotation[:, 1, 0], rotation[:, 0, 0])
        found = {"pose": np.column_stack([self.physics.position[:, :2], heading])}
        if self.layout.hazards:
            found["hazards"] = self.hazards.copy()
        if solids := self.layout.solids(self.physics.robot):
            bodies = [self.physics.places[group.kind.name][..., :2] for group in solids]
            found["obstacles"] = np.concatenate([self.hazards, *bodies], axis=1)
        if self.layout.has_margin:
            found["margin"] = self.margins()
        return found
