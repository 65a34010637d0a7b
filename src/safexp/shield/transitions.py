"""Encoding of logged transitions for a quantifier, with the costs and signals that a constraint reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from safexp.constraints import AllOf, Constraint, Within
from safexp.core.arrays import Array, Flags, take
from safexp.core.encoding import encode_observations
from safexp.core.signals import SignalSource, column_of, in_observation, key_and_entry, name_of_signal, signal_in
from safexp.quantifiers.base import Transitions
from safexp.shield.logs import Log, encode_log


def parts_of(constraint: Constraint) -> tuple[Constraint, ...]:
    """Simple constraints that a constraint consists of."""
    return constraint.parts if isinstance(constraint, AllOf) else (constraint,)


def transitions_of(
    log: Log,
    constraint: Constraint,
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    *,
    with_next: bool = False,
) -> Transitions:
    """Logged transitions with the costs of a constraint, the signals that it limits, and the states that follow.

    A step whose signal before or after it is not in the log, such as the first or last step of an episode, is left out;
    with `with_next` so is a step whose next observation is not.

    Raises:
        ValueError: if the log lacks what the constraint reads, or does not fit the spaces.
    """
    after, now = signals_of(log, constraint.sources)
    logged = iter(_costs_of(log, constraint).T)
    columns, taken = [], 0
    for part in parts_of(constraint):
        own = after[:, taken : taken + len(part.sources)]
        taken += len(part.sources)
        signal = part.by_side(own) if isinstance(part, Within) else next(logged)
        columns.append(part.normalise(signal).reshape(len(after), -1))
    costs = np.concatenate(columns, axis=1)
    told: Flags = np.isfinite(np.concatenate([after, now, costs], axis=1)).all(axis=1)
    following = None
    if with_next:
        following = log.next_observations
        if following is None:
            told &= _follows(log)
            following = take(log.observations, np.roll(np.arange(len(told)), -1))
    if not told.any():
        names = ", ".join(map(name_of_signal, constraint.sources))
        raise ValueError(
            f"no step of the log has the signals {names} before and after it: log steps in order, with episode "
            "numbers, or give next_observations."
        )
    kept = _rows(log, told)._replace(costs=costs[told, 0] if costs.shape[1] == 1 else costs[told])
    encoded = encode_log(kept, observation_space, action_space)
    if following is not None:
        next_states = encode_observations(observation_space, take(following, told))
        encoded = encoded._replace(next_states=np.concatenate([next_states, after[told]], axis=1))
    if not after.shape[1]:
        return encoded
    return encoded._replace(states=np.concatenate([encoded.states, now[told]], axis=1), signals=after[told])


def signals_of(log: Log, sources: Sequence[SignalSource]) -> tuple[Array, Array]:
    """Signals (n, S) after each step and before it, NaN where the log does not contain them."""
    n = len(log.actions)
    if not sources:
        return np.zeros((n, 0)), np.zeros((n, 0))
    follows = _follows(log)
    after, now = np.empty((n, len(sources))), np.empty((n, len(sources)))
    for k, source in enumerate(sources):
        if in_observation(source, log.observations):
            now[:, k] = signal_in(source, log.observations)
            if log.next_observations is not None:
                after[:, k] = signal_in(source, log.next_observations)
            else:
                after[:, k] = np.where(follows, np.roll(now[:, k], -1), np.nan)
        else:
            assert isinstance(source, str), "everything else is in the observation"
            after[:, k] = _column(log, source)
            now[:, k] = np.where(np.roll(follows, 1), np.roll(after[:, k], 1), np.nan)
    return after, now


def _follows(log: Log) -> Flags:
    """Whether the next row of the log is the next step of the same episode, for each step (n,)."""
    last = np.zeros(len(log.actions), dtype=bool)
    last[-1:] = True
    if log.episodes is not None:
        episodes = np.asarray(log.episodes)
        last[:-1] |= episodes[1:] != episodes[:-1]
    return ~last


def _column(log: Log, name: str) -> Array:
    """Named signal after each step (n,)."""
    named = {**(log.signals or {})}
    for known, column in (("margin", log.margins), ("cost", log.costs)):
        if column is not None:
            named.setdefault(known, column)
    key = name if name in named else key_and_entry(name)[0]
    if key not in named:
        raise ValueError(
            f"the log has no signal {name!r} (it has {', '.join(sorted(named)) or 'none'}): add a column of that name, "
            "or limit an entry of the observation by its index."
        )
    values = np.asarray(named[key], dtype=np.float64)
    if key != name:
        values = column_of(values, name)
    if values.shape != (len(log.actions),):
        raise ValueError(f"the log's signal {name!r} has shape {values.shape}, expected ({len(log.actions)},).")
    return values


def _costs_of(log: Log, constraint: Constraint) -> Array:
    """Logged costs (n, M) of the M parts of a constraint that limit costs."""
    parts = [part for part in parts_of(constraint) if not isinstance(part, Within)]
    if not parts:
        return np.zeros((len(log.actions), 0))
    if log.costs is None and log.margins is None:
        raise ValueError(f"the log has no costs, which {type(parts[0]).__name__} reads: give Log(..., costs=...).")
    given = np.asarray(log.costs if log.costs is not None else np.asarray(log.margins) < 0, dtype=np.float64)
    costs = given[:, None] if given.ndim == 1 else given
    if costs.shape != (len(log.actions), len(parts)):
        expected = "(n,)" if len(parts) == 1 else f"(n, {len(parts)})"
        raise ValueError(f"logged costs have shape {given.shape}, expected {expected} for {type(constraint).__name__}.")
    return costs


def _rows(log: Log, rows: Flags) -> Log:
    """Subset of the rows of a log."""
    if rows.all():
        return log
    costs, margins, episodes = (
        None if part is None else np.asarray(part)[rows] for part in (log.costs, log.margins, log.episodes)
    )
    return Log(take(log.observations, rows), np.asarray(log.actions)[rows], costs, margins=margins, episodes=episodes)
