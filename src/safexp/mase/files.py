"""Files of MASE agents, for deployment or further training: policy, quantifier, constraint, sample of inputs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from safexp.backups.penalty import Penalty
from safexp.backups.recovery import Recovery, Reset
from safexp.constraints import Constraint
from safexp.constraints.files import build_constraint, describe_constraint
from safexp.core import files
from safexp.core.no_environments import NoEnvironments
from safexp.mase.learner import (
    build_policy,
    build_training,
    check_policy,
    describe_policy,
    describe_training,
    find_learner,
    load_weights,
    name_of,
)
from safexp.mase.training_state import restore_training, training_state
from safexp.quantifiers import Quantifier
from safexp.shield.candidates import SafeAction
from safexp.shield.files import build_shield
from safexp.shield.shield import Shield

if TYPE_CHECKING:
    from safexp.mase.mase import MASE

Kind = TypeVar("Kind", bound="MASE")

WEIGHTS = "policy."
"""Prefix of the names of the policy's arrays in a file."""
BACKUP = "backup."
"""Prefix of the names of a backup's arrays in a file."""


def save_agent(agent: MASE, path: Path, training: bool) -> None:
    """Save an agent to one file, with the state of its training if asked."""
    shield, learned = agent.shield.describe()
    weights = {f"{WEIGHTS}{name}": part.cpu().numpy() for name, part in agent.learner.policy.state_dict().items()}
    document = {
        "versions": files.versions(),
        "shield": shield,
        "constraint": describe_constraint(agent.constraint),
        "penalty": agent.guard.penalty and asdict(agent.guard.penalty),
        "show_threshold": agent.guard.show_threshold,
        "braking": agent.guard.backup.braking,
        "learner": name_of(type(agent.learner)),
        "policy": describe_policy(agent.learner_options),
        "training": describe_training(agent.learner_options),
        "num_envs": agent.guard.num_envs,
    }
    learned_backup = agent.guard.backup.state() | agent.guard.drills.state()
    backup = {f"{BACKUP}{name}": part for name, part in learned_backup.items()}
    going_on = training_state(agent.learner) if training else {}
    files.write(path, document, {**learned, **weights, **backup, **agent.inputs.state(), **going_on})


def load_agent(
    kind: type[Kind],
    path: Path,
    venv: VecEnv | None,
    *,
    constraint: Constraint | None,
    quantifier: Quantifier | None,
    learner: type[BaseAlgorithm] | None,
    learner_options: dict[str, Any] | None,
    safe_action: SafeAction | None,
    seed: int | None,
    backup: Recovery | None,
) -> Kind:
    """Agent from a file, with these environments or without any."""
    document, arrays = files.read(path)
    files.expect(document, "shield", path)
    files.expect(document, "policy", path)
    with files.understood(path):
        shield = build_shield(Shield, document["shield"], arrays, constraint, quantifier, safe_action, backup)
        braking = float(document.get("braking", 0.0))
        policy = build_policy(check_policy(document["policy"], arrays), learner_options or {})
        training = {}
        if venv is not None and learner is None:
            training = build_training(document.get("training", {}), document.get("num_envs") == venv.num_envs)
        agent = kind(
            venv or NoEnvironments(shield.observation_space, shield.action_space),
            constraint or build_constraint(document["constraint"]),
            shield.quantifier,
            learner or find_learner(document["learner"]),
            learner_options={"policy_kwargs": None, **training, **policy},  # the policy of the file alone
            penalty=document["penalty"] and Penalty(**document["penalty"]),
            safe_action=None if shield.vouched is None else shield.vouched.action,
            seed=seed,
            backup=backup or Reset(braking),
            levels=document["shield"]["levels"],
            show_threshold=document["show_threshold"],
            trust="uncalibrated",  # was checked when it was trained
        )
        agent.shield.vouched = shield.vouched  # with its outcomes
    if agent.guard.backup.braking < braking:
        raise files.CheckpointError(
            f"{path} was trained with braking={braking:g}, and backup={backup!r} has "
            f"{agent.guard.backup.braking:g}: give it at least as much."
        )
    for name in ("observation_space", "action_space"):
        saved, given = getattr(shield, name), getattr(agent.shield, name)
        if saved != given:
            kinds = [f"{type(space).__name__} of shape {space.shape}" for space in (saved, given)]
            differ = f"{kinds[0]}, the environment has {kinds[1]}" if kinds[0] != kinds[1] else f"{saved}, not {given}"
            raise files.CheckpointError(f"{path} was saved for the {name} {differ}.")
    with files.understood(path):
        _take_learned(agent, arrays)
        if venv is not None:
            restore_training(agent.learner, arrays)
    return agent


def restore_agent(agent: MASE, path: Path) -> None:
    """Restore policy and quantifier from the file of an agent with the same settings."""
    document, arrays = files.read(path)
    files.expect(document, "shield", path)
    with files.understood(path):
        agent.shield.restore(arrays)
        _take_learned(agent, arrays)


def _take_learned(agent: MASE, arrays: files.Arrays) -> None:
    weights = {name[len(WEIGHTS) :]: part for name, part in arrays.items() if name.startswith(WEIGHTS)}
    load_weights(agent.learner, weights)
    agent.inputs.restore(arrays)
    backup = {name[len(BACKUP) :]: part for name, part in arrays.items() if name.startswith(BACKUP)}
    drills = agent.guard.drills
    agent.guard.backup.restore({name: part for name, part in backup.items() if name not in drills.state()})
    drills.restore(backup)
