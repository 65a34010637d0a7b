"""Look-ahead certificate from a simulator that can be set to a state."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from safexp.core.arrays import Array
from safexp.core.signals import Sides
from safexp.quantifiers.base import Quantifier, Transitions, arguments_of, error_in_widths
from safexp.quantifiers.replays import Course, Prediction, drive, evenly, next_states_of, replay


class Task(NamedTuple):
    """What a certificate is for: the backup, the size of an encoded observation, and whether costs are summed."""

    course: Course
    size: int
    summed: bool


class Twin(Quantifier):
    """Look-ahead certificate by simulation: an action, then the backup for its horizon.

    Under `Within` the bound of every limit is the worst signal on the simulated path; the signals must be entries or
    functions of the observation. Otherwise `cost` is summed over the path (`Budget`) or its largest value taken
    (`Instantaneous`). A simulator that raises or returns NaN certifies nothing.

    The promise is only as good as the simulator. Under `Within`, `Calibrated(Twin(step, width=...))` measures its
    errors on logged stretches and scales the width; drills test it during training. Without a simulator, `Rollout`
    learns one from a log.

    Args:
        step: function of encoded observations (N, ds) and actions (N, da), discrete ones one-hot, that returns the next
            encoded observations (N, ds). It is called once for each step of the path, with all candidates.
        cost: function of observations, actions and next observations that returns costs (N,) in [0, 1]; not needed
            under `Within`.
        width: largest error of a signal on the path, in its own unit, or of the bounded cost.
        delta: probability that an error is ever larger.
        sides: limits whose costs are bounded; set by a shield from its constraint.

    Example:
        >>> def step(states, actions):  # place and speed of a cart
        ...     speed = states[:, 1] + 0.1 * actions[:, 0]
        ...     return np.column_stack([states[:, 0] + 0.1 * speed, speed])
        >>> brake = safexp.Backup(lambda carts: np.clip(-10 * carts[:, 1:], -1, 1), horizon=30)
        >>> places, forces = gym.spaces.Box(-9, 9, (2,), np.float64), gym.spaces.Box(-1, 1, (1,), np.float64)
        >>> shield = safexp.Shield(
        ...     safexp.Twin(step), places, forces, constraint=safexp.Within(0, high=1.0), backup=brake
        ... )
        >>> [shield.filter(np.array([x, 1.0]), np.array([1.0])).action.round(2).item() for x in (0.0, 0.45)]
        [1.0, 0.0]
    """

    bounds_realised_cost = True
    looks_ahead = True

    def __init__(
        self,
        step: Callable[[Array, Array], ArrayLike],
        *,
        cost: Callable[[Array, Array, Array], ArrayLike] | None = None,
        width: float = 0.0,
        delta: float = 0.0,
        sides: Sides | None = None,
    ) -> None:
        if not callable(step):
            raise TypeError(f"Twin(step={step!r}) must be a function of states (N, ds) and actions (N, da).")
        if not (np.isfinite(width) and width >= 0):
            raise ValueError(f"Twin(width={width}) must be finite and at least 0.")
        self.step, self.cost, self.width, self.delta = step, cost, width, delta
        self.sides = None if sides is None else Sides.of(*sides)
        self.num_signals = 0 if self.sides is None else int(self.sides.which.max()) + 1
        self.num_costs = 1 if self.sides is None else len(self.sides.which)
        self._task: Task | None = None

    def bound_to(self, sides: Sides | None, task: Task) -> Twin:
        """Copy for these limits, or for `cost` if there are none, and this backup."""
        if sides is None and self.cost is None:
            raise ValueError(
                "Twin has no cost function: give Twin(step, cost=...), or limit a signal with Within(...)."
            )
        bound = Twin(**(arguments_of(self) | {"sides": sides}))
        bound._task = task
        return bound

    @property
    def bound(self) -> bool:
        """Whether it has its limits and its backup."""
        return self._task is not None

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        return self.as_costs(*self.interval(states, actions))

    def interval(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Worst signal (n, m, K) of each limit on the path, or the bounded cost (n, m), and its width."""
        n, m, _ = actions.shape
        path = self.path(np.repeat(states, m, axis=0), actions.reshape(n * m, -1))
        worst = self._cost_of(path) if self.sides is None else self._worst_signal(path, self.sides)
        worst = worst.reshape(n, m, *worst.shape[1:])
        return worst, np.where(np.isfinite(worst), self.width, np.inf)

    def as_costs(self, mean: Array, width: Array) -> tuple[Array, Array]:
        if self.sides is None:
            return mean, width
        return self.sides.costs(mean), width / (2 * self.sides.scale)

    def path(self, states: Array, actions: Array) -> Prediction:
        """Simulated path from states (n, ds) if these actions (n, da) are run and then the backup drives."""
        course = self._bound().course
        return drive(
            self._advance, states, lambda k, now: actions if k <= course.hold else course.act(now), course.steps
        )

    def nearness(self, data: Transitions) -> Array:
        if self.sides is None:
            return super().nearness(data)
        signals = self._bound().course.signals(np.stack([data.states, next_states_of(data)]))[1]
        return np.asarray(self.sides.costs(signals[:, self.sides.which]).max(axis=1))

    def score(self, data: Transitions, *, held_out: bool = False) -> Array:
        """Largest error (n,), in widths, of the replay that begins with each transition; NaN where none does."""
        if self.sides is None:
            raise TypeError("Twin(cost=...) cannot be calibrated by a log: limit a signal with Within(...).")
        course, scores = self._bound().course, np.full(len(data.states), np.nan)
        if len(starts := evenly(data)):
            found = replay(self._advance, course, data, starts)
            errors = np.abs(course.signals(found.trajectory.states)[1:] - found.signals)
            widths = np.where(np.isfinite(errors), self.width, np.inf)
            scores[starts] = np.where(found.within[..., None], error_in_widths(errors, widths), 0.0).max(axis=(0, 2))
        return scores

    def update(self, data: Transitions) -> None:
        """Nothing to learn."""

    def fit(self, data: Transitions) -> None:
        """Nothing to learn."""

    def _worst_signal(self, path: Prediction, sides: Sides) -> Array:
        signals = self._bound().course.signals(path.states)[1:][..., sides.which]
        return np.asarray(sides.sign * np.max(sides.sign * signals, axis=0))

    def _cost_of(self, path: Prediction) -> Array:
        assert self.cost is not None, "checked when it was bound"
        task, (steps, n, _) = self._bound(), path.actions.shape
        before, after = (part[..., : task.size].reshape(steps * n, -1) for part in (path.states[:-1], path.states[1:]))
        costs = np.asarray(self.cost(before, path.actions.reshape(steps * n, -1), after), dtype=np.float64)
        if costs.shape != (steps * n,):
            raise ValueError(f"Twin's function cost returned shape {costs.shape}, expected {(steps * n,)}.")
        costs = costs.reshape(steps, n)
        return costs.sum(axis=0) if task.summed else costs.max(axis=0)

    def _advance(self, states: Array, actions: Array) -> Array:
        """States after a step; signals that follow the observation in a state are left as they are."""
        size, following = self._bound().size, states.copy()
        found = np.asarray(self.step(states[:, :size], actions), dtype=np.float64)
        if found.shape != (len(states), size):
            raise ValueError(f"Twin's function step returned shape {found.shape}, expected {(len(states), size)}.")
        following[:, :size] = found
        return following

    def _bound(self) -> Task:
        if self._task is None:
            raise ValueError("Twin has no backup yet: pass it to a Shield or MASE together with backup=Backup(...).")
        return self._task
