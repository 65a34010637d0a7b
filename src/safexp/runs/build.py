"""Building an agent and its environments from a run's settings; invalid settings raise here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import ArrayLike
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from safexp.backups.backup import Backup
from safexp.backups.learned_reset import LearnedReset
from safexp.backups.penalty import Penalty
from safexp.backups.recovery import Fallback, Recovery, Reset
from safexp.constraints import AllOf, Budget, Constraint, Instantaneous, Margin, Schedule
from safexp.constraints.parse import together
from safexp.core.arrays import Array
from safexp.core.costs import CostSource
from safexp.core.encoding import encoded_size
from safexp.core.obstacles import Obstacles
from safexp.envs.early_termination import EarlyTermination
from safexp.envs.recording import Recorded, Recording
from safexp.envs.saute import Saute
from safexp.envs.vector import as_vec_env
from safexp.mase.agent import Agent
from safexp.mase.baseline import Baseline
from safexp.mase.critics import Replacement
from safexp.mase.learner import POLICY_OPTIONS, find_learner, is_algorithm
from safexp.mase.mase import MASE
from safexp.quantifiers import (
    Calibrated,
    ChangeModel,
    DeepGP,
    ExactGP,
    FeatureRegression,
    Known,
    PlanarPath,
    Quantifier,
    Rollout,
    SparseGP,
    Unknown,
)
from safexp.runs.config import FITTED, RunConfig
from safexp.runs.options import check_options, check_settings, options_of
from safexp.runs.plugins import find, find_callable, find_task, is_own
from safexp.shield.logs import Log, read_log
from safexp.tasks.knowledge import Knowledge, knowledge_of

LEARNED = MappingProxyType(
    {
        "sparse-gp": SparseGP,
        "deep-gp": DeepGP,
        "features": FeatureRegression,
        "rollout": Rollout,
        "planar-path": PlanarPath,
    }
)
"""Learned quantifiers that need no knowledge of the task."""

AFTER = ("backup", "fallback")
"""Controllers of a task (`Knowledge`) that can drive on after a stop."""


def build(config: RunConfig, to_use: bool = False) -> Agent:
    """Build the agent of complete settings: MASE, or a baseline with the same records.

    An agent `to_use`, not to train, has no seed data, and only the policy options of its learner.
    """
    learner = make_learner_class(config.learner)
    options = check_options(learner, config.learner_options)
    if to_use:
        options = {"policy_kwargs": None} | {name: options[name] for name in POLICY_OPTIONS if name in options}
    envs = make_envs(config.task, config.num_envs, config.task_options)
    knowledge = knowledge_of(envs)
    constraint = make_constraint(config, knowledge.obstacles)
    if is_own(config.method):
        return make_own_agent(config, envs, constraint, learner, options)
    try:
        if config.method != "mase":
            recorded, options = make_recorded(config, as_vec_env(envs), constraint, options)
            return Baseline(recorded, learner, learner_options=options, seed=config.seed)
        return MASE(
            envs,
            constraint,
            calibrated(config, on_observations(make_quantifier(config, constraint, knowledge), constraint, envs)),
            learner,
            learner_options=options,
            penalty=Penalty(config.penalty, config.largest_penalty, config.moved_penalty),
            seed_data=None if to_use else make_seed_data(config, knowledge),
            seed_controller=knowledge.controller if starts_from_log(config) else None,
            seed=config.seed,
            backup=make_backup(config, knowledge),
            replacement=make_replacement(config.replacement),
            warm_start=config.warm_start and not to_use,
            imitation=0.0 if to_use else config.imitation,
            trust="calibrated" if config.calibrate else "uncalibrated",
            **config.method_options,
        )
    except (AssertionError, TypeError) as error:  # raised by Stable-Baselines3 for spaces and options
        raise ValueError(f"{config.learner} cannot be used on {config.task} with these options: {error}") from error


def make_own_agent(
    config: RunConfig,
    envs: VectorEnv[Any, Any, Any],
    constraint: Constraint,
    learner: type[BaseAlgorithm],
    options: dict[str, Any],
) -> Agent:
    """Build the agent of a user-defined method."""
    takes = "a function of (config, envs, constraint, learner, options) that returns an agent"
    agent = find_callable(config.method, "method", takes)(config, envs, constraint, learner, options)
    if not isinstance(agent, Agent):
        raise ValueError(
            f"method={config.method!r} returned a {type(agent).__name__}; expected an agent such as MASE(envs, ...) or "
            "Baseline(Recorded(as_vec_env(envs), constraint), learner, learner_options=options, seed=...)."
        )
    return agent


def make_replacement(name: str) -> Replacement:
    """The rule for replacing a refused proposal: a known one, or a user-defined function."""
    takes = "a function of observations (k, ...) and candidates (k, m, da) that returns scores (k, m)"
    return find_callable(name, "replacement", takes) if is_own(name) else cast(Replacement, name)


def make_learner_class(name: str) -> type[BaseAlgorithm]:
    """The algorithm class of a learner's name: a known one, or a user-defined one."""
    if not is_own(name):
        return find_learner(name)
    found = find(name, "learner")
    if not is_algorithm(found):
        raise ValueError(f"learner={name!r} is {found!r}; expected a Stable-Baselines3 algorithm class.")
    return found


def make_recorded(
    config: RunConfig, venv: VecEnv, constraint: Constraint, options: dict[str, Any]
) -> tuple[Recording, dict[str, Any]]:
    """The environments of a method without a shield, and its learner's options, with the budget if it takes one."""
    if config.method == "saute":
        assert isinstance(constraint, Budget), "checked with the description"
        return Saute(venv, constraint, **config.method_options), options
    if config.method == "early-termination":
        return EarlyTermination(venv, constraint, **config.method_options), options
    if config.method in ("trpo-lagrangian", "cpo"):
        options = {"cost_limit": config.limit, **options}
    return Recorded(venv, constraint), options


def make_envs(task: str, num_envs: int, options: Mapping[str, Any] = MappingProxyType({})) -> VectorEnv[Any, Any, Any]:
    """Parallel copies of a task."""
    find_task(task)
    try:
        return gym.make_vec(task, num_envs=num_envs, **options)
    except TypeError as error:
        raise ValueError(f"task {task!r} does not take task_options={dict(options)}: {error}") from error
    except (gym.error.Error, ImportError) as error:
        raise ValueError(f"cannot make task {task!r}: {error}") from error


def make_constraint(config: RunConfig, obstacles: Obstacles | None = None) -> Constraint:
    """The constraint of a run's settings, including its limits on signals, and the task's obstacles if needed."""
    among = obstacles if config.quantifier == "planar-path" else None
    parts: list[Constraint] = [] if config.constraint == "within" else [make_named_constraint(config, among)]
    parts += together(config.signal_limits)
    return parts[0] if len(parts) == 1 else AllOf(*parts)


def make_named_constraint(config: RunConfig, among: Obstacles | None = None) -> Constraint:
    """The constraint named in a run's settings."""
    if config.constraint == "margin":
        return Margin(config.cost_max)
    if config.constraint == "schedule":
        steps, limits = zip(*config.phases.items(), strict=True)
        each = np.repeat(limits, np.diff([*steps, steps[-1] + 1]))
        return Schedule(each, make_cost(config), config.cost_max)
    assert config.limit is not None, "complete settings have a limit"
    if config.constraint == "instantaneous":
        return Instantaneous(config.limit, make_cost(config), config.cost_max, among=among)
    return Budget(config.limit, config.discount, make_cost(config), config.cost_max, among=among)


def make_cost(config: RunConfig) -> CostSource:
    """The source of a run's costs: the infos, or a user-defined function."""
    if not is_own(config.cost):
        return config.cost
    takes = "a function of (observations, actions, next observations) that returns a cost for each"
    return find_callable(config.cost, "cost", takes)


def make_quantifier(config: RunConfig, constraint: Constraint, knowledge: Knowledge) -> Quantifier:
    """The quantifier named in a run's settings, with the knowledge of the task."""
    if config.quantifier == "exact-gp":
        return ExactGP(**check_settings(ExactGP, {**knowledge.exact_gp, **config.quantifier_options}))
    if config.quantifier in LEARNED:
        return make_learned(config)
    if is_own(config.quantifier):
        return make_own_quantifier(config)
    if config.quantifier_options:
        raise ValueError(f"quantifier_options={config.quantifier_options!r}: {config.quantifier!r} takes none.")
    if config.quantifier == "unknown":
        return Unknown()
    wanted = "margin" if config.constraint == "margin" else "cost"
    signal = knowledge.margin if config.constraint == "margin" else knowledge.cost
    if signal is None:
        raise ValueError(
            f"quantifier='known': task {config.task!r} does not provide its {wanted}. Give its environment an "
            f"attribute knowledge=safexp.Knowledge({wanted}=<function of states and actions>), or use "
            "another quantifier."
        )

    if config.constraint == "margin":
        return Known(signal)

    def cost(states: Array, actions: Array) -> ArrayLike:
        return constraint.normalise(np.asarray(signal(states, actions), dtype=np.float64))

    return Known(cost)


def on_observations(quantifier: Quantifier, constraint: Constraint, envs: VectorEnv[Any, Any, Any]) -> Quantifier:
    """An exact GP under limits on signals, with the task's lengthscales for observations and actions only."""
    if not (isinstance(quantifier, ExactGP) and constraint.sources):
        return quantifier
    return ChangeModel(quantifier, inputs=range(encoded_size(envs.single_observation_space)))


def calibrated(config: RunConfig, quantifier: Quantifier) -> Quantifier:
    """The quantifier, calibrated if the settings require it."""
    if config.calibrate:
        quantifier = Calibrated(quantifier, **check_settings(Calibrated, dict(config.calibration_options)))
    elif config.calibration_options:
        raise ValueError(f"calibration_options={dict(config.calibration_options)} need --calibrate.")
    return quantifier


def make_learned(config: RunConfig) -> Quantifier:
    """A learned quantifier, with the run's seed unless the options have one."""
    kind = LEARNED[config.quantifier]
    seed = {"seed": config.seed} if "seed" in options_of(kind) else {}
    return kind(**check_settings(kind, {**seed, **config.quantifier_options}))


def make_own_quantifier(config: RunConfig) -> Quantifier:
    """A user-defined quantifier; if it takes a seed, it gets the run's."""
    kind = find(config.quantifier, "quantifier")
    if not (isinstance(kind, type) and issubclass(kind, Quantifier)):
        raise ValueError(f"quantifier={config.quantifier!r} is {kind!r}; expected a subclass of safexp.Quantifier.")
    seed = {"seed": config.seed} if "seed" in options_of(kind) else {}
    return kind(**check_settings(kind, {**seed, **config.quantifier_options}))


def make_backup(config: RunConfig, knowledge: Knowledge) -> Recovery:
    """The backup of a run's settings, with the task's controller if it takes one."""
    options = dict(config.backup_options)
    if config.backup == "reset":
        return Reset(**with_controller(config, knowledge, check_settings(Reset, options)))
    if config.backup == "learned-reset":
        return LearnedReset(**{"seed": config.seed, **check_settings(LearnedReset, options)})
    if config.backup == "controller":
        if knowledge.backup is None:
            because = f", because {knowledge.no_backup}" if knowledge.no_backup else ""
            raise ValueError(
                f"backup='controller': task {config.task!r} has no backup controller{because}. Give its environment an "
                "attribute knowledge=safexp.Knowledge(backup=(<controller>, <steps until it rests>)), or use another "
                "backup."
            )
        controller, horizon = knowledge.backup
        given = {"horizon": horizon, "hold": knowledge.hold, **check_settings(Backup, options)}
        return Backup(controller, rescue=knowledge.rescue, **given)
    if knowledge.fallback is None:
        raise ValueError(
            f"backup='fallback': task {config.task!r} provides no controller that drives to safety. Give its "
            "environment an attribute knowledge=safexp.Knowledge(fallback=(<controller>, <bound on its cost>)), or use "
            "another backup."
        )
    return Fallback(*knowledge.fallback, **check_settings(Fallback, options))


def with_controller(config: RunConfig, knowledge: Knowledge, options: dict[str, Any]) -> dict[str, Any]:
    """The options of `Reset` with the controller that `after` names, and the steps that the task gives its backup."""
    if options.get("after") is None:
        return options
    name = options["after"]
    if isinstance(name, str) and is_own(name):
        takes = "a function of observations (n, ...) that returns actions (n, ...)"
        return {**options, "after": find_callable(name, "after", takes)}
    if name not in AFTER:
        raise ValueError(
            f"backup_options: after={name!r} must name the task's controller that drives on after a stop, "
            f"{' or '.join(AFTER)}, or your own, package:function."
        )
    found = knowledge.backup if name == "backup" else knowledge.fallback
    if found is None:
        given = "(<controller>, <steps until it rests>)" if name == "backup" else "(<controller>, <bound on its cost>)"
        raise ValueError(
            f"backup_options: after={name!r}, and task {config.task!r} has no such controller. Give its environment an "
            f"attribute knowledge=safexp.Knowledge({name}={given}), name your own, package:function, or leave `after` "
            "out, which takes the stop to be free."
        )
    steps = {"steps": found[1]} if name == "backup" else {}
    return {**steps, **options, "after": found[0]}


def starts_from_log(config: RunConfig) -> bool:
    """Whether a run starts from a log, and the controller that produced it takes part in the run."""
    return config.quantifier in (*FITTED, "exact-gp") and config.constraint != "budget"


def make_seed_data(config: RunConfig, knowledge: Knowledge) -> Log | None:
    """Initial transitions of a learned quantifier."""
    if config.quantifier in ("unknown", "known"):
        return None
    if config.seed_data is not None:
        return read_log(config.seed_data)
    record = knowledge.drill_log if config.quantifier == "planar-path" else knowledge.log
    if record is None:
        if config.constraint == "budget" or is_own(config.quantifier):
            return None
        raise ValueError(
            f"quantifier={config.quantifier!r} under a constraint of kind {config.constraint!r} needs safe transitions "
            f"to start from, and task {config.task!r} provides none. Give its environment an attribute "
            "knowledge=safexp.Knowledge(log=<function of a generator that returns a Log>), a file as --seed-data, or "
            "use --constraint budget."
        )
    log = record(np.random.default_rng(config.seed))
    if config.constraint == "margin" and log.margins is None:
        raise ValueError(f"task {config.task!r} logs no margins: use --constraint budget or instantaneous.")
    return log
