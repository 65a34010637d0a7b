"""Subject of an examination: a log with its spaces, and the transitions for the model of each limit."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from safexp.constraints import Constraint, Within
from safexp.core.arrays import Array, Observations
from safexp.quantifiers.base import Transitions
from safexp.shield.logs import Log
from safexp.shield.transitions import parts_of, transitions_of

DIGITS = 6
"""Significant digits of an inferred action space, whose ends are rounded outwards."""

MOST_CHOICES = 64
"""Largest whole number in a column that is taken for discrete actions."""


@dataclass(frozen=True)
class LimitedSignals:
    """A limit on signals, and the log as transitions for its model.

    Attributes:
        constraint: the limit.
        data: the transitions, whose states are the encoded observations followed by the present signals.
        states: names of the entries of a state.
        actions: names of the entries of an encoded action.
    """

    constraint: Within
    data: Transitions
    states: tuple[str, ...]
    actions: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the limited signals."""
        return self.constraint.names

    @property
    def now(self) -> Array:
        """The signals (n, S) before each step."""
        return self.data.states[:, -len(self.names) :]

    @property
    def after(self) -> Array:
        """The signals (n, S) after each step."""
        assert self.data.signals is not None, "transitions of a limit on signals have them"
        return self.data.signals

    @property
    def episodes(self) -> NDArray[np.int64]:
        """Episode number (n,) of each step; 0 if the log has none."""
        given = self.data.episodes
        return np.zeros(len(self.data.costs), dtype=np.int64) if given is None else given


def limit_subjects(
    log: Log, constraint: Constraint, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]
) -> tuple[LimitedSignals, ...]:
    """One subject for each limit of a constraint.

    Raises:
        ValueError: if one of them is not a limit on signals at every step.
    """
    found = []
    for part in parts_of(constraint):
        if not isinstance(part, Within):
            raise ValueError(
                f"a log is examined for limits on signals at every step, not for {type(part).__name__}: give Within("
                "signal, low, high); a logged cost is a signal, too: Within('cost', high=0.3)."
            )
        data = transitions_of(log, part, observation_space, action_space)
        signals = tuple(f"{name} now" for name in part.names)
        names = (*state_names(observation_space), *signals)
        found.append(LimitedSignals(part, data, names, action_names(action_space)))
    return tuple(found)


def state_names(space: spaces.Space[Any], prefix: str = "s") -> tuple[str, ...]:
    """Names of the entries of an encoded observation: s0, s1, … as in a file, or by their keys."""
    if isinstance(space, spaces.Dict):
        return tuple(name for key in sorted(space.spaces) for name in _named(space[key], key))
    size = int(space.n) if isinstance(space, spaces.Discrete) else int(np.prod(space.shape or ()))
    return tuple(f"{prefix}{k}" for k in range(size))


def _named(space: spaces.Space[Any], key: str) -> tuple[str, ...]:
    inner = state_names(space, f"{key}.")
    return (key,) if len(inner) == 1 else inner


def action_names(space: spaces.Space[Any]) -> tuple[str, ...]:
    """Names of the entries of an encoded action."""
    if isinstance(space, spaces.Discrete):
        return tuple(f"action {int(space.start) + k}" for k in range(int(space.n)))
    return tuple(f"a{k}" for k in range(int(np.prod(space.shape or ()))))


def inferred_observations(observations: Observations) -> spaces.Space[Any]:
    """An observation space inferred from observations: boxes without bounds."""
    if isinstance(observations, dict):
        return spaces.Dict({key: inferred_observations(part) for key, part in observations.items()})
    return spaces.Box(-np.inf, np.inf, np.shape(observations)[1:], dtype=np.float64)


def inferred_actions(actions: NDArray[Any]) -> spaces.Box | spaces.Discrete:
    """An action space inferred from actions: discrete for one column of few whole numbers, else their range."""
    given = np.asarray(actions, dtype=np.float64)
    flat = given.reshape(len(given), -1)
    if flat.shape[1] == 1 and (flat == np.floor(flat)).all() and flat.min() >= 0 and flat.max() <= MOST_CHOICES:
        return spaces.Discrete(int(flat.max()) + 1)
    ends = [logged_range(column) for column in flat.T]
    low, high = (np.reshape([pair[side] for pair in ends], given.shape[1:]) for side in (0, 1))
    return spaces.Box(low, high, dtype=np.float64)


def logged_range(values: Array) -> tuple[float, float]:
    """The smallest and the largest of values (n,), rounded outwards to a few digits of the larger."""
    low, high = Decimal(repr(float(values.min()))), Decimal(repr(float(values.max())))
    largest = max(abs(low), abs(high))
    last = Decimal(1).scaleb(largest.adjusted() + 1 - DIGITS if largest else 0)
    ends = (low / last).to_integral_value(ROUND_FLOOR), (high / last).to_integral_value(ROUND_CEILING)
    return float(ends[0] * last), float(ends[1] * last)
