"""Choice of a one-step model: the degree and ridge that best predict the stretches closest to the limits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from safexp.core.arrays import Array
from safexp.core.signals import Sides
from safexp.quantifiers.base import Transitions, rows_of, stretches_of
from safexp.quantifiers.dynamics import Dynamics
from safexp.quantifiers.polynomial import degrees
from safexp.quantifiers.replays import Course, drilled, evenly, next_states_of, replay

HELD_OUT = 0.2
"""Share of stretches, those closest to the limits, by which models are judged."""

WINDOWS = 1000
"""Number of replays by which they are judged."""

NEGLIGIBLE = 0.1, 1e-6
"""Share of the smallest error, and error in scales of the limits, by which a simpler model may be worse."""

RIDGES = (0.0, 1e-4)
"""Ridges that are tried for degrees 2 and 3 (`Dynamics.shrunk`)."""


class Choice(NamedTuple):
    """What models are chosen by: errors of the limited signals on the way of a backup.

    `nearness` (n,) of the transitions to the limits orders the stretches; `by_backup` if drills alone judge.
    """

    course: Course
    sides: Sides
    nearness: Array
    by_backup: bool


def chosen_model(data: Transitions, choice: Choice, *, degree: int | None, inputs: tuple[int, ...] | None) -> Dynamics:
    """The best model, fitted to all data; of a given degree, or of any that the data allow."""
    size = data.states.shape[1] if inputs is None else len(inputs)
    tried = [degree] if degree is not None else degrees(size + data.actions.shape[1], len(data.states))
    choices = [(one, ridge) for one in tried for ridge in (RIDGES if one > 1 else RIDGES[:1])]
    best = choices[0]
    if len(choices) > 1:
        stretches = stretches_of(data)
        boldness = np.full(stretches.max() + 1, -np.inf)
        np.maximum.at(boldness, stretches, choice.nearness)
        bold = boldness[stretches] > np.quantile(boldness, 1 - HELD_OUT)
        if bold.any() and not bold.all():
            models = {one: fitted(one, inputs, rows_of(data, ~bold)) for one in tried}
            held_out = rows_of(data, bold)
            losses = [loss(models[one].shrunk(ridge), choice, held_out) for one, ridge in choices]
            best = choices[simplest(np.sqrt(losses))]
    return fitted(best[0], inputs, data).shrunk(best[1])


def fitted(degree: int, inputs: tuple[int, ...] | None, data: Transitions) -> Dynamics:
    """A model of this degree."""
    model = Dynamics(degree, inputs)
    model.add(data.states, data.actions, next_states_of(data))
    return model


def loss(model: Dynamics, choice: Choice, held_out: Transitions) -> float:
    """Mean square of the largest error of each replay of the held-out stretches, in scales of the limits."""
    course, sides, _, by_backup = choice
    starts = drilled(course, held_out) if by_backup else evenly(held_out, WINDOWS)
    if not len(starts):
        return 0.0
    found = replay(model.step, course, held_out, starts)
    with np.errstate(over="ignore", invalid="ignore"):
        predicted = course.signals(found.trajectory.states)[1:]
        errors = np.abs(predicted - found.signals)[..., sides.which] / sides.scale
    largest = np.nan_to_num(np.where(found.within[..., None], errors, 0.0), nan=np.inf).max(axis=(0, 2))
    return float(np.mean(largest**2))


def simplest(losses: Array) -> int:
    """Index of the first loss that is not larger than the smallest, but for a negligible difference.

    Simpler models extrapolate better.
    """
    share, error = NEGLIGIBLE
    return int(np.argmax(losses <= (1.0 + share) * losses.min() + error))
