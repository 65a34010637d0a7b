"""Paths of a linear model under a linear backup: all steps in one matrix product."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from safexp.core.arrays import Array, Flags, every
from safexp.quantifiers.replays import Course, Prediction, drive, thinned

SAME = 1e-12
"""Largest difference of an action from a linear one, relative to its size, that counts as rounding."""

PROBES = 500
"""Number of states in which a backup is asked whether it is linear."""

SHORT, ROUGH = 1e-3, 1e-6
"""Distance of states whose actions are compared, in standard deviations, and the error of their difference."""

LARGEST = 200_000
"""Number of coefficients of all steps together up to which one product is faster than step by step."""


class ClosedLoop:
    """Path of a linear one-step model through a backup that is linear wherever the path leads.

    With x' = xA + aB + c and the backup's action xK + k, every state of the path is a linear function of (x, a, 1). Its
    coefficients are computed once for each model. The backup itself is then asked about all states of the path in one
    batch. Where one of its actions differs from the linear one (it saturates, or is not linear at all), the path is
    predicted step by step instead. So K and k decide the time of a prediction, never its result.

    Args:
        model: A (ds, ds), B (da, ds), c (ds,).
        gains: K and, in the last row, k, (ds + 1, da).
        course: the backup.
    """

    def __init__(self, model: tuple[Array, Array, Array], gains: Array, course: Course) -> None:
        of_states, of_actions, constant = model
        size, actions = len(of_states), len(of_actions)
        first = np.eye(size + actions + 1)  # (x, a, 1) as functions of themselves
        held, one = first[:, size:-1] @ of_actions, np.outer(first[:, -1], constant)
        states, driven = [first[:, :size]], one + np.outer(first[:, -1], gains[-1] @ of_actions)
        with np.errstate(over="ignore", invalid="ignore"):  # such paths are left to the steps
            for k in range(course.steps):
                last = states[-1]
                action = held + one if k <= course.hold else last @ gains[:-1] @ of_actions + driven
                states.append(last @ of_states + action)
        self._course, self._gains, self._size = course, gains, size
        self._coefficients = np.ascontiguousarray(np.stack(states[1:], axis=1).reshape(len(first), -1))

    @staticmethod
    def small(model: tuple[Array, Array, Array], course: Course) -> bool:
        """Whether one product is faster than step by step."""
        size = len(model[0])
        return (size + len(model[1]) + 1) * size * course.steps <= LARGEST

    def path(self, states: Array, actions: Array) -> tuple[Prediction, Flags]:
        """Prediction from states (n, ds) after actions (n, da), and for which of them (n,) it holds."""
        course, n, size = self._course, len(states), self._size
        steps, hold = course.steps, course.hold
        asked = np.concatenate([states, actions, np.ones((n, 1))], axis=1)
        path = np.empty((steps + 1, n, size))
        path[0] = states
        path[1:] = (asked @ self._coefficients).reshape(n, steps, size).transpose(1, 0, 2)
        taken = np.empty((steps, n, actions.shape[1]))
        taken[: hold + 1] = actions
        driven = path[hold + 1 : steps].reshape(-1, size)
        wanted = driven @ self._gains[:-1] + self._gains[-1]
        own = course.act(driven)
        same = np.abs(own - wanted) <= SAME * (1.0 + np.abs(wanted))
        taken[hold + 1 :] = own.reshape(steps - hold - 1, n, -1)
        if every(same):
            return Prediction(path, taken), np.ones(n, dtype=bool)
        return Prediction(path, taken), same.reshape(steps - hold - 1, n, -1).all(axis=(0, 2))


def linear_gains(act: Callable[[Array], Array], states: Array) -> Array | None:
    """Gains (ds + 1, da) of a backup that is linear in most of these states (n, ds), the last row its constant.

    None if it is not. They are differences about the median state, corrected by least squares where that is linear.
    """
    some = states[thinned(np.arange(len(states)), PROBES)]
    middle, moves = np.median(some, axis=0), np.diag(SHORT * (some.std(axis=0) + SHORT))
    size = len(middle)
    asked = act(np.concatenate([middle + moves, middle - moves, middle[None]]))
    slopes = (asked[:size] - asked[size:-1]) / (2 * moves.diagonal()[:, None])
    gains = np.concatenate([slopes, asked[-1:] - middle @ slopes])
    inputs, actions = np.concatenate([some, np.ones((len(some), 1))], axis=1), act(some)
    errors = np.abs(inputs @ gains - actions) / (1.0 + np.abs(actions))
    kept = (errors <= ROUGH).all(axis=1)
    if 2 * np.count_nonzero(kept) < len(some):
        return None
    gains += np.linalg.lstsq(inputs[kept], actions[kept] - inputs[kept] @ gains, rcond=None)[0]
    errors = np.abs(inputs[kept] @ gains - actions[kept]) / (1.0 + np.abs(actions[kept]))
    return np.asarray(gains) if every(errors <= SAME) else None


def through_backup(
    step: Callable[[Array, Array], Array], course: Course, loop: ClosedLoop | None, states: Array, actions: Array
) -> Prediction:
    """Path from states (n, ds) if these actions (n, da) are run, held, and then the backup drives."""

    def stepwise(states: Array, actions: Array) -> Prediction:
        return drive(step, states, lambda k, state: actions if k <= course.hold else course.act(state), course.steps)

    if loop is None:
        return stepwise(states, actions)
    with np.errstate(over="ignore", invalid="ignore"):
        found, linear = loop.path(states, actions)
    if not every(linear):
        other = ~linear
        found.states[:, other], found.actions[:, other] = stepwise(states[other], actions[other])
    return found
