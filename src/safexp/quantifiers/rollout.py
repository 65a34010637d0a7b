"""Look-ahead certificate: a learned one-step model, rolled out through a backup controller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array, Flags
from safexp.core.signals import Sides
from safexp.quantifiers.base import Quantifier, Transitions, arguments_of, error_in_widths, stretches_of
from safexp.quantifiers.boldness import by_boldness
from safexp.quantifiers.dynamics import Dynamics
from safexp.quantifiers.dynamics_choice import Choice, chosen_model
from safexp.quantifiers.regression import check_delta
from safexp.quantifiers.replays import (
    Course,
    Prediction,
    Replay,
    drilled,
    drive,
    evenly,
    followed,
    next_states_of,
    replay,
    thinned,
)
from safexp.quantifiers.support import Support, tested_reach
from safexp.quantifiers.targets import normal_multiplier

LEAST_WIDTH = 0.01
"""Smallest width as a share of the distance that a signal has covered, and of its usual change in a step."""

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
        self._middle: Array = np.zeros((0, 0))  # median distance (T, S) of replays
        self._moments: Array = np.zeros((2, 3, 0, 0))  # below and above: counts, squared errors, distances (T, S)

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
        mean, width = np.zeros(shape), np.full(shape, np.inf)
        within = np.isfinite(self._support.factor(self._inputs(states, actions[:, 0, :0]), actions))
        if within.any():
            mean[within], width[within] = self._worst(self.path(states[within.nonzero()[0]], actions[within]), scale)
        return mean, width

    def _worst(self, path: Path, scale: float) -> tuple[Array, Array]:
        """Worst signal (n, K) of each side on a path and its width there, infinite where there is none."""
        sides = self._sides()
        signals, widths = path.signals[..., sides.which], (scale * path.widths + self.least_widths())[..., sides.which]
        with np.errstate(invalid="ignore"):
            worst = np.where(np.isfinite(widths), sides.sign * signals + widths, np.inf).argmax(axis=0)[None]
        mean, width = (np.take_along_axis(part, worst, axis=0)[0] for part in (signals, widths))
        unknown = ~(np.isfinite(mean) & np.isfinite(width))
        return np.where(unknown, 0.0, mean), np.where(unknown, np.inf, width)

    def as_costs(self, mean: Array, width: Array) -> tuple[Array, Array]:
        sides = self._sides()
        return sides.costs(mean), width / (2 * sides.scale)

    def path(self, states: Array, actions: Array) -> Path:
        """Path from states (n, ds) if these actions (n, da) are run and then the backup drives."""
        course = self._bound_course()
        driven = drive(
            self._known_model().step,
            states,
            lambda k, state: actions if k <= course.hold else course.act(state),
            course.steps,
        )
        return self._path(driven)

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
        following, pairs = next_states_of(data), self._inputs(data.states, data.actions)
        if self._model is None:
            self._support = Support(self._tested_reach(data, pairs) if self.reach is None else self.reach)
            self._by_backup = self._shows_backup(data)
            question = Choice(self._bound_course(), self._sides(), self.nearness(data), self._by_backup)
            self._model = chosen_model(data, question, degree=self.degree, inputs=self.inputs)
            self._moments = np.zeros((2, 3, self._bound_course().steps, self.num_signals))
            self._middle = np.zeros(self._moments.shape[2:])
            self._note_errors(data)
        else:
            self._note_errors(data)
            self._model.add(data.states, data.actions, following)
        self._support.add(pairs)

    def unseen_backup(self, data: Transitions) -> float:
        """Share of these states in which the backup acts as the data never show: nothing can be certified there."""
        actions = self._bound_course().act(data.states)
        factors = self._support.factor(self._inputs(data.states, actions[:, :0]), actions[:, None])
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
            "moments": self._moments.copy(),
            "middle": self._middle.copy(),
            "chosen": chosen,
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self._model = None
        if "chosen" in state:
            degree, by_backup = state["chosen"].tolist()
            self._by_backup = bool(by_backup)
            self._model = Dynamics(int(degree), self.inputs)
            self._model.restore(state)
            self._moments, self._middle = np.array(state["moments"]), np.array(state["middle"])
            self._support = Support(float(state["reach"][0]))
        self._support.restore(state)

    def _path(self, trajectory: Prediction) -> Path:
        """Signals and widths along predicted states."""
        course, model = self._bound_course(), self._known_model()
        states, actions = trajectory
        steps, n, _ = actions.shape
        flat, taken = states[:-1].reshape(steps * n, -1), actions.reshape(steps * n, -1)
        asked = _doubling(steps)
        since = np.searchsorted(asked, np.arange(steps), side="right") - 1
        with np.errstate(over="ignore", invalid="ignore"):
            all_signals = course.signals(states)
            few = (part[asked].reshape(len(asked) * n, -1) for part in (states, actions))
            leverage = np.maximum.accumulate(model.leverage(*few).reshape(len(asked), n), axis=0)[since]
            inputs = self._inputs(flat, taken[:, :0])
            factor = self._support.factor(inputs, taken[:, None]).reshape(steps, n)
            way = np.cumsum(np.abs(np.diff(all_signals, axis=0)), axis=0)
            widths = self._deviation(way) * np.sqrt(1.0 + leverage**2)[..., None] + LEAST_WIDTH * way
            widths *= np.maximum.accumulate(factor, axis=0)[..., None]
        signals = all_signals[1:]
        return Path(signals, np.where(np.isfinite(signals) & np.isfinite(widths), widths, np.inf))

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
        for chosen, some in ((steps > 1, course), (steps == 1, course._replace(horizon=0, hold=0))):
            if len(starts := thinned(np.flatnonzero(chosen))):
                found = replay(advance, some, data, starts)
                yield starts, found._replace(within=found.within & (np.arange(some.steps)[:, None] < steps[starts]))

    def _note_errors(self, data: Transitions) -> None:
        """Add the errors of replays, and the distances of the signals, to the moments that determine widths."""
        first, moments = not self._moments.any(), self._moments.copy()
        for _, found in self._replays(data):
            with np.errstate(over="ignore", invalid="ignore"):
                predicted = self._bound_course().signals(found.trajectory.states)
                ways = np.cumsum(np.abs(np.diff(predicted, axis=0)), axis=0)
                errors = predicted[1:] - found.signals
            told = found.within[..., None] & np.isfinite(errors) & np.isfinite(ways)
            errors, ways = np.where(told, errors, 0.0), np.where(told, ways, 0.0)
            steps = len(ways)
            if first:
                self._middle[:steps] = _medians(ways, told)
            above = ways > self._middle[:steps, None]
            for half, side in enumerate((told & ~above, told & above)):
                moments[half, :, :steps] += [
                    (part * side).sum(axis=1) for part in (np.ones_like(ways), errors**2, ways**2)
                ]
        self._moments = moments

    def squared_widths(self) -> tuple[Array, Array]:
        """Squared deviation (T, S) after each step, and its growth with the squared distance, from errors of replays.

        Infinite where no replay was as long.
        """
        (count, errors, _), (others, more, way) = self._moments
        level = errors / np.maximum(count, 1.0)
        excess = np.maximum(more / np.maximum(others, 1.0) - level, 0.0)
        slope = np.where(way > 0, excess * others / np.where(way > 0, way, 1.0), 0.0)
        return np.where(count > 0, level, np.inf), slope

    def least_widths(self) -> Array:
        """Width (S,) that is added to all others: 1% of the root mean square change of a signal in a step."""
        counts, _, ways = self._moments[:, :, 0].sum(axis=0)
        return np.asarray(LEAST_WIDTH * np.sqrt(ways / np.maximum(counts, 1.0)))

    def _deviation(self, ways: Array) -> Array:
        """Widths (T, n, S) of signals that have covered these distances, from the errors of replays."""
        level, slope = (part[: len(ways), None] for part in self.squared_widths())
        return normal_multiplier(self.delta / self.num_signals) * np.sqrt(level + slope * ways**2)

    def _inputs(self, states: Array, actions: Array) -> Array:
        return np.concatenate([states if self.inputs is None else states[:, list(self.inputs)], actions], axis=1)

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


def _medians(values: Array, told: Flags) -> Array:
    """Median (T, S) of the values (T, n, S) that are told, 0 if none is."""
    some = np.where(told.any(axis=1, keepdims=True), np.where(told, values, np.nan), 0.0)
    return np.asarray(np.nanmedian(some, axis=1))


def _doubling(steps: int) -> NDArray[np.int64]:
    """0, 1, 2, 4, 8, … below `steps`."""
    return np.array([0, *(2**k for k in range((steps - 1).bit_length()))])
