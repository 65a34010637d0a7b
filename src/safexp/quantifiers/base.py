"""Base class of uncertainty quantifiers (the paper's Assumption 3.3)."""

from __future__ import annotations

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.core.files import plain

STRETCH = 100
"""Number of successive transitions that form a stretch if episodes are not known."""

CHUNK = 1000
"""Number of predictions at a time; a deep GP needs 50 MB for them."""


class Transitions(NamedTuple):
    """Logged steps for a quantifier to learn from.

    `states` (n, ds) are observations flattened to vectors, `actions` (n, da) the *executed* actions (discrete
    ones one-hot), `costs` (n,) or (n, K) lie in [0, 1], `margins` (n,) are signed distances to the limit after the
    step, if the task provides them, and `episodes` (n,) are the numbers of the steps' episodes, if known. `signals`
    (n, S) are those that `Within` limits, after the step; states then end with the same signals before the step.
    `next_states` (n, ds) are the states after the step, for quantifiers that look ahead.

    Users give a `Log`; a shield encodes it.

    Example:
        >>> data = safexp.Transitions(np.zeros((3, 2)), np.ones((3, 1)), costs=np.array([0.0, 0.2, 0.0]))
        >>> float(data.costs.max())
        0.2
    """

    states: Array
    actions: Array
    costs: Array
    margins: Array | None = None
    episodes: NDArray[np.int64] | None = None
    signals: Array | None = None
    next_states: Array | None = None


def rows_of(data: Transitions, rows: Any) -> Transitions:
    """Select some of the transitions."""
    return Transitions(*(None if part is None else part[rows] for part in data))  # type: ignore[arg-type]


def stretches_of(data: Transitions) -> NDArray[np.int64]:
    """Index (n,) of each transition's stretch, from 0: its episode, or a block of successive transitions."""
    if data.episodes is None:
        return np.arange(len(data.costs)) // STRETCH
    return np.unique(data.episodes, return_inverse=True)[1]


def chunks_of(data: Transitions) -> Iterator[Transitions]:
    """All transitions in order, a part at a time; at least one part."""
    for rows in np.array_split(np.arange(len(data.costs)), len(data.costs) // CHUNK + 1):
        yield rows_of(data, rows)


def error_in_widths(error: Array, width: Array) -> Array:
    """Error / width: 0 where a width of 0 was right, infinite where it was wrong or the width is not finite."""
    over = np.where(width > 0, error, np.where(error > 1e-9, np.inf, 0.0))
    scores = over / np.where(width > 0, width, 1.0)
    return np.where(np.isfinite(error) & (width >= 0), scores, np.inf)


class Quantifier(ABC):
    """Prediction of the cost g(s, a) as `mean ± width`, right for all (s, a) and the whole run with probability 1 − δ.

    A subclass defines `predict` and `update`, sets `delta`, and stores the arguments of its constructor as attributes
    of the same names; `fit`, `settings` and `with_delta` follow from that. One that learns also defines `state` and
    `restore`: anything they omit is neither saved nor copied by `with_delta`.

    Attributes:
        delta: the probability, over the whole run and not per step, that the interval ever misses.
        num_costs: number K of costs it bounds.
        num_signals: number S of measured signals at the end of a state; see `ChangeModel`.
        bounds_realised_cost: `mean + width` bounds the cost that is *observed*, not only its expectation; only then may
            a shield round the bound down to a level that can occur.
        is_regression: it can model any number (`as_regression`), as `ChangeModel` requires.
        looks_ahead: it bounds the costs of an action followed by a backup, and learns from next states.

    Example:
        The mean of all costs so far, trusted to be within `width` of every cost.

        >>> class Constant(safexp.Quantifier):
        ...     def __init__(self, width: float, *, delta: float = 0.01) -> None:
        ...         self.width, self.delta = width, delta
        ...         self.costs = np.ones(1)
        ...     def predict(self, states, actions):
        ...         shape = actions.shape[:2]
        ...         return np.full(shape, self.costs.mean()), np.full(shape, self.width)
        ...     def update(self, data):
        ...         self.costs = np.append(self.costs, data.costs)
        >>> Constant(0.5).with_delta(0.001).settings()
        {'width': 0.5, 'delta': 0.001}
    """

    delta: float
    num_costs: int = 1
    num_signals: int = 0
    bounds_realised_cost: bool = False
    is_regression: bool = False
    looks_ahead: bool = False

    @abstractmethod
    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Mean and width (n, m), or (n, m, K) for K > 1, of the costs of `actions` (n, m, da) in `states` (n, ds)."""

    def interval(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Mean and width of the modelled quantity, (n, m) or (n, m, S): by default the costs."""
        return self.predict(states, actions)

    def scaled_interval(self, states: Array, actions: Array, scale: float) -> tuple[Array, Array]:
        """`interval` with `scale` times the width."""
        mean, width = self.interval(states, actions)
        return np.asarray(mean), scale * np.asarray(width)

    def outcomes(self, states: Array, actions: Array) -> Array | None:
        """Where actions (n, m, da) lead, as predicted vectors (n, m, e); None if the model does not look that far.

        A shield replaces a refused proposal by the safe action with the most similar outcome.
        """
        return None

    def score(self, data: Transitions, *, held_out: bool = False) -> Array:
        """The largest error of each transition (n,) in widths, for `Calibrated`.

        `held_out` if they were held out to calibrate: then no error is excused by the distance from what was learned.
        """
        found = []
        for some in chunks_of(data):
            mean, width = (np.asarray(part)[:, 0] for part in self.interval(some.states, some.actions[:, None]))
            errors = error_in_widths(self.error(self.observed(some), mean), width)
            found.append(errors.max(axis=tuple(range(1, errors.ndim))))
        return np.concatenate(found)

    def as_costs(self, mean: Array, width: Array) -> tuple[Array, Array]:
        """Convert an `interval` to mean and width of the costs."""
        return mean, width

    def observed(self, data: Transitions) -> Array:
        """Observed values of the modelled quantity, (n,) or (n, S)."""
        return data.costs

    def error(self, observed: Array, mean: Array) -> Array:
        """Error of the mean in the unsafe direction: for costs, that the observed one is larger."""
        return observed - mean

    def nearness(self, data: Transitions) -> Array:
        """Nearness of each transition to its limit (n,); larger is nearer. By default its largest cost."""
        return np.asarray(data.costs.max(axis=tuple(range(1, data.costs.ndim))))

    @property
    def knows(self) -> bool:
        """Whether it has learned anything yet."""
        return all(part.knows for part in inner_of(self))

    @property
    def promises_coverage(self) -> bool:
        """Whether its widths hold by measurement or under the user's assumptions, rather than by a fit alone."""
        return all(part.promises_coverage for part in inner_of(self))

    def as_regression(self, delta: float) -> Quantifier:
        """An untrained copy that models any numbers around 0, if `is_regression`."""
        raise TypeError(f"{type(self).__name__} models only costs.")

    @abstractmethod
    def update(self, data: Transitions) -> None:
        """Learn from further transitions."""

    def fit(self, data: Transitions) -> None:
        """Learn from these transitions alone, from scratch; if that raises, the previous state is kept."""
        anew = type(self)(**arguments_of(self))
        anew.update(data)
        self.__dict__ = vars(anew)

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments as JSON values; raises `TypeError` if one cannot be represented.

        Quantifiers among them are omitted: files describe each of `inner_of` separately.
        """
        given = {name: value for name, value in arguments_of(self).items() if not isinstance(value, Quantifier)}
        return {name: _as_json(self, name, value) for name, value in given.items()}

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything learned, as named arrays; empty by default."""
        return {}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:  # noqa: B027 (nothing was learned)
        """Restore what `state` returned."""

    def with_delta(self, delta: float) -> Self:
        """A copy that may miss with probability `delta`, itself or through its inner quantifiers.

        `AllOf` gives each of its K costs δ/K.
        """
        given = {name: _with_delta(name, value, delta) for name, value in arguments_of(self).items()}
        copy = type(self)(**given)
        copy.restore(self.state())
        return copy


def arguments_of(quantifier: Quantifier) -> dict[str, Any]:
    """The constructor's arguments, which the quantifier stores as attributes of the same names."""
    taken = inspect.signature(type(quantifier)).parameters.values()
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if missing := [one.name for one in taken if one.kind in variadic or not hasattr(quantifier, one.name)]:
        owner = type(quantifier).__name__
        raise TypeError(
            f"{owner} does not store its argument {missing[0]}: set self.{missing[0]} in {owner}.__init__, or define "
            f"{owner}.fit, .settings and .with_delta."
        )
    return {one.name: getattr(quantifier, one.name) for one in taken}


def inner_of(quantifier: Quantifier) -> tuple[Quantifier, ...]:
    """The quantifiers inside this one: its `parts`, or its `quantifier`."""
    parts = getattr(quantifier, "parts", (getattr(quantifier, "quantifier", None),))
    return tuple(part for part in parts if isinstance(part, Quantifier))


def state_of_parts(parts: Sequence[Quantifier]) -> dict[str, NDArray[Any]]:
    """Everything that several quantifiers have learned, as named arrays."""
    return {f"{k}.{name}": array for k, part in enumerate(parts) for name, array in part.state().items()}


def restore_parts(parts: Sequence[Quantifier], state: dict[str, NDArray[Any]]) -> None:
    """Restore the output of `state_of_parts`."""
    for k, part in enumerate(parts):
        own = f"{k}."
        part.restore({name.removeprefix(own): array for name, array in state.items() if name.startswith(own)})


def _as_json(owner: Quantifier, name: str, value: Any) -> Any:
    value = plain(value)
    try:
        json.dumps(value)
    except TypeError as error:
        raise TypeError(
            f"{type(owner).__name__}({name}=...) has the type {type(value).__name__}, which a file cannot store; "
            "pass the quantifier again when loading."
        ) from error
    return value


def _with_delta(name: str, value: Any, delta: float) -> Any:
    """The value of an argument in a copy with another δ."""
    if isinstance(value, Quantifier):
        return value.with_delta(delta)
    return delta if name == "delta" else value
