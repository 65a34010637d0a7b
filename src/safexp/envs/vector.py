"""Conversion to a Stable-Baselines3 `VecEnv`: from Gymnasium's `Env` and `VectorEnv`, or a `VecEnv` itself."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    VecCheckNan,
    VecEnv,
    VecEnvWrapper,
    VecMonitor,
    VecNormalize,
    VecVideoRecorder,
)
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from safexp.core.arrays import Array, Flags, Observations, take
from safexp.core.signals import column_of, key_and_entry
from safexp.envs.infos import Infos
from safexp.envs.six_values import SixTuple
from safexp.envs.tuples import NamedParts, NamedPartsVector

log = logging.getLogger("safexp")

AnyWrapper = gym.Wrapper[Any, Any, Any, Any]


def as_vec_env(env: Any) -> VecEnv:
    """Give an environment, or several, SB3's interface with same-step resets.

    Args:
        env: a Gymnasium `Env` or `VectorEnv`, or an SB3 `VecEnv`, which is returned as it is.

    Example:
        >>> envs = safexp.as_vec_env(gym.make_vec("safexp/PlanarRobot-v0", num_envs=3))
        >>> envs.num_envs, envs.reset().shape
        (3, (3, 4))
    """
    if isinstance(env, VecEnv):
        return check_wrappers(env)
    if isinstance(env, VectorEnv):
        tuples = isinstance(env.single_observation_space, spaces.Tuple)
        return BatchedVecEnv(NamedPartsVector(env) if tuples else env)
    if isinstance(env, str):
        raise TypeError(f"got the name {env!r}, expected a live environment: gymnasium.make({env!r}).")
    if isinstance(env, type):
        raise TypeError(f"got the class {env.__name__}, expected an environment: {env.__name__}(...).")
    if not isinstance(env, gym.Env) and not hasattr(env, "step"):
        raise TypeError(f"got a {type(env).__name__}, expected a Gymnasium Env or VectorEnv, or an SB3 VecEnv.")
    adapted = SixTuple(env, cost_max=None)
    tuples = isinstance(env.observation_space, spaces.Tuple)
    return DummyVecEnv([lambda: NamedParts(adapted) if tuples else adapted])


def check_wrappers(env: VecEnv) -> VecEnv:
    """Return the environment; raise if a wrapper around it would hide what the shield must see."""
    layer: Any = env
    if isinstance(env.observation_space, spaces.Tuple):
        raise ValueError(
            "a VecEnv cannot have Tuple observations, which Stable-Baselines3 does not support: give the Gymnasium "
            "environments themselves, whose tuples become a Dict of their numbered parts."
        )
    while layer is not None:
        if isinstance(layer, VecNormalize) and layer.norm_reward:
            raise ValueError(
                "VecNormalize(norm_reward=True) would squash the penalty of an emergency stop: wrap the "
                "environment with norm_reward=False, or scale rewards in the environment."
            )
        if isinstance(layer, VecEnvWrapper) and not isinstance(layer, VecMonitor | VecCheckNan | VecVideoRecorder):
            raise ValueError(
                f"{type(layer).__name__} hides the raw observation from the shield: give the environment inside it, "
                "and change observations within the environments (gymnasium.wrappers) instead."
            )
        if isinstance(layer, VecMonitor):
            log.warning("VecMonitor misses the episodes that the shield stops: leave it out, `agent.episodes` has all")
        layer = getattr(layer, "venv", None)
    return env


def reset_some(venv: VecEnv, environments: NDArray[np.bool_], observations: Observations) -> Observations:
    """Reset only these environments; returns the batch of observations with their rows replaced."""
    indices = np.flatnonzero(environments).tolist()
    if isinstance(venv.unwrapped, BatchedVecEnv):
        fresh = venv.unwrapped.reset_some(environments)
        rows: Sequence[Any] = [take(fresh, i) for i in indices]
    else:
        found = venv.env_method("reset", indices=indices)
        rows = [observation for observation, _ in found]
        told = list(venv.unwrapped.reset_infos)  # a tuple in SubprocVecEnv
        for index, (_, info) in zip(indices, found, strict=True):
            told[index] = info
        venv.unwrapped.reset_infos = told
    return put(observations, indices, rows)


class SomeSteps(NamedTuple):
    """Step of m of the environments: next observations (m, ...), last ones where `dones` (m,), and infos."""

    observations: Observations
    dones: Flags
    infos: Infos


def step_some(
    venv: VecEnv, environments: NDArray[np.intp], actions: NDArray[Any], observations: Observations
) -> SomeSteps:
    """Step only these m environments, with actions (m, ...) in these observations (m, ...); none of them is reset."""
    if isinstance(venv.unwrapped, BatchedVecEnv):
        found = venv.unwrapped.step_some(environments, actions)
    else:
        pairs = zip(environments.tolist(), actions, strict=True)
        found = [venv.env_method("step", action, indices=[index])[0] for index, action in pairs]
    rows, _, terminated, truncated, infos = zip(*found, strict=True)
    dones = np.array(terminated, dtype=bool) | np.array(truncated, dtype=bool)
    return SomeSteps(put(observations, range(len(rows)), rows), dones, Infos.of(infos))


def first_told(venv: VecEnv, name: str) -> Array:
    """Signal in each environment's info at its latest reset, as an array (n,), NaN where it gave no number."""
    inner, (key, entry) = venv.unwrapped, key_and_entry(name)
    if isinstance(inner, BatchedVecEnv):
        return column_of(inner.first[key], name) if key in inner.first else np.full(venv.num_envs, np.nan)
    if entry is None:
        return Infos.of(inner.reset_infos).readable(key)
    return np.array([np.ravel(info[key])[entry] if key in info else np.nan for info in inner.reset_infos])


def episode_steps(venv: VecEnv) -> int | None:
    """Largest number of steps of an episode, if the environments' specification tells it."""
    inner = venv.unwrapped
    spec = inner.envs.spec if isinstance(inner, BatchedVecEnv) else inner.get_attr("spec", indices=[0])[0]
    return None if spec is None else spec.max_episode_steps


def put(observations: Observations, indices: Sequence[int], rows: Sequence[Any]) -> Observations:
    """Copy of the batch with these rows replaced."""
    if isinstance(observations, dict):
        return {key: put(part, indices, [row[key] for row in rows]) for key, part in observations.items()}
    batch = observations.copy()
    for index, row in zip(indices, rows, strict=True):
        batch[index] = row
    return batch


class BatchedVecEnv(VecEnv):
    """Gymnasium `VectorEnv` as a `VecEnv`, with the infos of the last step as arrays in `columns`.

    The returned observations are copies, which the environments do not write to.
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        self.envs = envs
        self.columns: dict[str, NDArray[Any]] = {}
        self.first: dict[str, Array] = {}
        """Info entries of first states by name, NaN where they are missing."""
        self._same_step = envs.metadata.get("autoreset_mode") == AutoresetMode.SAME_STEP
        self._actions: NDArray[Any] = np.empty(0)
        self._observations: Observations = None
        _keep_infos_exact(envs)
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self) -> VecEnvObs:
        options = self._options[0] or None
        observations, infos = self.envs.reset(seed=self._seeds[0], options=options)
        self._note_first(infos, np.ones(self.num_envs, dtype=bool))
        self._reset_seeds()
        self._reset_options()
        self._observations = copied(observations)
        return cast(VecEnvObs, self._observations)

    def reset_some(self, environments: NDArray[np.bool_]) -> Observations:
        """Reset only these environments; returns all observations."""
        observations, infos = self.envs.reset(options={"reset_mask": environments})
        self._note_first(infos, environments)
        if not _equal(take(observations, ~environments), take(self._observations, ~environments)):
            raise RuntimeError(
                f"{type(self.envs).__name__} ignores options['reset_mask'] and resets others too, so episodes "
                "cannot be stopped one by one: make it with vectorization_mode='sync'."
            )
        self._observations = copied(observations)
        return self._observations

    @property
    def steps_some(self) -> bool:
        """Whether single environments can be stepped."""
        plain = self.envs is self.envs.unwrapped  # a vector wrapper may change observations, costs or actions
        return plain and (isinstance(self.envs, SyncVectorEnv) or hasattr(self.envs, "step_some"))

    def step_some(self, environments: NDArray[np.intp], actions: NDArray[Any]) -> list[tuple[Any, ...]]:
        """Results of `step` of these m environments, which are not reset at their ends, for actions (m, ...)."""
        if isinstance(self.envs, SyncVectorEnv):
            pairs = zip(environments.tolist(), actions, strict=True)
            return [self.envs.envs[index].step(action) for index, action in pairs]
        mask = np.zeros(self.num_envs, dtype=bool)
        mask[environments] = True
        given = np.zeros((self.num_envs, *actions.shape[1:]), actions.dtype)
        given[environments] = actions
        *results, infos = cast(Any, self.envs).step_some(mask, given)
        columns = {key: part for key, part in infos.items() if isinstance(part, np.ndarray) and key[0] != "_"}
        return [
            (*(take(part, i) for part in results), {key: part[i] for key, part in columns.items()})
            for i in environments.tolist()
        ]

    def step_async(self, actions: NDArray[Any]) -> None:
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        observations, rewards, terminated, truncated, batch = self.envs.step(self._actions)
        dones = terminated | truncated
        self._observations = last = copied(observations)
        self.columns = _columns(batch, batch.get("final_info", {}) if self._same_step else {}, dones)
        infos = Infos(self.columns, [None] * self.num_envs)
        finished: list[int] = np.flatnonzero(dones).tolist()
        if finished and self._same_step:
            self._note_first(batch, dones)
        elif finished:
            self.reset_some(dones)
        for i in finished:
            infos[i]["TimeLimit.truncated"] = not terminated[i]
            infos[i]["terminal_observation"] = batch["final_obs"][i] if self._same_step else copied(take(last, i))
        return self._observations, np.asarray(rewards), dones, infos  # type: ignore[return-value]

    def _note_first(self, infos: dict[str, Any], rows: NDArray[np.bool_]) -> None:
        """Keep the numbers in the infos of these environments' first states."""
        for key, values in infos.items():
            if key.startswith("_") or not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
                continue
            if values.ndim and len(values) == self.num_envs:
                ones = (-1, *[1] * (values.ndim - 1))
                told = np.where(np.reshape(infos.get(f"_{key}", True), ones), values, np.nan)
                self.first[key] = np.where(rows.reshape(ones), told, self.first.get(key, np.nan))

    def close(self) -> None:
        self.envs.close()

    def get_images(self) -> Sequence[NDArray[Any] | None]:
        return cast("Sequence[NDArray[Any] | None]", self.envs.render())

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        return [getattr(self.envs, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        setattr(self.envs, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: VecEnvIndices = None, **named: Any) -> list[Any]:
        return list(getattr(self.envs, method_name)(*args, **named))

    def env_is_wrapped(self, wrapper_class: type[AnyWrapper], indices: VecEnvIndices = None) -> list[bool]:
        return [False for _ in self._get_indices(indices)]


def _columns(batch: dict[str, Any], final: dict[str, Any], dones: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
    """Info entries that every environment gave for its step; those of a finished one are in its final info."""
    columns = {}
    for key, values in (batch | final).items():
        if key.startswith("_") or key == "final_obs" or not isinstance(values, np.ndarray):
            continue
        given = batch.get(f"_{key}", key in batch)
        if final:
            given = np.where(dones, final.get(f"_{key}", key in final), given)
        if np.all(given):
            both = key in batch and key in final
            mask = dones.reshape(-1, *[1] * (values.ndim - 1))
            columns[key] = np.where(mask, values, batch[key]) if both else values.copy()
    return columns


def _keep_infos_exact(envs: VectorEnv[Any, Any, Any]) -> None:
    """Make Gymnasium gather numbers as floats: it takes the type of the first, and an int 0 would turn a 0.9 into 0."""
    inner = envs.unwrapped  # the object that gathers infos, whatever wraps it
    gather = inner._add_info

    def in_floats(gathered: dict[str, Any], info: dict[str, Any], index: int) -> dict[str, Any]:
        return gather(gathered, {key: _as_float(value) for key, value in info.items()}, index)

    setattr(inner, "_add_info", in_floats)  # noqa: B010 (on this instance alone)


def _as_float(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.astype(np.float64) if value.dtype.kind in "biu" else value
    return float(value) if isinstance(value, int | np.integer | np.bool_) else value


def _equal(some: Observations, others: Observations) -> bool:
    if isinstance(some, dict):
        return all(_equal(part, others[key]) for key, part in some.items())
    return np.array_equal(some, others, equal_nan=np.issubdtype(np.asarray(some).dtype, np.inexact))


def owned(venv: VecEnv, observations: Observations) -> Observations:
    """Observations that the environments will not write to, copied if necessary."""
    return observations if isinstance(venv, BatchedVecEnv) else copied(observations)


def copied(observation: Any) -> Any:
    """Copies of the observations."""
    if isinstance(observation, dict):
        return {key: np.copy(part) for key, part in observation.items()}
    return np.copy(observation)
