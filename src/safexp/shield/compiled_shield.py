"""Shield compiled to machine code: the same decisions, in a few microseconds."""

from __future__ import annotations

import copy
import ctypes
from threading import local
from typing import Any, final

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from safexp.compiled.build import build_library
from safexp.compiled.encoding import flat_size, flatten
from safexp.compiled.source import Precision, Source, translate
from safexp.core.arrays import Array, Observations, as_batch, batch_size
from safexp.core.encoding import ActionSpace, encode_actions
from safexp.shield.blueprints import blueprint_of
from safexp.shield.decisions import Decision, Decisions
from safexp.shield.questions import checked_thresholds, steady_thresholds
from safexp.shield.shield import Shield

PROPOSAL, REPLACEMENT, BACKUP, NOTHING_SAFE = range(4)
"""Outcomes of the C functions; larger ones are refused questions."""


@final
class CompiledShield:
    """Drop-in for `Shield.filter` and `filter_batch`, built with the system's C compiler from `Shield.export_c`.

    Decisions are those of the shield as it was when this object was made, or at the last `refresh`. The compiled code
    is cached and does not contain the learned numbers, so a shield that is fitted again needs no compiler. Threads may
    share it.

    If a part cannot be exported, docs/how-to/c-export.md lists what can take its place.

    Args:
        shield: the shield to compile.
        precision: "double", or "float" for what a small processor would compute.

    Raises:
        ValueError: if a part of the shield cannot be exported.
        CompilerError: if there is no C compiler.

    Example:
        >>> box = gym.spaces.Box(-1.0, 1.0, (1,), np.float64)
        >>> shield = safexp.Shield(safexp.Known(safexp.Linear([0.5], [0.5])), box, box)
        >>> fast = safexp.CompiledShield(shield)
        >>> seen, proposed = np.array([0.2]), np.array([0.9])
        >>> bool(fast.filter(seen, proposed, 0.4).action == shield.filter(seen, proposed, 0.4).action)
        True
    """

    def __init__(self, shield: Shield, *, precision: Precision = "double") -> None:
        self.shield = shield
        self.precision = precision
        self.num_costs = shield.quantifier.num_costs
        self._kind: Any = np.float64 if precision == "double" else np.float32
        self._code = ""
        self._library: Any = None
        self._model: NDArray[Any] = np.zeros(0)
        self._threads = local()
        self.refresh()

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledShield:
        """A copy for a copy of the shield; it shares the code and the numbers, which never change."""
        twin = object.__new__(CompiledShield)
        memo[id(self)] = twin
        twin.__dict__ = vars(self) | {"shield": copy.deepcopy(self.shield, memo), "_threads": local()}
        return twin

    def refresh(self) -> None:
        """Take over what the shield has learned in the meantime."""
        source: Source = translate(blueprint_of(self.shield), precision=self.precision, binding=True)
        if source.code != self._code:
            self._library, self._code = ctypes.CDLL(str(build_library(source))), source.code
            self._library.shield_filter.argtypes = (ctypes.c_void_p,) * 7
            for name in (
                "shield_attach",
                "shield_predict",
                "shield_filter_many",
                "shield_time_many",
                "shield_time_loop",
            ):
                getattr(self._library, name).restype = None
        with np.errstate(over="ignore"):  # beyond the range of single precision is infinite
            self._model = np.ascontiguousarray(source.model, dtype=self._kind)
        self._threads = local()

    def filter(
        self,
        observation: Any,
        action: Any,
        threshold: float | ArrayLike | None = None,
        *,
        measured: ArrayLike | None = None,
        last_safe: Any | None = None,
    ) -> Decision:
        """As `Shield.filter`, without preferences."""
        desk = self._desk()
        if not desk.place(observation, action, threshold, measured, last_safe):
            return self._filter_slowly(observation, action, threshold, measured, last_safe)
        self._library.shield_filter(*desk.pointers, None if last_safe is None else desk.last, desk.decision)
        outcome = int(desk.outcome[0])
        if outcome > NOTHING_SAFE:
            return self._filter_slowly(observation, action, threshold, measured, last_safe)
        chosen: Any = None
        if outcome == BACKUP:
            chosen = desk.action.copy()
        elif outcome != NOTHING_SAFE:
            chosen = desk.action.astype(self.shield.action_space.dtype)
            chosen = chosen if chosen.ndim else chosen[()]
        bounds = desk.bounds.astype(np.float64)
        single = desk.single if threshold is None else not np.ndim(threshold)
        return Decision(
            chosen,
            outcome == REPLACEMENT,
            outcome == NOTHING_SAFE,
            bool(desk.outcome[1]),
            float(bounds[0]) if single else bounds,
            takeover=outcome == BACKUP,
        )

    def _filter_slowly(
        self, observation: Any, action: Any, threshold: Any, measured: ArrayLike | None, last_safe: Any | None
    ) -> Decision:
        """`filter` for any space, and with errors for arguments that cannot be decided about."""
        batch = as_batch(observation)
        limit = steady_thresholds(self.shield.constraint, batch)[0] if threshold is None else np.asarray(threshold)
        found, decided = self._decided(
            batch,
            np.asarray(action)[None],
            limit[None],
            None if measured is None else np.atleast_1d(measured)[None],
            None if last_safe is None else np.asarray(last_safe)[None],
        )
        decision = found.first(single=not limit.ndim)
        if decided["outcome"][0] == BACKUP:
            driven = decided["action"][0].reshape(self.shield.action_space.shape or ())
            return decision._replace(action=driven, stopped=False, takeover=True)
        return decision

    def filter_batch(
        self,
        observations: Observations,
        actions: NDArray[Any],
        thresholds: ArrayLike | None = None,
        *,
        measured: ArrayLike | None = None,
        last_safe: NDArray[Any] | None = None,
    ) -> Decisions:
        """As `Shield.filter_batch`, without preferences."""
        limits = steady_thresholds(self.shield.constraint, observations) if thresholds is None else thresholds
        found, _ = self._decided(observations, actions, limits, measured, last_safe)
        return found._replace(upper_bounds=found.upper_bounds.reshape(np.shape(limits)))

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Mean and width (n, m, K) of the costs of encoded actions (n, m, da) in states (n, ds)."""
        n, m, _ = actions.shape
        mean, width = (np.empty((n, m, self.shield.quantifier.num_costs), dtype=self._kind) for _ in range(2))
        given = self._numbers(states), self._numbers(actions)
        self._library.shield_predict(self._state(), n, m, *map(_pointer, (*given, mean, width)))
        return np.asarray(mean, dtype=np.float64), np.asarray(width, dtype=np.float64)

    def timed(
        self,
        observations: Observations,
        actions: NDArray[Any],
        thresholds: ArrayLike,
        measured: ArrayLike | None = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """Outcomes of decisions, one after the other, with their nanoseconds of wall and processor time, (n,) each."""
        numbers, decisions = self._asked(observations, actions, thresholds, measured)
        wall, busy = np.ones((2, len(decisions)), dtype=np.int64)
        state = self._state()
        self._library.shield_time_many(state, len(decisions), *numbers, *map(_pointer, (decisions, wall, busy)))
        return decisions["outcome"], wall, busy

    def timed_loop(self, count: int, turns: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """`timed` for a loop with this many turns, (count,) each: what the machine adds to any computation."""
        wall, busy = np.ones((2, count), dtype=np.int64)
        self._library.shield_time_loop(count, turns, _pointer(wall), _pointer(busy))
        return wall, busy

    def _asked(
        self, observations: Observations, actions: NDArray[Any], thresholds: ArrayLike, measured: ArrayLike | None
    ) -> tuple[list[Any], NDArray[Any]]:
        """Pointers to the numbers of a question, and an array for the decisions."""
        shield = self.shield
        n, quantifier = batch_size(observations), shield.quantifier
        limits = self._numbers(checked_thresholds(thresholds, n, quantifier))
        seen = self._numbers(flatten(shield.observation_space, observations))
        signals = None if measured is None or not quantifier.num_signals else self._numbers(measured)
        proposals = self._numbers(np.asarray(actions, dtype=np.float64).reshape(len(actions), -1))
        size = int(np.prod(shield.action_space.shape or ()))
        if (
            seen.shape != (n, flat_size(shield.observation_space))
            or proposals.shape != (n, size)
            or (signals is not None and signals.shape != (n, quantifier.num_signals))
        ):
            self._refuse(observations, actions, thresholds, measured)
        decided = decision_type(shield.action_space, quantifier.num_costs, self._kind)
        numbers = [seen, signals, proposals, limits]
        self._threads.numbers = numbers  # alive until the call is over
        return [None if part is None else _pointer(part) for part in numbers], np.empty(n, dtype=decided)

    def _decided(
        self,
        observations: Observations,
        actions: NDArray[Any],
        thresholds: ArrayLike,
        measured: ArrayLike | None,
        last_safe: NDArray[Any] | None,
    ) -> tuple[Decisions, NDArray[Any]]:
        """Decisions as Python's, and as C returned them."""
        numbers, decisions = self._asked(observations, actions, thresholds, measured)
        last = None if last_safe is None else self._numbers(np.reshape(last_safe, (len(decisions), -1)))
        if last is not None and isinstance(self.shield.action_space, spaces.Box):
            encode_actions(self.shield.action_space, np.asarray(last_safe))  # raises if they are not actions
        pointer = None if last is None else _pointer(last)
        self._library.shield_filter_many(self._state(), len(decisions), *numbers, pointer, _pointer(decisions))
        outcomes = decisions["outcome"]
        if (outcomes > NOTHING_SAFE).any():
            self._refuse(observations, actions, thresholds, measured)
        space = self.shield.action_space
        chosen = decisions["action"].astype(space.dtype).reshape(len(decisions), *(space.shape or ()))
        stopped, vouched = (outcomes == NOTHING_SAFE) | (outcomes == BACKUP), decisions["vouched"] == 1
        bounds = decisions["bounds"].astype(np.float64)
        return Decisions(chosen, outcomes == REPLACEMENT, stopped, vouched, bounds), decisions

    def _refuse(
        self, observations: Observations, actions: NDArray[Any], thresholds: ArrayLike, measured: ArrayLike | None
    ) -> None:
        """Raise the error that the Python shield raises for a question that it does not take."""
        self.shield.question(observations, thresholds, measured=measured)
        encode_actions(self.shield.action_space, np.asarray(actions))
        raise ValueError("the compiled shield was asked with arrays of the wrong shape.")

    def _desk(self) -> _Desk:
        """The struct of this thread, and its buffers."""
        desk: _Desk | None = getattr(self._threads, "desk", None)
        if desk is None:
            state = np.zeros(self._library.shield_size(), dtype=np.int8)
            self._library.shield_init(_pointer(state), None)
            self._library.shield_attach(_pointer(state), _pointer(self._model))
            self._threads.desk = desk = _Desk(self.shield, self._kind, state)
        return desk

    def _state(self) -> Any:
        return _pointer(self._desk().state)

    def _numbers(self, values: ArrayLike) -> NDArray[Any]:
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(values, dtype=self._kind)


class _Desk:
    """Buffers of one thread for a single question, and pointers to them in the order of `shield_filter`."""

    def __init__(self, shield: Shield, kind: Any, state: NDArray[Any]) -> None:
        quantifier, space = shield.quantifier, shield.action_space
        self.state = state
        box = isinstance(shield.observation_space, spaces.Box)
        self._shape = shield.observation_space.shape if box else None
        self._seen = np.zeros(self._shape or (1,), dtype=kind)
        self._signals = np.zeros(max(quantifier.num_signals, 1), dtype=kind)
        self._told = quantifier.num_signals > 0
        self._action_shape = space.shape or ()
        self._proposal, self._last_safe = (np.zeros(self._action_shape, dtype=kind) for _ in range(2))
        self._limits = np.zeros(quantifier.num_costs, dtype=kind)
        self._steady = _steady(shield)
        self.single = self._steady is not None and not self._steady.ndim
        decided = np.zeros(1, dtype=decision_type(space, quantifier.num_costs, kind))
        self._decided = decided
        self.outcome = decided.view(np.int32)[:2]
        self.action = decided["action"][0].reshape(self._action_shape)
        self.bounds = decided["bounds"][0]
        self._with_signals, self._without = (
            [_pointer(state), _pointer(self._seen), signals, _pointer(self._proposal), _pointer(self._limits)]
            for signals in (_pointer(self._signals), None)
        )
        self.pointers = self._without
        self.last, self.decision = _pointer(self._last_safe), _pointer(decided)

    def place(
        self, observation: Any, action: Any, threshold: Any, measured: ArrayLike | None, last_safe: Any | None
    ) -> bool:
        """Copy a question into the buffers; False if it does not fit."""
        limit = self._steady if threshold is None else threshold
        if limit is None or np.shape(observation) != self._shape or np.shape(action) != self._action_shape:
            return False
        if np.shape(limit) != self._limits.shape and (np.ndim(limit) or self._limits.size != 1):
            return False
        if measured is not None and np.shape(np.atleast_1d(measured)) != self._signals.shape and self._told:
            return False
        if last_safe is not None and np.shape(last_safe) != self._action_shape:
            return False
        self._seen[...], self._proposal[...], self._limits[...] = observation, action, limit
        self.pointers = self._without
        if measured is not None and self._told:
            self._signals[...] = measured
            self.pointers = self._with_signals
        if last_safe is not None:
            self._last_safe[...] = last_safe
        return True


def _steady(shield: Shield) -> Array | None:
    """Thresholds () or (K,) that hold at every step, or None."""
    if shield.constraint is None or shield.constraint.in_observation:
        return None
    return np.asarray(shield.constraint.threshold(shield.constraint.start(np.zeros((1, 1))))[0])


def decision_type(space: ActionSpace, num_costs: int, kind: Any) -> np.dtype[Any]:
    """The C struct `shield_decision`."""
    size = int(np.prod(space.shape or ()))
    fields = [("outcome", np.int32), ("vouched", np.int32), ("action", kind, (size,)), ("bounds", kind, (num_costs,))]
    return np.dtype(fields, align=True)


def _pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
