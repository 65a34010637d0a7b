"""Multi-step predictions of a one-step model: with a backup, or along logged stretches to measure its errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array, Flags
from safexp.quantifiers.base import Transitions, stretches_of

MOST_WINDOWS = 4000
"""Number of windows of the data that are replayed to judge a model, evenly spaced."""

SAME_ACTION = 1e-4
"""Largest distance of a logged action from the backup's at which it counts as the backup's own."""


Advance = Callable[[Array, Array], Array]
"""One-step model: states (n, ds) after actions (n, da) in states (n, ds)."""


class Course(NamedTuple):
    """Backup as functions: its encoded actions (n, da) in states (n, ds), and the signals of trajectories.

    `signals` takes successive states (T, n, ds) and returns their signals (T, n, S). A certified action is run, then
    held for `hold` more steps, then the backup drives for `horizon` steps; `low` and `high` (da,) bound the actions,
    None if they are discrete.
    """

    act: Callable[[Array], Array]
    signals: Callable[[Array], Array]
    horizon: int
    low: Array | None
    high: Array | None
    hold: int = 0

    @property
    def steps(self) -> int:
        """Number of steps of an action and all that follows."""
        return 1 + self.hold + self.horizon


class Prediction(NamedTuple):
    """Successive states (T + 1, n, ds), and the actions (T, n, da) between them."""

    states: Array
    actions: Array


class Replay(NamedTuple):
    """Windows of the data as predicted by a model.

    Attributes:
        trajectory: the prediction.
        signals: measured signals after each step, (T, w, S).
        within: whether each step (T, w) belongs to the stretch in which its window began.
    """

    trajectory: Prediction
    signals: Array
    within: Flags


def drive(advance: Advance, states: Array, act: Callable[[int, Array], Array], steps: int) -> Prediction:
    """Predict from states (n, ds), with the actions that `act` chooses at each step."""
    path, actions = np.empty((steps + 1, *states.shape)), []
    path[0] = states
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(steps):
            actions.append(act(k, path[k]))
            path[k + 1] = advance(path[k], actions[-1])
    return Prediction(path, np.stack(actions))


def replay(advance: Advance, course: Course, data: Transitions, starts: NDArray[np.int64]) -> Replay:
    """Predict the windows of the data that begin with these transitions (w,), with the backup in the loop.

    The model is driven by the backup's action in the predicted state, plus the difference between the logged action and
    the backup's action in the true state, so that feedback corrects the prediction as it corrected the machine. A
    discrete action is the backup's if the logged one was, otherwise the logged one.
    """
    following, numbers, order = next_states_of(data), stretches_of(data), in_order(data)
    at = np.argsort(order)[starts] + np.arange(course.steps)[:, None]  # (T, w)
    rows = order[np.minimum(at, len(order) - 1)]
    within = (at < len(order)) & (numbers[rows] == numbers[starts])
    logged, of_backup = data.actions[rows], course.act(data.states)[rows]

    def act(k: int, states: Array) -> Array:
        if k <= course.hold:
            return logged[k]
        own = course.act(states)
        if course.low is None or course.high is None:
            return np.where((logged[k] == of_backup[k]).all(axis=1, keepdims=True), own, logged[k])
        return np.clip(own + logged[k] - of_backup[k], course.low, course.high)

    true = np.concatenate([data.states[rows[:1]], following[rows]])
    return Replay(drive(advance, true[0], act, len(rows)), course.signals(true)[1:], within)


def followed(course: Course, data: Transitions) -> NDArray[np.int64]:
    """Number of steps (n,) of the path from each transition that the data shows, of `course.steps`.

    It is 1 where the next action was chosen by someone else, and `course.steps` where the action was held and the
    backup then drove for its horizon.
    """
    order, numbers = in_order(data), stretches_of(data)
    last = np.append(numbers[order][1:] != numbers[order][:-1], True)
    actions = data.actions[order]
    own = np.abs(actions - course.act(data.states)[order]).max(axis=1) <= SAME_ACTION
    driven = np.minimum(_run_after(own, last), course.horizon)
    steps = 1 + driven
    if course.hold:
        again = np.append(False, np.abs(np.diff(actions, axis=0)).max(axis=1) <= SAME_ACTION)
        held = np.minimum(_run_after(again, last), course.hold)
        then = driven[np.minimum(np.arange(len(order)) + course.hold, len(order) - 1)]
        steps = 1 + held + np.where(held == course.hold, then, 0)
    found = np.empty(len(order), dtype=np.int64)
    found[order] = steps
    return found


def drilled(course: Course, data: Transitions) -> NDArray[np.int64]:
    """Transitions (w,) whose action was held, after which the backup drove for its horizon."""
    return np.flatnonzero(followed(course, data) == course.steps)


def _run_after(flags: Flags, last: Flags) -> NDArray[np.int64]:
    """Number (n,) of directly following rows with a flag, up to the end of the stretch, whose `last` row is marked."""
    places = np.arange(len(flags))
    ends = np.flatnonzero(last | ~np.append(flags[1:], False))  # rows whose successor does not continue the run
    return np.asarray(ends[np.searchsorted(ends, places)] - places)


def evenly(data: Transitions, most: int = MOST_WINDOWS) -> NDArray[np.int64]:
    """Indices of at most so many evenly spaced transitions."""
    return thinned(in_order(data), most)


def thinned(rows: NDArray[np.int64], most: int = MOST_WINDOWS) -> NDArray[np.int64]:
    """At most so many of the rows, evenly spaced."""
    return rows[:: max(1, -(-len(rows) // most))]


def in_order(data: Transitions) -> NDArray[np.int64]:
    """Indices of the transitions, stretch by stretch."""
    return np.argsort(stretches_of(data), kind="stable")


def next_states_of(data: Transitions) -> Array:
    """States (n, ds) after each transition."""
    if data.next_states is None:
        raise ValueError("Rollout was given transitions without next states: log next_observations, or steps in order.")
    return data.next_states
