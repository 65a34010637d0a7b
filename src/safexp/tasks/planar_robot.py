"""Planar robot, a small task without a physics engine: a goal behind smooth obstacles.

A damped double integrator, position p and velocity v, with time step dt:

    v' = 0.6·v + 0.4·a,   p' = p + 0.1·v',   a ∈ [−1, 1]²,

so the robot moves at most 0.1 in a step, and stops within about 0.1 when it brakes. It starts near (−1, 0) and must
reach the disc of radius 0.2 around (1, 0). The cost of (s, a) is the height at p' of two hills exp(−‖p' − c‖²/2ℓ²)
with centres c: the straight path leads over one of them, and there is a gap between them. The reward is the progress
towards the edge of the goal, plus 1 on reaching it; so a policy that reaches it from p collects exactly
‖p − goal‖ − 0.2 + 1 on any path, and none can collect more.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.shield.logs import Log
from safexp.tasks.knowledge import Knowledge
from safexp.tasks.scene import Floor, Scene

GOAL = np.array([1.0, 0.0])
GOAL_RADIUS = 0.2
HILLS = np.array([[0.0, -0.3], [0.0, 1.4]])
HILL_WIDTH = 0.3
GAP = float(HILLS[:, 1].mean())
HILL_RADIUS = HILL_WIDTH * np.sqrt(2 * np.log(2))
WALL = 1.5
HORIZON = 80
START = np.array([[-1.2, -0.6], [-0.8, 0.6]])
COMPASS = np.array([[0.0, 0.0], *([np.cos(angle), np.sin(angle)] for angle in np.arange(8) * np.pi / 4)])
"""The accelerations of the discrete twin: none, and the eight directions."""

LOGGED = 60
"""Number of robots that the cautious controller drives in parallel for the seed log."""

SCALES = [HILL_WIDTH] * 2 + [HILL_WIDTH / 0.06] * 2 + [HILL_WIDTH / 0.04] * 2
"""Lengthscales of position, velocity and acceleration: each moves p' by the width of a hill."""

DISCRETE_SCALES = [*SCALES[:4], *[5.0] * len(COMPASS)]

FLOOR = Floor(
    extent=WALL,
    goal=(float(GOAL[0]), float(GOAL[1])),
    goal_radius=GOAL_RADIUS,
    hazards=tuple((x, y) for x, y in HILLS.tolist()),
    hazard_radius=float(HILL_RADIUS),
)
"""The map, on which a hill is where its height is ½ or more."""

OBSERVATION_SPACE = spaces.Box(-WALL, WALL, (4,), np.float64)


def advance(states: Array, accelerations: Array) -> Array:
    """The states (n, 4), position and velocity, after one step; walls stop the robot."""
    velocity = 0.6 * states[:, 2:] + 0.4 * np.clip(accelerations, -1.0, 1.0)
    position = states[:, :2] + 0.1 * velocity
    inside = np.clip(position, -WALL, WALL)
    return np.concatenate([inside, np.where(inside == position, velocity, 0.0)], axis=1)


def hill_height(positions: Array) -> Array:
    """The cost (n,) of being at these positions (n, 2)."""
    squared = np.sum((positions[:, None] - HILLS) ** 2, axis=2)
    return np.minimum(np.exp(-squared / (2 * HILL_WIDTH**2)).sum(axis=1), 1.0)


def margin(positions: Array) -> Array:
    """Signed distance (n,) to the edge of the nearest hill, where its height is ½."""
    return np.linalg.norm(positions[:, None] - HILLS, axis=2).min(axis=1) - HILL_RADIUS


def distance_to_goal(positions: Array) -> Array:
    """Distance (n,) to the edge of the goal."""
    return np.maximum(np.linalg.norm(positions - GOAL, axis=1) - GOAL_RADIUS, 0.0)


def cost_of(states: Array, actions: Array) -> Array:
    """The cost (n,) of actions (n, 2), or one-hot (n, 9) of the discrete twin, in states (n, 4), for `Known`."""
    return hill_height(_next_positions(states, actions))


def margin_of(states: Array, actions: Array) -> Array:
    """The margin (n,) of actions in states, likewise."""
    return margin(_next_positions(states, actions))


def optimal_return(states: Array) -> Array:
    """The largest return (n,) of an episode from these states."""
    return distance_to_goal(states[:, :2]) + 1.0


def detour(states: Array, speed: float = 0.5) -> Array:
    """Accelerations (n, 2) of the cautious controller: through the gap between the hills, then to the goal."""
    position, velocity = states[:, :2], states[:, 2:]
    low = position[:, 1] < GAP - 0.1
    waypoint = np.stack([np.where(low, -0.7, 0.5), np.full(len(states), GAP)], axis=1)
    target = np.where((position[:, 0] < 0.4)[:, None], waypoint, GOAL)
    ahead = target - position
    wanted = speed * ahead / np.maximum(np.linalg.norm(ahead, axis=1, keepdims=True), 0.1)
    return np.clip((wanted - 0.6 * velocity) / 0.4, -1.0, 1.0)


def compass_detour(states: Array) -> NDArray[np.int64]:
    """`detour` for the discrete twin: the nearest of its accelerations (n,)."""
    return np.linalg.norm(detour(states)[:, None] - COMPASS, axis=2).argmin(axis=1)


def cautious_log(episodes: int, rng: np.random.Generator, noise: float = 0.3, discrete: bool = False) -> Log:
    """Log of the cautious controller with some noise, for a quantifier to start from."""
    env = PlanarRobotVector(num_envs=episodes, discrete=discrete)
    states, _ = env.reset(seed=int(rng.integers(2**31)))
    rows, numbers = [], np.arange(episodes)
    for _ in range(HORIZON):
        actions = np.clip(detour(states) + noise * rng.standard_normal((episodes, 2)), -1.0, 1.0).astype(np.float32)
        if discrete:
            actions = np.linalg.norm(actions[:, None] - COMPASS, axis=2).argmin(axis=1)
        encoded = np.eye(len(COMPASS))[actions] if discrete else actions.astype(np.float64)
        rows.append((states, actions, cost_of(states, encoded), margin_of(states, encoded), numbers.copy()))
        states, _, reached, _, _ = env.step(actions)
        numbers[reached] = numbers.max() + 1 + np.arange(np.count_nonzero(reached))
    states, actions, costs, margins, numbers = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    order = np.argsort(numbers, kind="stable")  # so that the steps of an episode are consecutive
    return Log(states[order], actions[order], costs[order], margins=margins[order], episodes=numbers[order])


def _next_positions(states: Array, actions: Array) -> Array:
    accelerations = actions if actions.shape[1] == 2 else actions @ COMPASS
    return advance(states, accelerations)[:, :2]


def transition(states: Array, accelerations: Array) -> tuple[Array, Array, NDArray[np.bool_], dict[str, Any]]:
    """Next states (n, 4), rewards, whether the goal is reached, and infos (n,) of one step."""
    following = advance(states, accelerations)
    positions = following[:, :2]
    before, after = distance_to_goal(states[:, :2]), distance_to_goal(positions)
    reached = after == 0.0
    infos = {"cost": hill_height(positions), "margin": margin(positions), "position": positions.copy()}
    return following, before - after + reached, reached, infos


def scene(state: Array) -> Scene:
    """The scene of a state (4,) from above."""
    position = state[:2].copy()
    return Scene(FLOOR, position, float(np.arctan2(state[3], state[2])), trail=position[None])


def first_states(count: int, rng: np.random.Generator) -> Array:
    """Initial states (n, 4): on the left, at rest."""
    low, high = START
    return np.concatenate([rng.uniform(low, high, (count, 2)), np.zeros((count, 2))], axis=1)


def action_space(discrete: bool) -> spaces.Space[Any]:
    """The robot's action space."""
    return spaces.Discrete(len(COMPASS)) if discrete else spaces.Box(-1.0, 1.0, (2,), np.float32)


class PlanarRobot(gym.Env[Array, Any]):
    """A robot in the plane reaches a goal behind two hills, whose height is the cost."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own way)

    def __init__(self, discrete: bool = False) -> None:
        self.discrete = discrete
        self.observation_space = OBSERVATION_SPACE
        self.action_space = action_space(discrete)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self._state = first_states(1, self.np_random)
        self._steps = 0
        return self._state[0], {"margin": float(margin(self._state[:, :2])[0])}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        acceleration = COMPASS[action] if self.discrete else np.asarray(action, dtype=np.float64)
        self._state, reward, reached, infos = transition(self._state, acceleration[None])
        self._steps += 1
        late = not reached[0] and self._steps >= HORIZON
        return self._state[0], float(reward[0]), bool(reached[0]), late, {key: part[0] for key, part in infos.items()}

    def scene(self) -> Scene:
        """The present scene from above."""
        return scene(self._state[0])


class PlanarRobotVector(VectorEnv[Array, NDArray[Any], Array]):
    """The task for n robots, with same-step resets."""

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}  # noqa: RUF012

    def __init__(self, num_envs: int = 1, discrete: bool = False, max_episode_steps: int = HORIZON) -> None:
        self.num_envs = num_envs
        self._horizon = max_episode_steps
        self.discrete = discrete
        self.knowledge = Knowledge(
            cost_of,
            margin_of,
            log=partial(cautious_log, LOGGED, discrete=discrete),
            controller=compass_detour if discrete else detour,
            exact_gp={"lengthscale": DISCRETE_SCALES if discrete else SCALES, "norm_bound": 2.0, "capacity": 400},
        )
        self.single_observation_space = OBSERVATION_SPACE
        self.single_action_space = action_space(discrete)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._states = np.zeros((num_envs, 4))
        self._steps = np.zeros(num_envs, dtype=np.int64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self._restart((options or {}).get("reset_mask", np.ones(self.num_envs, dtype=bool)))
        return self._states.copy(), {"margin": margin(self._states[:, :2])}

    def step(self, actions: NDArray[Any]) -> tuple[Array, Array, Any, Any, dict[str, Any]]:
        _, rewards, reached, late, infos = self.step_some(np.ones(self.num_envs, dtype=bool), actions)
        ended = reached | late
        if ended.any():
            infos |= {"final_obs": self._states.copy(), "_final_obs": ended, "final_info": dict(infos)}
            self._restart(ended)
            infos["margin"] = np.where(ended, margin(self._states[:, :2]), infos["margin"])  # of the first states
        return self._states.copy(), rewards, reached, late, infos

    def step_some(self, environments: NDArray[np.bool_], actions: NDArray[Any]) -> tuple[Array, Array, Any, Any, Any]:
        """Step only these environments (n,), without resets; the results of the others are meaningless."""
        accelerations = COMPASS[actions] if self.discrete else np.asarray(actions, dtype=np.float64)
        if accelerations.shape != (self.num_envs, 2) or not np.all(np.isfinite(accelerations)):
            raise ValueError(f"actions {actions!r} must be {self.num_envs} finite rows of {self.single_action_space}.")
        following, rewards, reached, infos = transition(self._states, accelerations)
        self._states = np.where(environments[:, None], following, self._states)
        self._steps += environments
        late = ~reached & (self._steps >= self._horizon)
        return self._states.copy(), rewards, reached, late, infos

    def scene(self, index: int) -> Scene:
        """The present scene of environment `index` from above."""
        return scene(self._states[index])

    def _restart(self, rows: NDArray[np.bool_]) -> None:
        self._states[rows] = first_states(int(rows.sum()), self.np_random)
        self._steps[rows] = 0
