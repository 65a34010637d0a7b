"""Backup controller of a lookahead, as functions of encoded states."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from safexp.constraints import Constraint
from safexp.core.arrays import Array, Controller, Observations
from safexp.core.encoding import ActionSpace, decode_observations, encode_actions, encoded_size
from safexp.core.signals import SignalSource, in_observation, signal_in
from safexp.quantifiers.replays import Course


class BackupOption(Protocol):
    """A way to safety after a certified action: it is held for `hold` more steps, then the controller drives."""

    @property
    def hold(self) -> int:
        """Number of steps for which the certified action is held."""

    @property
    def horizon(self) -> int:
        """Number of steps that the controller drives."""

    @property
    def act(self) -> Controller:
        """Function that returns the controller's actions (n, ...)."""


class BackupController(Protocol):
    """Takes over where nothing is certified. An action is certified if one of its options is safe after it."""

    horizon: int

    @property
    def options(self) -> Sequence[BackupOption]:
        """The ways to safety, the preferred one first."""

    def act(self, observations: Observations) -> NDArray[Any]:
        """Actions (n, ...) of the controller where no certificate says which option to take."""


def course_of(
    backup: BackupOption,
    constraint: Constraint,
    observation_space: spaces.Space[Any],
    action_space: ActionSpace,
) -> Course:
    """Option of a backup as functions of states: encoded observations, followed by the constraint's signals."""
    size = encoded_size(observation_space)
    low = high = None
    if isinstance(action_space, spaces.Box):
        low, high = (part.ravel().astype(np.float64) for part in (action_space.low, action_space.high))

    plain = isinstance(observation_space, spaces.Box) and observation_space.dtype == np.float64
    plain = plain and len(observation_space.shape or ()) == 1  # then states are observations as they are

    def act(states: Array) -> Array:
        seen = states[:, :size] if plain else decode_observations(observation_space, states[:, :size])
        actions = np.asarray(backup.act(seen))
        if low is None or high is None:
            return encode_actions(action_space, actions)
        encoded = actions.astype(np.float64).reshape(len(states), -1)
        np.maximum(encoded, low, out=encoded)  # np.clip, at half its price for few numbers
        return np.minimum(encoded, high, out=encoded)

    return Course(act, _signals_of(constraint, observation_space), backup.horizon, low, high, backup.hold)


def _signals_of(constraint: Constraint, observation_space: spaces.Space[Any]) -> Callable[[Array], Array]:
    """Function that returns the signals (T, n, S) of successive states (T, n, ds).

    A signal that is an entry or a function of the observation is computed from the predicted observation; a signal that
    appears only in the info of a step is predicted like the rest of the state.
    """
    size = encoded_size(observation_space)
    example = decode_observations(observation_space, np.zeros((1, size)))

    def entry_of(k: int, source: SignalSource) -> int | None:
        """Entry of the state that holds a signal, None if it has to be computed."""
        if not in_observation(source, example):
            return size + k
        if isinstance(observation_space, spaces.Box) and isinstance(source, int | np.integer):
            return int(np.arange(size)[source])
        return None

    entries = [entry_of(k, source) for k, source in enumerate(constraint.sources)]
    if None not in entries:
        columns = np.array(entries)
        return lambda trajectory: trajectory[..., columns]

    def signals(trajectory: Array) -> Array:
        states = trajectory.reshape(-1, trajectory.shape[-1])
        observations = decode_observations(observation_space, states[:, :size])
        found = [
            signal_in(source, observations) if entry is None else states[:, entry]
            for source, entry in zip(constraint.sources, entries, strict=True)
        ]
        return np.stack(found, axis=1).reshape(*trajectory.shape[:2], -1)

    return signals


def holds(backup: BackupController | None) -> bool:
    """Whether a backup holds certified actions before it drives."""
    return backup is not None and any(option.hold for option in backup.options)


def check_memoryless(backup: BackupController) -> None:
    """Raise `ValueError` if a takeover by this backup depends on the action that was certified before."""
    if len(backup.options) > 1 or holds(backup):
        raise ValueError(
            f"the backup has {len(backup.options)} options, and a single decision does not remember on which of them "
            "the last certificate rests: train and evaluate with MASE or safexp.wrap, or deploy a shield with "
            "Backup(controller, horizon) alone."
        )


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
