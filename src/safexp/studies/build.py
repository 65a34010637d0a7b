"""From a description to a live agent on its environments; everything that can be wrong with it shows here."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import ArrayLike
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.type_aliases import MaybeCallback
from stable_baselines3.common.vec_env import VecEnv

from safexp.baseline import Baseline
from safexp.constraints import Budget, Constraint, Instantaneous, Margin, Schedule
from safexp.learned_reset import LearnedReset
from safexp.learners import build_policy, find_learner
from safexp.mase import MASE
from safexp.penalty import Penalty
from safexp.quantifiers import (
    Calibrated,
    DeepGP,
    ExactGP,
    FeatureRegression,
    FromMargin,
    Known,
    Projected,
    Quantifier,
    SparseGP,
    Unknown,
)
from safexp.shield import Log
from safexp.signals import Array
from safexp.stops import Fallback, Reset, Stop
from safexp.studies.config import RunConfig
from safexp.tasks.knowledge import Knowledge, knowledge_of
from safexp.vector import as_vec_env
from safexp.wrappers.early_termination import EarlyTermination
from safexp.wrappers.guard import Guard
from safexp.wrappers.recorded import Recorded, Recording
from safexp.wrappers.saute import Saute

LEARNED = MappingProxyType({"sparse-gp": SparseGP, "deep-gp": DeepGP, "features": FeatureRegression})
"""The learned quantifiers that need no knowledge of the task."""


class Agent(Protocol):
    """What a run needs of what it trains."""

    learner: BaseAlgorithm
    epochs: int

    @property
    def envs(self) -> Guard | Recording:
        """The environments, which keep the records."""

    def learn(self, total_timesteps: int, callback: MaybeCallback = None) -> object:
        """Train for this many further steps."""

    def save(self, path: Path) -> None:
        """Write what was trained to one file."""


def build(config: RunConfig) -> Agent:
    """The agent of a settled description: MASE, or a learner without a shield whose records are the same."""
    learner = find_learner(config.learner)
    options = check_options(learner, config.learner_options)
    envs = make_envs(config.task, config.num_envs, config.task_options)
    constraint = make_constraint(config)
    try:
        if config.method != "mase":
            recorded, options = make_recorded(config, as_vec_env(envs), constraint, options)
            return Baseline(recorded, learner, options, config.seed)
        knowledge = knowledge_of(envs)
        return MASE(
            envs,
            constraint,
            wrapped(config, make_quantifier(config, constraint, knowledge), knowledge),
            learner,
            options,
            Penalty(config.penalty, config.largest_penalty),
            make_seed_data(config, knowledge),
            seed=config.seed,
            stop=make_stop(config, knowledge),
            **config.method_options,
        )
    except (AssertionError, TypeError) as error:  # how Stable-Baselines3 refuses spaces and options
        raise ValueError(f"{config.learner} cannot be put on {config.task} with these options: {error}") from error


def make_recorded(
    config: RunConfig, venv: VecEnv, constraint: Constraint, options: dict[str, Any]
) -> tuple[Recording, dict[str, Any]]:
    """The environments of a method without a shield, and its learner's options, with the budget where it takes one."""
    if config.method == "saute":
        assert isinstance(constraint, Budget), "checked with the description"
        return Saute(venv, constraint, **config.method_options), options
    if config.method == "early-termination":
        return EarlyTermination(venv, constraint, **config.method_options), options
    if config.method in ("trpo-lagrangian", "cpo"):
        options = {"cost_limit": config.limit, **options}
    return Recorded(venv, constraint), options


def make_envs(task: str, num_envs: int, options: Mapping[str, Any] = MappingProxyType({})) -> VectorEnv[Any, Any, Any]:
    """Copies of a task side by side."""
    try:
        return gym.make_vec(task, num_envs=num_envs, **options)
    except TypeError as error:
        raise ValueError(f"task {task!r} does not take task_options={dict(options)}: {error}") from error
    except gym.error.UnregisteredEnv as error:
        close = difflib.get_close_matches(task, gym.registry, n=3)
        hint = f" Close names: {', '.join(close)}." if close else ""
        raise ValueError(f"unknown task {task!r}: {error}{hint} `safexp tasks` lists ours.") from error
    except (gym.error.Error, ModuleNotFoundError) as error:
        raise ValueError(f"cannot make task {task!r}: {error}") from error


def make_constraint(config: RunConfig) -> Constraint:
    """The constraint that a description names."""
    if config.constraint == "margin":
        return Margin(config.cost_max)
    if config.constraint == "schedule":
        steps, limits = zip(*config.phases.items(), strict=True)
        each = np.repeat(limits, np.diff([*steps, steps[-1] + 1]))
        return Schedule(each, cost_max=config.cost_max)
    assert config.limit is not None, "settled configurations have a limit"
    if config.constraint == "instantaneous":
        return Instantaneous(config.limit, cost_max=config.cost_max)
    return Budget(config.limit, config.discount, cost_max=config.cost_max)


def make_quantifier(config: RunConfig, constraint: Constraint, knowledge: Knowledge) -> Quantifier:
    """The quantifier that a description names, with what the task can tell."""
    if config.quantifier == "exact-gp":
        return ExactGP(**check_settings(ExactGP, {**knowledge.exact_gp, **config.quantifier_options}))
    if config.quantifier in LEARNED:
        return make_learned(config)
    if config.quantifier_options:
        raise ValueError(f"quantifier_options={config.quantifier_options!r}: {config.quantifier!r} takes none.")
    if config.quantifier == "unknown":
        return Unknown()
    wanted = "margin" if config.constraint == "margin" else "cost"
    signal = knowledge.margin if config.constraint == "margin" else knowledge.cost
    if signal is None:
        raise ValueError(
            f"quantifier='known': task {config.task!r} does not tell its {wanted} beforehand. Give its environment an "
            f"attribute knowledge=safexp.tasks.knowledge.Knowledge({wanted}=<function of states and actions>), or use "
            "another quantifier."
        )

    def cost(states: Array, actions: Array) -> ArrayLike:
        return constraint.normalise(np.asarray(signal(states, actions), dtype=np.float64))

    return Known(cost)


def wrapped(config: RunConfig, quantifier: Quantifier, knowledge: Knowledge) -> Quantifier:
    """The quantifier, calibrated if the description says so; a learned one with what the task knows of the cost."""
    if config.calibrate:
        quantifier = Calibrated(quantifier, **check_settings(Calibrated, dict(config.calibration_options)))
    elif config.calibration_options:
        raise ValueError(f"calibration_options={dict(config.calibration_options)} need --calibrate.")
    if config.quantifier not in LEARNED:
        return quantifier
    of_cost = config.constraint != "margin" and config.quantifier_options.get("target", "cost") == "cost"
    if knowledge.softness is not None and of_cost:
        quantifier = FromMargin(quantifier, knowledge.softness)
    return quantifier if knowledge.projection is None else Projected(quantifier, knowledge.projection)


def make_learned(config: RunConfig) -> Quantifier:
    """A quantifier that learns, with the run's seed if it is given none."""
    kind = LEARNED[config.quantifier]
    settings = {"seed": config.seed, **config.quantifier_options}
    if config.constraint == "margin" and settings.get("target") == "margin":
        raise ValueError(
            "quantifier_options={'target': 'margin'}: under --constraint margin the cost is the margin already; leave "
            "the target out."
        )
    return kind(**check_settings(kind, settings))


def make_stop(config: RunConfig, knowledge: Knowledge) -> Stop:
    """What a description says to do before the budget runs out, with the task's own controller if it takes one."""
    options = dict(config.stop_options)
    if config.stop == "reset":
        return Reset(**check_settings(Reset, options))
    if config.stop == "learned-reset":
        return LearnedReset(**{"seed": config.seed, **check_settings(LearnedReset, options)})
    if knowledge.fallback is None:
        raise ValueError(
            f"stop='fallback': task {config.task!r} has no controller that leads out of its costs. Give its "
            "environment an attribute knowledge=safexp.tasks.knowledge.Knowledge(fallback=(<controller>, <bound on its "
            "way out>)), or use another stop."
        )
    controller, way_out = knowledge.fallback
    return Fallback(controller, way_out, **check_settings(Fallback, options))


def make_seed_data(config: RunConfig, knowledge: Knowledge) -> Log | None:
    """What a quantifier that learns starts from, in the units that the constraint reads."""
    if config.quantifier in ("unknown", "known"):
        return None
    if knowledge.log is None:
        if config.constraint == "budget":
            return None
        raise ValueError(
            f"quantifier={config.quantifier!r} under a constraint of kind {config.constraint!r} needs safe transitions "
            f"to start from, and task {config.task!r} provides none. Give its environment an attribute "
            "knowledge=safexp.tasks.knowledge.Knowledge(log=<function of a generator that returns a Log>), or use "
            "--constraint budget."
        )
    log = knowledge.log(np.random.default_rng(config.seed))
    if config.constraint != "margin":
        return log
    if log.margins is None:
        raise ValueError(f"task {config.task!r} logs no margins: use --constraint budget or instantaneous.")
    return log._replace(costs=log.margins)


def check_options(learner: type[BaseAlgorithm], options: Any) -> dict[str, Any]:
    """A learner's options, with classes in place of their names."""
    given = {name: options[name] for name in options if name in ("env", "seed", "verbose", "tensorboard_log")}
    if given:
        raise ValueError(f"learner_options={given!r} are set by the run itself: leave them out.")
    return build_policy(check_settings(learner, dict(options)), given={})


def check_settings(owner: type, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings themselves, if the constructor takes them."""
    known = options_of(owner)
    for name in settings:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"it takes {', '.join(known)}."
            raise ValueError(f"{owner.__name__} has no option {name!r}: {hint}")
    return settings


def options_of(owner: type) -> list[str]:
    """The names of a constructor's arguments, and of those that it passes on to its base class."""
    names: list[str] = []
    for kind in owner.__mro__:
        if "__init__" in vars(kind):
            parameters = inspect.signature(kind.__init__).parameters.values()  # type: ignore[misc]
            passed_on = [found for found in parameters if found.kind is found.VAR_KEYWORD]
            names += [found.name for found in parameters if found.name != "self" and found not in passed_on]
            if not passed_on:
                break
    return names
