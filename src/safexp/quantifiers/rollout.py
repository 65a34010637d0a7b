"""Look-ahead certificate: a learned one-step model, rolled out through a backup controller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array, every, some
from safexp.core.signals import Sides
from safexp.quantifiers.base import Quantifier, Transitions, arguments_of, error_in_widths, stretches_of
from safexp.quantifiers.boldness import by_boldness
from safexp.quantifiers.closed_loop import ClosedLoop, linear_gains, through_backup
from safexp.quantifiers.dynamics import Dynamics
from safexp.quantifiers.dynamics_choice import Choice, chosen_model
from safexp.quantifiers.path_errors import LEAST_WIDTH, PathErrors, distances
from safexp.quantifiers.regression import check_delta
from safexp.quantifiers.replays import (
    Course,
    Prediction,
    Replay,
    drilled,
    evenly,
    followed,
    next_states_of,
    replay,
    thinned,
)
from safexp.quantifiers.support import Support, tested_reach
from safexp.quantifiers.targets import normal_multiplier

ENOUGH_DRILLS = 59
"""Number of stretches with a drill from which on drills alone judge a model: what `Calibrated` needs for δ = 5%."""


class Path(NamedTuple):
    """Predicted signals (T, n, S) after each of T steps, and their widths (T, n, S)."""

    signals: Array
    widths: Array


class Rollout(Quantifier):
    """Look-ahead certificate of limits on signals: an action, then the backup for its horizon.

    A polynomial one-step model (`Dynamics`) is learned from all transitions, whoever drove, and rolled out through the
    backup. After k steps in which a signal has covered the distance w, its width is

        z · √(α_k + β_k · w²) · √(1 + largest squared leverage so far) + 1% of w,

    which `Calibrated` scales, plus 1% of the signal's usual change in a step, which it does not.

    Here α_k is the mean squared error after k steps of those replays (below) that covered less than the median
    distance, and β_k · w² is the excess of the others. So widths grow with time and speed as errors do, and a machine
    at rest has a small width. Leverage, the uncertainty of the model's weights, changes slowly along a path and is
    computed after 0, 1, 2, 4, 8, … steps. The width is infinite once the path has left the support of the data
    (`Support`). The bound of a limit is the worst over the path. The observations must determine the next ones:
    positions with their speeds, and anything else with a delayed effect.

    `score`, for `Calibrated`, replays stretches of the data. If there are enough in which the backup itself drove for
    its horizon (drills), every transition is replayed for as long as the backup drove after it. Otherwise the model is
    driven by the backup plus the difference between the logged action and the backup's, so that feedback acts on the
    prediction as it did on the machine, and any log can judge the model. Only errors towards a limit count.

    If nothing is certified, episodes are too short (log several horizons in each), the observation lacks a speed, or
    the backup acts as the log never does. Where one step is enough, `ChangeModel` needs less data.

    Args:
        degree: degree of the polynomials, 1 to 3; by default the one that best predicts the fifth of the stretches that
            comes closest to the limits. Whether their weights are penalised is chosen likewise.
        inputs: entries of the state that its change depends on: those of the encoded observation counted from 0, then
            the signals; all by default.
        reach: how far beyond the range of an input anything is certified, in standard deviations (`Support`); by
            default as far as the boldest stretches of the data left the range of the others (`tested_reach`).
        delta: probability that a width fails, under a normal distribution; `Calibrated` measures it.
        sides: limits whose costs are bounded; set by a shield from its constraint.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> states, pushes = np.zeros((60, 61, 2)), rng.uniform(-1, 1, (60, 60, 1))  # place and speed of 60 carts
        >>> for k in range(60):
        ...     speed = 0.95 * states[:, k, 1:] + 0.1 * pushes[:, k]
        ...     states[:, k + 1] = np.hstack([states[:, k, :1] + 0.1 * speed, speed])
        >>> before, after = states[:, :-1].reshape(-1, 2), states[:, 1:].reshape(-1, 2)
        >>> log = safexp.Log(before, pushes.reshape(-1, 1), episodes=np.repeat(range(60), 60), next_observations=after)
        >>> brake = safexp.Backup(safexp.LinearFeedback([[0.0, -3.0]], low=-1.0, high=1.0), horizon=15)
        >>> places, forces = gym.spaces.Box(-5, 5, (2,), np.float64), gym.spaces.Box(-1, 1, (1,), np.float64)
        >>> wall = safexp.Within(0, high=1.0)
        >>> shield = safexp.Shield(safexp.Rollout(degree=1), places, forces, constraint=wall, backup=brake)
        >>> shield.fit(log)
        >>> [shield.filter(np.array([x, 0.3]), np.array([1.0])).takeover for x in (0.0, 0.98)]
        [False, True]
    """

    bounds_realised_cost = True
    promises_coverage = False
    looks_ahead = True

    def __init__(
        self,
        *,
        degree: int | None = None,
        inputs: Sequence[int] | None = None,
        reach: float | None = None,
        delta: float = 0.05,
        sides: Sides | None = None,
    ) -> None:
        if degree not in (None, 1, 2, 3):
            raise ValueError(f"Rollout(degree={degree}) must be 1, 2 or 3, or None to choose it by the data.")
        check_delta("Rollout", delta)
        if reach is not None:
            Support(reach)  # checks it
        self.degree = degree
        self.inputs = None if inputs is None else tuple(inputs)
        self.reach = reach
        self.delta = delta
        self.sides = None if sides is None else Sides.of(*sides)
        self.num_signals = 0 if self.sides is None else int(self.sides.which.max()) + 1
        self.num_costs = 1 if self.sides is None else len(self.sides.which)
        self._course: Course | None = None
        self._model: Dynamics | None = None
        self._by_backup = False
        self._support = Support()
        self._gains: Array | None = None  # of a linear backup
        self._loop: ClosedLoop | None = None
        self._errors = PathErrors.none(0, 0)

    def bound_to(self, sides: Sides, course: Course) -> Rollout:
        """Unfitted copy for these limits and this backup."""
        bound = Rollout(**(arguments_of(self) | {"sides": sides}))
        bound._course = course
        return bound

    @property
    def bound(self) -> bool:
        """Whether it has its limits and its backup."""
        return self._course is not None

    @property
    def knows(self) -> bool:
        return self._model is not None

    @property
    def model(self) -> Dynamics | None:
        """The one-step model, or None before the first fit."""
        return self._model

    @property
    def support(self) -> Support:
        """Range of the data."""
        return self._support

    @property
    def errors(self) -> PathErrors:
        """Errors of replays, which determine the widths."""
        return self._errors

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        return self.as_costs(*self.interval(states, actions))

    def interval(self, states: Array, actions: Array) -> tuple[Array, Array]:
        return self.scaled_interval(states, actions, 1.0)

    def scaled_interval(self, states: Array, actions: Array, scale: float) -> tuple[Array, Array]:
        """Worst signal of each side on the path, and its width there, (n, m, K)."""
        n, m, _ = actions.shape
        sides = self._sides()
        shape = (n, m, len(sides.which))
        if self._model is None:
            return np.broadcast_to(self._now(states)[:, None], shape), np.full(shape, np.inf)
        within = np.isfinite(self._support.factor(self._inputs(states), actions))
        if every(within):
            rows = states if m == 1 else np.repeat(states, m, axis=0)
            mean, width = self._worst(self.path(rows, actions.reshape(n * m, -1)), scale)
            return mean.reshape(shape), width.reshape(shape)
        mean, width = np.zeros(shape), np.full(shape, np.inf)
        if some(within):
            mean[within], width[within] = self._worst(self.path(states[within.nonzero()[0]], actions[within]), scale)
        return mean, width

    def _worst(self, path: Path, scale: float) -> tuple[Array, Array]:
        """Worst signal (n, K) of each side on a path and its width there, infinite where there is none."""
        sides = self._sides()
        signals, widths = path.signals[..., sides.which], (scale * path.widths + self._errors.least)[..., sides.which]
        with np.errstate(invalid="ignore"):
            worst = (sides.sign * signals + widths).argmax(axis=0)  # NaN, an unknown signal, counts as the largest
        at = worst, np.arange(worst.shape[0])[:, None], np.arange(worst.shape[1])
        mean, width = signals[at], widths[at]
        if some(unknown := ~np.isfinite(width)):
            mean[unknown], width[unknown] = 0.0, np.inf
        return mean, width

    def as_costs(self, mean: Array, width: Array) -> tuple[Array, Array]:
        sides = self._sides()
        return sides.costs(mean), width / (2 * sides.scale)

    def path(self, states: Array, actions: Array) -> Path:
        """Path from states (n, ds) if these actions (n, da) are run and then the backup drives."""
        return self._path(through_backup(self._known_model().step, self._bound_course(), self._loop, states, actions))

    def nearness(self, data: Transitions) -> Array:
        sides = self._sides()
        signals = self._bound_course().signals(np.stack([data.states, next_states_of(data)]))[1]
        return np.asarray(sides.costs(signals[:, sides.which]).max(axis=1))

    def score(self, data: Transitions, *, held_out: bool = False) -> Array:
        """Largest error (n,) towards a limit, in widths, of the replay that begins with each transition, or NaN."""
        sides, scores = self._sides(), np.full(len(data.states), np.nan)
        for starts, found in self._replays(data):
            path = self._path(found.trajectory)
            errors = sides.sign * (found.signals - path.signals)[..., sides.which]
            scored = error_in_widths(np.maximum(errors, 0.0), path.widths[..., sides.which])
            scores[starts] = np.where(found.within[..., None], scored, 0.0).max(axis=(0, 2))
        return scores

    def update(self, data: Transitions) -> None:
        following = next_states_of(data)
        pairs = np.concatenate([self._inputs(data.states), data.actions], axis=1)
        if self._model is None:
            self._support = Support(self._tested_reach(data, pairs) if self.reach is None else self.reach)
            self._by_backup = self._shows_backup(data)
            question = Choice(self._bound_course(), self._sides(), self.nearness(data), self._by_backup)
            self._model = chosen_model(data, question, degree=self.degree, inputs=self.inputs)
            self._gains = linear_gains(self._bound_course().act, data.states)
            self._errors = PathErrors.none(self._bound_course().steps, self.num_signals)
            self._note_errors(data)
        else:
            self._note_errors(data)
            self._model.add(data.states, data.actions, following)
        self._loop = self._closed_loop()
        self._support.add(pairs)

    def unseen_backup(self, data: Transitions) -> float:
        """Share of these states in which the backup acts as the data never show: nothing can be certified there."""
        actions = self._bound_course().act(data.states)
        factors = self._support.factor(self._inputs(data.states), actions[:, None])
        return float(np.isinf(factors).mean())

    def fit(self, data: Transitions) -> None:
        before = vars(self).copy()
        self._model = None
        try:
            self.update(data)
        except Exception:
            self.__dict__ = before
            raise

    def settings(self) -> dict[str, Any]:
        sides = None if self.sides is None else [part.tolist() for part in self.sides]
        return {**arguments_of(self), "sides": sides}

    def state(self) -> dict[str, NDArray[Any]]:
        if self._model is None:
            return {}
        chosen = np.array([self._model.degree, self._by_backup])
        return {
            **self._model.state(),
            **self._support.state(),
            "reach": np.array([self._support.reach]),
            "moments": self._errors.moments.copy(),
            "middle": self._errors.middle.copy(),
            "chosen": chosen,
            **({} if self._gains is None else {"gains": self._gains.copy()}),
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self._model = None
        if "chosen" in state:
            degree, by_backup = state["chosen"].tolist()
            self._by_backup = bool(by_backup)
            self._model = Dynamics(int(degree), self.inputs)
            self._model.restore(state)
            self._errors = PathErrors(np.array(state["moments"]), np.array(state["middle"]))
            self._gains = np.array(state["gains"]) if "gains" in state else None
            self._loop = self._closed_loop()
            self._support = Support(float(state["reach"][0]))
        self._support.restore(state)

    def _path(self, trajectory: Prediction) -> Path:
        """Signals and widths along predicted states."""
        model = self._known_model()
        states, actions = trajectory
        steps, n, _ = actions.shape
        asked, since = _doubling(steps)
        with np.errstate(over="ignore", invalid="ignore"):
            signals = self._bound_course().signals(states)
            few = (part[asked].reshape(len(asked) * n, -1) for part in (states, actions))
            leverage = np.maximum.accumulate(model.leverage(*few).reshape(len(asked), n), axis=0)[since]
            inputs = self._inputs(states[:-1].reshape(steps * n, -1))
            factor = self._support.factor(inputs, actions.reshape(steps * n, 1, -1)).reshape(steps, n)
            ways = distances(signals)
            widths = self._errors.deviations(ways)
            widths *= (normal_multiplier(self.delta / self.num_signals) * np.sqrt(1.0 + leverage**2))[..., None]
            ways *= LEAST_WIDTH
            widths += ways
            widths *= np.maximum.accumulate(factor, axis=0)[..., None]
        signals = signals[1:]
        if not (every(np.isfinite(signals)) and every(np.isfinite(widths))):
            widths = np.where(np.isfinite(signals) & np.isfinite(widths), widths, np.inf)
        return Path(signals, widths)

    def _closed_loop(self) -> ClosedLoop | None:
        """All steps of a path at once, if the model and the backup are linear."""
        model, course = self._known_model().linear, self._course
        if model is None or course is None or self._gains is None or not ClosedLoop.small(model, course):
            return None
        return ClosedLoop(model, self._gains, course)

    def _tested_reach(self, data: Transitions, pairs: Array) -> float:
        stretches = stretches_of(data)
        return tested_reach(pairs, stretches, by_boldness(self, data, stretches), self.delta)

    def _shows_backup(self, data: Transitions) -> bool:
        """Whether the backup drove for its horizon in enough stretches to judge the model by these alone."""
        return len(np.unique(stretches_of(data)[drilled(self._bound_course(), data)])) >= ENOUGH_DRILLS

    def _replays(self, data: Transitions) -> Iterator[tuple[NDArray[np.int64], Replay]]:
        """Windows of the data that judge the model, and the transitions with which they begin."""
        course, advance = self._bound_course(), self._known_model().step
        if not self._by_backup:
            yield (starts := evenly(data)), replay(advance, course, data, starts)
            return
        steps = followed(course, data)
        for chosen, part in ((steps > 1, course), (steps == 1, course._replace(horizon=0, hold=0))):
            if len(starts := thinned(np.flatnonzero(chosen))):
                found = replay(advance, part, data, starts)
                yield starts, found._replace(within=found.within & (np.arange(part.steps)[:, None] < steps[starts]))

    def _note_errors(self, data: Transitions) -> None:
        """Add the errors of replays, and the distances of the signals, to those that determine widths."""
        signals = self._bound_course().signals
        with np.errstate(over="ignore", invalid="ignore"):
            found = [(one, signals(one.trajectory.states)) for _, one in self._replays(data)]
        self._errors = self._errors.with_replays(found)

    def _inputs(self, states: Array) -> Array:
        """Entries of states (n, ds) that their change depends on."""
        return states if self.inputs is None else states[:, list(self.inputs)]

    def _now(self, states: Array) -> Array:
        return self._bound_course().signals(states[None])[0][:, self._sides().which]

    def _sides(self) -> Sides:
        if self.sides is None:
            raise ValueError("Rollout has no limits yet: give it to a Shield or MASE with Within(...) and a backup.")
        return self.sides

    def _bound_course(self) -> Course:
        if self._course is None:
            raise ValueError("Rollout has no backup yet: give it to a Shield or MASE with backup=Backup(...).")
        return self._course

    def _known_model(self) -> Dynamics:
        if self._model is None:
            raise ValueError("Rollout has learned nothing yet.")
        return self._model


@cache
def _doubling(steps: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """0, 1, 2, 4, 8, … below `steps`, and for each step the index of the last of these."""
    doubled = np.array([0, *(2**k for k in range((steps - 1).bit_length()))])
    return doubled, np.searchsorted(doubled, np.arange(steps), side="right") - 1
