"""Look-ahead certificate of a robot in the plane: its path under an action and then the backup, past obstacles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array, Flags
from safexp.core.obstacles import POSE, Obstacles, distances_to, distances_to_walls, in_robot_frame, rotated
from safexp.quantifiers.base import Quantifier, Transitions, arguments_of, error_in_widths, stretches_of
from safexp.quantifiers.learned_features import LearnedFeatures
from safexp.quantifiers.linear_model import LinearModel
from safexp.quantifiers.path_quantiles import BINS, GROUPS, quantiles
from safexp.quantifiers.polynomial import Polynomial, degrees
from safexp.quantifiers.regression import check_delta
from safexp.quantifiers.relevance import relevant_inputs
from safexp.quantifiers.replays import Course, drilled, in_order, next_states_of
from safexp.quantifiers.support import REACH, Support

POINTS = 12
"""Number of points at which the path of a backup is predicted, denser in its beginning."""

HELD = 5
"""Largest number of steps between two points while an action is held."""

LEAST_WAY = 0.3
"""Share of the typical distance below which shorter stretches do not count more."""

HELD_OUT = 0.2
"""Share of the stretches by which the degree is chosen."""

LEAST_WIDTH = 0.05
"""Smallest width, as a share of that of the longest paths: calibration shall not depend on errors at rest."""

UNKNOWN = 1e9
"""Bound on the cost of a path that ends within an obstacle, or about which nothing is known."""


class Stretches(NamedTuple):
    """Stretches of the data that the backup drove, after one action of anyone.

    `inputs` (w, d) are the relevant entries of the first state and the action, `path` (w, T, 2) the places of the robot
    at the points of the path, in its own frame at the beginning, `rows` (w,) the transitions with which they begin.
    """

    inputs: Array
    path: Array
    rows: NDArray[np.int64]


class PlanarPath(Quantifier):
    """Look-ahead certificate of a robot among obstacles: an action, then the backup for its horizon.

    Learns *directly* from stretches of the data that the backup drove, whoever chose the action before them: where the
    robot is after 1, 2, … steps, in its own frame at the beginning, as a polynomial of the few entries of the
    observation that matter (`relevant_inputs`) and the action. Where it stands, and where the obstacles are, is
    measured; so the model holds everywhere on the map. The width of its place after k steps is

        (error after k steps that few of the stretches which covered about the same distance exceed) · √(1 + leverage²),

    where *few* is δ, divided by the number of points of the path. It is infinite outside the support of the data, and
    for paths that are longer than any that it shows. Errors grow with the distance: with one width for all, a robot at
    rest beside an obstacle could never leave. Their tails are heavier at rest than in motion, hence a quantile of the
    errors and not a multiple of their mean size. A section of the path costs its number of steps if it comes within
    this width of an obstacle or a wall; a path that ends there, or touches a body (`Obstacles(solid=...)`), has no
    bound. Under a limit on every step the bound is the largest cost of a step instead of the sum.

    If nothing is certified, the log has too few stretches that the backup drove; record some with drills. For limits on
    signals use `Rollout`.

    Args:
        degree: degree of the polynomial, 1 to 3; by default the one that best predicts held-out stretches.
        inputs: entries of the encoded observation that the path depends on; by default those found relevant.
        reach: see `Support`.
        delta: share of the stretches that may leave the width of their path; `Calibrated` measures it.

    Example:
        >>> obstacles = safexp.NavigationVectorEnv(1, "Point", "Static").knowledge.obstacles
        >>> constraint, certificate = safexp.Budget(20.0, among=obstacles), safexp.PlanarPath(degree=2)
        >>> constraint.among.count, certificate.looks_ahead
        (1, True)
    """

    bounds_realised_cost = True
    promises_coverage = False
    looks_ahead = True

    def __init__(
        self,
        *,
        degree: int | None = None,
        inputs: Sequence[int] | None = None,
        reach: float = REACH,
        delta: float = 0.05,
    ) -> None:
        if degree not in (None, 1, 2, 3):
            raise ValueError(f"PlanarPath(degree={degree}) must be 1, 2 or 3, or None to choose it by the data.")
        check_delta("PlanarPath", delta)
        self.degree = degree
        self.inputs = None if inputs is None else tuple(inputs)
        self.reach = reach
        self.delta = delta
        self._obstacles: Obstacles | None = None
        self._course: Course | None = None
        self._sums = True
        self._size = 0
        self._times = np.zeros(0, dtype=np.int64)
        self._model: LinearModel | None = None
        self._chosen: tuple[int, ...] = ()
        self._support = Support(reach)
        self._counts: Array = np.zeros((0, 0, 0))  # errors by group of stretches, point of the path and bin (g, T, b)
        self._spread: Array = np.zeros((0, 0))  # widths (g, T)
        self._typical = 1.0  # root mean square distance of the first stretches

    def bound_to(self, obstacles: Obstacles, course: Course, size: int, sums: bool) -> PlanarPath:
        """Unfitted copy for these obstacles and this backup; observations have `size` entries, `sums` are limited."""
        bound = PlanarPath(**arguments_of(self))
        bound._obstacles, bound._course, bound._size, bound._sums = obstacles, course, size, sums
        bound.num_signals = len(obstacles.sources)
        bound._times = points_of(course)
        return bound

    @property
    def bound(self) -> bool:
        """Whether it has its obstacles and its backup."""
        return self._course is not None

    @property
    def knows(self) -> bool:
        return self._model is not None

    @property
    def relevant(self) -> tuple[int, ...]:
        """Entries of the encoded observation that the path was found to depend on."""
        return self._chosen

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        return self.scaled_interval(states, actions, 1.0)

    def scaled_interval(self, states: Array, actions: Array, scale: float) -> tuple[Array, Array]:
        """Mean and width (n, m) of the costs of the path, with `scale` times the width of its points."""
        n, m, _ = actions.shape
        obstacles = self._bound_obstacles()
        if self._model is None:
            return np.zeros((n, m)), np.full((n, m), np.inf)
        path, widths = self.path(states, actions)
        widths = scale * widths + obstacles.speed * self._times
        places = np.repeat(in_robot_frame(states[:, self._size :]), m, axis=0)
        open_, solid = (slice(0, obstacles.count - obstacles.solid), slice(obstacles.count - obstacles.solid, None))
        clear, free = (self._clearance(path, widths, places, which) for which in (open_, solid))
        if obstacles.walls is not None:
            poses = np.repeat(states[:, self._size : self._size + POSE], m, axis=0)
            clear = np.minimum(clear, distances_to_walls(path, poses, obstacles.walls))
        # NaN and infinite widths cost
        mean, upper = (self._cost(~(clear > reach), ~(free > reach)) for reach in (0.0, widths))
        return mean.reshape(n, m), (upper - mean).reshape(n, m)

    def path(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Points (n·m, T, 2) of the paths of actions (n, m, da) in states (n, ds), and their widths (n·m, T)."""
        n, m, _ = actions.shape
        model = self._model
        assert model is not None, "fitted before it predicts"
        inputs = np.empty((n, m, len(self._chosen) + actions.shape[2]))
        inputs[..., : len(self._chosen)] = states[:, None, list(self._chosen)]
        inputs[..., len(self._chosen) :] = actions
        features = model.features(inputs.reshape(n * m, -1))
        path = model.at(features).reshape(n * m, len(self._times), 2)
        ways = _covered(path)[:, -1]
        doubt = np.sqrt(1.0 + (self._weights(ways) * model.leverage(features)) ** 2)
        factor = self._support.factor(states[:, list(self._chosen)], actions).reshape(n * m)
        return path, self._deviation(ways) * (doubt * factor)[:, None]

    def outcomes(self, states: Array, actions: Array) -> Array | None:
        """Places (n, m, 2) at the end of the time for which the actions are held."""
        hold = self._bound_course().hold
        if self._model is None or not hold:
            return None
        path, _ = self.path(states, actions)
        return path[:, np.searchsorted(self._times, 1 + hold)].reshape(*actions.shape[:2], 2)

    def score(self, data: Transitions, *, held_out: bool = False) -> Array:
        """Largest error (n,), in widths, of the stretch that begins with each transition; NaN where none does."""
        scores = np.full(len(data.states), np.nan)
        found = self._stretches(data)
        if len(found.rows):
            path, widths = self.path(data.states[found.rows], data.actions[found.rows, None])
            errors = np.linalg.norm(path - found.path, axis=-1)
            scores[found.rows] = error_in_widths(errors, widths).max(axis=1)
        return scores

    def update(self, data: Transitions) -> None:
        new = self._model is None
        if new:
            self._begin(data)
        found = self._stretches(data)
        if not new:
            found = self._within_reach(found)
        if self._model is None or not len(found.rows):
            return
        self._support.add(found.inputs)
        self._note_errors(found)
        if not new:
            self._model.add(found.inputs, _flat(found.path), self._weights(_covered(found.path)[:, -1]))

    def fit(self, data: Transitions) -> None:
        before = vars(self).copy()
        self._model, self._support = None, Support(self.reach)
        try:
            self.update(data)
        except Exception:
            self.__dict__ = before
            raise

    def state(self) -> dict[str, NDArray[Any]]:
        if self._model is None:
            return {}
        degree = self._model.degree if isinstance(self._model, Polynomial) else 0
        chosen = np.array([self._typical, degree, *self._chosen])
        learned = {**self._model.state("path."), **self._support.state()}
        return {**learned, "errors": self._counts.copy(), "chosen": chosen}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self._model = None
        if "chosen" in state:
            self._typical, degree, *chosen = state["chosen"].tolist()
            self._chosen = tuple(map(int, chosen))
            self._model = Polynomial(int(degree)) if degree else LearnedFeatures()
            self._model.restore(state, "path.")
            self._counts = np.array(state["errors"])
            self._settle()
        self._support.restore(state)

    def _clearance(self, path: Array, widths: Array, places: Array, which: slice) -> Array:
        """Distance (n, T) of each section of the paths from the edge of the nearest of some obstacles in reach.

        The obstacles are at `places` (n, m, 2), of which only those of the slice `which` count.
        """
        radii, places = self._bound_obstacles().radii[which], places[:, which]
        away = np.linalg.norm(places, axis=-1) - radii
        with np.errstate(invalid="ignore"):
            reach = _covered(path)[:, -1] + np.where(np.isfinite(widths), widths, 0.0).max(axis=1)
            count = int((away <= reach[:, None]).sum(axis=1).max(initial=0))
        if count == 0:
            return np.where(np.isfinite(path).all(axis=-1), np.inf, np.nan)
        if count < away.shape[1]:
            nearest = np.argpartition(away, count - 1, axis=1)[:, :count]
            places = np.take_along_axis(places, nearest[..., None], axis=1)
            return distances_to(path, places, radii[nearest])
        return distances_to(path, places, np.broadcast_to(radii, away.shape))

    def _cost(self, inside: Flags, touching: Flags) -> Array:
        """Cost (n,) of paths with these costly sections and sections that touch a body (n, T): the sum, or the largest.

        A path that ends inside, or touches a body, has no bound.
        """
        steps = np.diff(self._times, prepend=0)
        costs = inside @ steps.astype(np.float64) if self._sums else inside.any(axis=1).astype(np.float64)
        return np.where(inside[:, -1] | touching.any(axis=1), UNKNOWN if self._sums else 1.0, costs)

    def _begin(self, data: Transitions) -> None:
        """Choose inputs and degree by the first data."""
        every = self._stretches(data, range(self._size))
        if len(every.rows) < 2:
            return
        train = _training(stretches_of(data)[every.rows])
        size = data.actions.shape[1]
        values = _flat(every.path)
        observed, actions = every.inputs[:, :-size], every.inputs[:, -size:]
        ways = _covered(every.path)[:, -1]
        self._typical = float(np.sqrt((ways**2).mean()))
        weights = self._weights(ways)
        self._chosen = self.inputs or relevant_inputs(observed, actions, values, train, weights)
        inputs = np.concatenate([observed[:, list(self._chosen)], actions], axis=1)
        self._model = self._best_model(inputs, values, weights, train)
        self._counts = np.zeros((len(GROUPS) + 1, len(self._times), len(BINS) + 1))

    def _best_model(self, inputs: Array, values: Array, weights: Array, train: Flags) -> LinearModel:
        """The model that best predicts the stretches not in `train`, fitted to all."""
        count = int(train.sum())
        tried: list[LinearModel] = [Polynomial(one) for one in degrees(inputs.shape[1], count)]
        if self.degree is not None:
            tried = [Polynomial(self.degree)]
        elif LearnedFeatures.trainable(count):
            tried.append(LearnedFeatures())
        losses = []
        for model in tried:
            model.add(inputs[train], values[train], weights[train])
            errors = weights[~train, None] * (model.at(model.features(inputs[~train])) - values[~train])
            losses.append(float((errors**2).mean()))
        best = tried[int(np.argmin(losses))]
        best.add(inputs[~train], values[~train], weights[~train])
        return best

    def _stretches(self, data: Transitions, inputs: Sequence[int] | None = None) -> Stretches:
        """Stretches of these data that the backup drove."""
        course, following = self._bound_course(), next_states_of(data)
        starts, order = drilled(course, data), in_order(data)
        position = np.empty_like(order)
        position[order] = np.arange(len(order))
        later = order[position[starts][:, None] + self._times - 1]  # (w, T)
        pose = data.states[starts, self._size : self._size + POSE]
        places = following[later][..., self._size : self._size + 2]
        path = rotated(places - pose[:, None, :2], -pose[:, 2:])
        chosen = list(self._chosen if inputs is None else inputs)
        return Stretches(np.concatenate([data.states[starts][:, chosen], data.actions[starts]], axis=1), path, starts)

    def _within_reach(self, found: Stretches) -> Stretches:
        """Stretches that began within reach of the data: beyond a gap they would vouch for all that lies between."""
        size = len(self._chosen)
        factors = self._support.factor(found.inputs[:, :size], found.inputs[:, None, size:])[:, 0]
        near = np.isfinite(factors)
        return Stretches(found.inputs[near], found.path[near], found.rows[near])

    def _weights(self, ways: Array) -> Array:
        """Weights (n,) of errors of stretches that cover these distances (n,)."""
        return 1.0 / (LEAST_WAY * self._typical + ways)

    def _note_errors(self, found: Stretches) -> None:
        """Count the errors of stretches, by the distance covered, and derive the widths from them."""
        assert self._model is not None, "chosen before errors are noted"
        path = self._model.at(self._model.features(found.inputs)).reshape(found.path.shape)
        errors, group = np.linalg.norm(path - found.path, axis=-1), self._groups(_covered(path)[:, -1])
        bins = np.searchsorted(BINS * self._typical, errors)
        np.add.at(self._counts, (group[:, None], np.arange(errors.shape[1]), bins), 1.0)
        self._settle()

    def _settle(self) -> None:
        """Derive the width of every point of a path from the errors so far, for each group."""
        spread = self._typical * quantiles(self._counts, 1.0 - self.delta / len(self._times))
        largest = np.where(np.isfinite(spread), spread, 0.0).max(axis=0)
        self._spread = np.maximum(spread, LEAST_WIDTH * largest)

    def _deviation(self, ways: Array) -> Array:
        """Widths (n, T) of the points of paths that cover these distances (n,)."""
        return self._spread[self._groups(ways)]

    def _groups(self, ways: Array) -> NDArray[np.int64]:
        """Group (n,) of paths that cover these distances (n,)."""
        return np.searchsorted(GROUPS * self._typical, ways)

    def _bound_obstacles(self) -> Obstacles:
        if self._obstacles is None:
            raise ValueError(
                "PlanarPath has no obstacles yet: give it to a Shield or MASE with Budget(..., among=Obstacles(...)) "
                "and a backup."
            )
        return self._obstacles

    def _bound_course(self) -> Course:
        self._bound_obstacles()
        assert self._course is not None, "bound together with the obstacles"
        return self._course


def _covered(path: Array) -> Array:
    """Distance (n, T) covered up to each point of paths (n, T, 2) that begin at the origin."""
    return np.cumsum(np.linalg.norm(np.diff(path, axis=1, prepend=0.0), axis=-1), axis=1)


def points_of(course: Course) -> NDArray[np.int64]:
    """Numbers of steps (T,) after which a path is predicted: evenly while the action is held, then ever further."""
    first = 1 + course.hold
    held = np.linspace(1, first, 1 + -(-course.hold // HELD))
    after = first - 1 + np.geomspace(1, 1 + course.horizon, min(POINTS, 1 + course.horizon))
    return np.unique(np.concatenate([held, after]).round().astype(np.int64))


def _flat(path: Array) -> Array:
    return path.reshape(len(path), -1)


def _training(stretches: NDArray[np.int64]) -> Flags:
    """Which rows to learn from while models are compared: four of five stretches."""
    number = np.unique(stretches, return_inverse=True)[1]
    if number.max() == 0:
        number = np.arange(len(stretches))
    return np.asarray(number % round(1 / HELD_OUT) != 0)
