"""A one-step model driven over many steps: by a backup, or through stretches of the data to be judged by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array, Flags
from safexp.quantifiers.base import Transitions, stretches_of
from safexp.quantifiers.dynamics import Dynamics

MOST_WINDOWS = 4000
"""Windows of the data that are replayed to judge a model, evenly taken from all."""


class Course(NamedTuple):
    """A backup as functions of encoded states (n, ds): its encoded actions (n, da) and the signals (n, S).

    `horizon` is how many steps it drives; `low` and `high` (da,) bound the actions, None where they are discrete.
    """

    act: Callable[[Array], Array]
    signals: Callable[[Array], Array]
    horizon: int
    low: Array | None
    high: Array | None


class Trajectory(NamedTuple):
    """States (T, n, ds) before each of T steps, the actions (T, n, da), and the states (n, ds) after the last."""

    states: Array
    actions: Array
    last: Array


class Replay(NamedTuple):
    """Windows of the data as a model predicts them.

    Attributes:
        starts: the transitions (w,) that they begin with.
        trajectory: what is predicted.
        signals: what was measured after each step, (T, w, S).
        within: which steps (T, w) belong to the stretch that a window began in.
    """

    starts: NDArray[np.int64]
    trajectory: Trajectory
    signals: Array
    within: Flags


def drive(model: Dynamics, states: Array, act: Callable[[int, Array], Array], steps: int) -> Trajectory:
    """Predict from states (n, ds) on, with the actions that `act` chooses at each step."""
    before, actions = np.empty((steps, *states.shape)), []
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(steps):
            before[k] = states
            actions.append(act(k, states))
            states = model.step(states, actions[-1])
    return Trajectory(before, np.stack(actions), states)


def replay(model: Dynamics, course: Course, data: Transitions) -> Replay:
    """Predict windows of the data with the backup in the loop.

    The model is driven by the backup's action in its own state plus what the logged action differed from the backup's
    in the true one, so that feedback corrects the prediction as it corrected the machine. A discrete action is the
    backup's where the logged one was, and else the logged one.
    """
    following, numbers = next_states_of(data), stretches_of(data)
    order = np.argsort(numbers, kind="stable")
    count, steps = len(order), course.horizon + 1
    places = np.arange(0, count, max(1, -(-count // MOST_WINDOWS)))
    at = places + np.arange(steps)[:, None]  # (T, w)
    rows = order[np.minimum(at, count - 1)]
    within = (at < count) & (numbers[rows] == numbers[rows[:1]])
    logged, of_backup = data.actions[rows], course.act(data.states)[rows]

    def act(k: int, states: Array) -> Array:
        if k == 0:
            return logged[0]
        own = course.act(states)
        if course.low is None or course.high is None:
            return np.where((logged[k] == of_backup[k]).all(axis=1, keepdims=True), own, logged[k])
        return np.clip(own + logged[k] - of_backup[k], course.low, course.high)

    return Replay(rows[0], drive(model, data.states[rows[0]], act, steps), course.signals(following)[rows], within)


def next_states_of(data: Transitions) -> Array:
    """The states (n, ds) after each transition."""
    if data.next_states is None:
        raise ValueError("Rollout was given transitions without next states: log next_observations, or steps in order.")
    return data.next_states
