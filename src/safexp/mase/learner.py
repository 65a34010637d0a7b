"""Construction of Stable-Baselines3 learners on guarded environments, and their names."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, TypeGuard

import numpy as np
import sb3_contrib
import stable_baselines3
import torch as th
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecTransposeImage
from torch import nn

from safexp.core.arrays import Observations
from safexp.core.encoding import is_image
from safexp.core.files import Arrays, CheckpointError
from safexp.envs.guard import Guard
from safexp.envs.vector import episode_steps
from safexp.learners.cpo import CPO
from safexp.learners.lagrangian import TRPOLagrangian
from safexp.learners.trpo import TRPO
from safexp.mase.defaults import default_options
from safexp.mase.replay import RewritingDictReplayBuffer, RewritingReplayBuffer

POLICY_OPTIONS = ("policy", "policy_kwargs", "use_sde")
"""Learner options that determine the policy."""

NOT_KEPT = ("env", "seed", "verbose", "tensorboard_log", "device")
"""Learner options that belong to a machine or a call, and are not saved."""

SIZES, LARGEST_SIZE = ("n_steps", "batch_size", "buffer_size"), 10**8
"""Options that determine the memory of a learner, and the largest that a file may ask for."""


def make_learner(
    learner: type[BaseAlgorithm], guard: Guard, options: dict[str, Any], seed: int | None
) -> BaseAlgorithm:
    """Learner on these environments; off-policy ones get a replay buffer that rewrites penalties."""
    settings = learner_settings(learner, guard, options, seed)
    if issubclass(learner, OffPolicyAlgorithm):
        if settings.get("n_steps", 1) != 1:
            raise ValueError(
                f"learner_options['n_steps']={settings['n_steps']}: n-step returns mix rewards, so their penalties "
                "cannot be rewritten; use n_steps=1."
            )
        for name in ("replay_buffer_class", "replay_buffer_kwargs", "optimize_memory_usage"):
            if settings.get(name):
                raise ValueError(
                    f"learner_options[{name!r}]={settings[name]!r}: MASE uses its own buffer, which rewrites "
                    "penalties and keeps the next observations for it; leave this option out."
                )
        settings |= {
            "replay_buffer_class": RewritingDictReplayBuffer
            if isinstance(guard.observation_space, spaces.Dict)
            else RewritingReplayBuffer,
            "replay_buffer_kwargs": {"guard": guard},
        }
    return learner(env=guard, **settings)


def learner_settings(
    learner: type[BaseAlgorithm], envs: VecEnv, options: dict[str, Any], seed: int | None
) -> dict[str, Any]:
    """Arguments of a learner's constructor, except for its environments.

    `action_noise` may be a number, the standard deviation of Gaussian noise on actions scaled to [−1, 1].
    """
    if not is_algorithm(learner):
        raise TypeError(f"learner={learner!r} is not an algorithm class of Stable-Baselines3, such as PPO or SAC.")
    # Some learners modify the options that they are given, which may be the user's.
    settings = {"policy": default_policy(envs.observation_space), "seed": seed} | copy.deepcopy(options)
    noise = settings.get("action_noise")
    if isinstance(noise, int | float):
        size = int(np.prod(envs.action_space.shape or ()))
        settings["action_noise"] = NormalActionNoise(np.zeros(size), np.full(size, noise)) if noise else None
    return settings


def default_policy(space: spaces.Space[Any]) -> str:
    """Name of the policy that takes observations of a space."""
    if isinstance(space, spaces.Dict):
        return "MultiInputPolicy"
    return "CnnPolicy" if is_image(space) else "MlpPolicy"


def as_learned(learner: BaseAlgorithm, observations: Observations) -> Any:
    """Observations of an environment as its learner stores them: with the channels of images first."""
    env = learner.env
    return env.transpose_observations(observations) if isinstance(env, VecTransposeImage) else observations


def complete_options(learner: type[BaseAlgorithm], envs: VecEnv, options: dict[str, Any] | None) -> dict[str, Any]:
    """Options of a learner on these environments: those given, and our defaults for the rest."""
    given = dict(options or {})
    if not is_algorithm(learner):
        return given  # `learner_settings` raises
    return {**default_options(name_of(learner), envs.num_envs, episode_steps(envs), given.get("n_steps")), **given}


def find_learner(name: str) -> type[BaseAlgorithm]:
    """Algorithm class by name: one of safexp, Stable-Baselines3 or sb3-contrib.

    Those of safexp come first: "TRPO" is safexp's, and "sb3_contrib.TRPO" the other one.
    """
    known = _learners()
    if name not in known:
        choice = ", ".join(sorted(short for short in known if "." not in short))
        raise ValueError(f"unknown learner {name!r}: use one of {choice}, or your own as package:Name.")
    return known[name]


def name_of(learner: type[BaseAlgorithm]) -> str:
    """Name by which `find_learner` finds this class, if there is one."""
    short = learner.__name__
    return short if _learners().get(short) is learner else f"{learner.__module__.partition('.')[0]}.{short}"


def _learners() -> dict[str, type[BaseAlgorithm]]:
    theirs = [found for package in (sb3_contrib, stable_baselines3) for found in vars(package).values()]
    found = [*filter(is_algorithm, theirs), CPO, TRPO, TRPOLagrangian]
    whole = {f"{one.__module__.partition('.')[0]}.{one.__name__}": one for one in found}
    return whole | {one.__name__: one for one in found}


def is_algorithm(found: Any) -> TypeGuard[type[BaseAlgorithm]]:
    """Whether this is a Stable-Baselines3 algorithm class."""
    return isinstance(found, type) and issubclass(found, BaseAlgorithm)


def load_weights(learner: BaseAlgorithm, arrays: Arrays) -> None:
    """Load a policy's arrays into a learner of the same kind."""
    try:
        learner.policy.load_state_dict({name: th.as_tensor(part) for name, part in arrays.items()})
    except RuntimeError as error:
        raise CheckpointError(f"the file's policy does not fit this {type(learner).__name__}: {error}") from error


def describe_policy(options: dict[str, Any]) -> dict[str, Any]:
    """Learner options that are needed to rebuild its policy, as JSON."""
    wanted = {name: options[name] for name in POLICY_OPTIONS if name in options}
    return {name: _describe(value, name) for name, value in wanted.items()}


def check_policy(document: Any, arrays: Arrays) -> dict[str, Any]:
    """Description of a policy in a file; raises if its sizes exceed the number of weights in the file.

    A layer has at least as many weights as its width.
    """
    if unknown := document.keys() - set(POLICY_OPTIONS):
        raise CheckpointError(f"the file sets {', '.join(sorted(unknown))}; expected {', '.join(POLICY_OPTIONS)}.")
    most = sum(part.size for part in arrays.values())
    if largest := [number for number in _numbers(document) if abs(number) > most]:
        raise CheckpointError(f"the file describes a policy with {largest[0]}, but holds only {most} numbers.")
    return dict(document)


def describe_training(options: dict[str, Any]) -> dict[str, Any]:
    """Learner options that training goes on with: numbers, flags and texts, as JSON. Others must be passed again."""
    plain = (bool, int, float, str)
    kept = {name: value for name, value in options.items() if name not in (*POLICY_OPTIONS, *NOT_KEPT)}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in kept.items()
        if isinstance(value, plain) or (isinstance(value, tuple) and all(isinstance(part, plain) for part in value))
    }


def build_training(document: Any, as_many: bool = True) -> dict[str, Any]:
    """Options from the output of `describe_training`; raises if they would need too much memory.

    Unless there are `as_many` environments as then, the sizes of rollouts and batches are left to our defaults.
    """
    options: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in dict(document).items()
    }
    if forbidden := sorted(options.keys() & {*POLICY_OPTIONS, *NOT_KEPT}):
        raise CheckpointError(f"the file sets {', '.join(forbidden)}, which are not options of training.")
    for name in SIZES:
        if not 0 <= options.get(name, 0) <= LARGEST_SIZE:
            raise CheckpointError(f"the file sets {name}={options[name]}, expected at most {LARGEST_SIZE:,}.")
    return options if as_many else {name: value for name, value in options.items() if name not in SIZES[:2]}


def build_policy(document: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Options from the output of `describe_policy`, with those in `given` replaced."""
    return {name: _build(value) for name, value in document.items() if name not in given} | given


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield value
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in parts:
        yield from _numbers(part)


def _describe(value: Any, where: str) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {key: _describe(part, f"{where}[{key!r}]") for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_describe(part, f"{where}[{i}]") for i, part in enumerate(value)]
    if isinstance(value, type) and value in vars(nn).values():
        return {"torch.nn": value.__name__}
    return {"not saved": f"{where}={value!r}"}


def _build(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"not saved"}:
        raise CheckpointError(
            f"the file could not hold the learner's option {value['not saved']}: load it with learner_options={{...}}."
        )
    if isinstance(value, dict) and set(value) == {"torch.nn"}:
        found = getattr(nn, str(value["torch.nn"]), None)
        if not (isinstance(found, type) and issubclass(found, nn.Module)):
            raise CheckpointError(f"the file names the layer {value['torch.nn']!r}, which torch.nn does not have.")
        return found
    if isinstance(value, dict):
        return {key: _build(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_build(part) for part in value]
    return value
