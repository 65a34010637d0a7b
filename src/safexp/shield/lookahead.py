"""Backup controller of a lookahead, as functions of encoded states."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from safexp.constraints import Constraint
from safexp.core.arrays import Array, Observations
from safexp.core.encoding import ActionSpace, decode_observations, encode_actions, encoded_size
from safexp.core.signals import in_observation, signal_in
from safexp.quantifiers.replays import Course


class BackupController(Protocol):
    """Controller that takes over where nothing is certified; its certificates cover `horizon` steps."""

    horizon: int

    def act(self, observations: Observations) -> NDArray[Any]:
        """Actions (n, ...) of the controller."""


def course_of(
    backup: BackupController,
    constraint: Constraint,
    observation_space: spaces.Space[Any],
    action_space: ActionSpace,
) -> Course:
    """Backup as functions of states: encoded observations, followed by the signals that the constraint measures."""
    size = encoded_size(observation_space)
    low = high = None
    if isinstance(action_space, spaces.Box):
        low, high = (part.ravel().astype(np.float64) for part in (action_space.low, action_space.high))

    def act(states: Array) -> Array:
        actions = backup.act(decode_observations(observation_space, states[:, :size]))
        if low is None or high is None:
            return encode_actions(action_space, np.asarray(actions))
        encoded = np.asarray(actions, dtype=np.float64).reshape(len(states), -1)
        return np.minimum(np.maximum(encoded, low), high)  # np.clip, at half its price for few numbers

    return Course(act, _signals_of(constraint, observation_space), backup.horizon, low, high)


def _signals_of(constraint: Constraint, observation_space: spaces.Space[Any]) -> Callable[[Array], Array]:
    """Function that returns the signals (T, n, S) of successive states (T, n, ds).

    A signal that is an entry or a function of the observation is computed from the predicted observation; a signal that
    appears only in the info of a step is predicted like the rest of the state.
    """
    size, box = encoded_size(observation_space), isinstance(observation_space, spaces.Box)
    example = decode_observations(observation_space, np.zeros((1, size)))

    def signals(trajectory: Array) -> Array:
        states = trajectory.reshape(-1, trajectory.shape[-1])
        observations: Observations = None
        columns = np.empty((len(states), len(constraint.sources)))
        for k, source in enumerate(constraint.sources):
            if not in_observation(source, example):
                columns[:, k] = states[:, size + k]
            elif box and isinstance(source, int | np.integer):
                columns[:, k] = states[:, :size][:, source]
            else:
                if observations is None:
                    observations = decode_observations(observation_space, states[:, :size])
                columns[:, k] = signal_in(source, observations)
        return columns.reshape(*trajectory.shape[:2], -1)

    return signals


def largest_bound(constraint: Constraint | None, backup: BackupController | None) -> float:
    """Upper limit of a predicted cost: 1, the largest cost of a step, or infinity for a sum until rest."""
    sums = constraint is not None and not constraint.on_every_step
    return math.inf if backup is not None and backup.horizon and sums else 1.0


def check_backup(backup: Any, observation_space: spaces.Space[Any], action_space: ActionSpace) -> None:
    """Query a backup with two observations; raises `ValueError` if it does not return valid actions."""
    sample = np.zeros((2, encoded_size(observation_space)))
    observations = decode_observations(observation_space, sample)
    actions = np.asarray(backup.act(observations))
    if actions.shape != (2, *(action_space.shape or ())):
        raise ValueError(
            f"the backup returned actions of shape {actions.shape} for 2 observations, expected "
            f"{(2, *(action_space.shape or ()))}: it is given observations (n, ...) and returns an action for each."
        )
