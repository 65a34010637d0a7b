"""A controller with a shield around it, for use: an answer at every step, in time, whatever goes wrong.

A control loop asks it at every step, and tells it what the last action cost:

    policy = ShieldedPolicy(controller, Shield.load("agent.safexp"), Budget(20), fallback=brake, deadline=0.005)
    policy.reset(observation)
    while running:
        observation, cost = plant(policy.act(observation).action)
        policy.observe(cost)
"""

from __future__ import annotations

import inspect
import logging
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from time import monotonic
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from safexp.constraints import Account, Constraint
from safexp.constraints.files import build_constraint
from safexp.core import files
from safexp.core.arrays import Array, as_batch
from safexp.core.encoding import encode_actions, encode_observations, fits
from safexp.quantifiers.base import Quantifier
from safexp.shield.candidates import SafeAction
from safexp.shield.files import build_shield
from safexp.shield.shield import Shield

log = logging.getLogger("safexp")

Outcome = Literal[
    "proposal", "replacement", "stop", "late", "bad observation", "policy error", "quantifier error", "shield error"
]
"""What an answer is: the controller's own action, the shield's, or the fallback and why."""


class Answer(NamedTuple):
    """What to do, why, and the bounds () or (K,) on what it costs: 1, the largest cost, of a fallback.

    `vouched` is the encoded state (1, ds) where the action is safe on the user's word alone.
    """

    action: Any
    outcome: Outcome
    upper_bound: Array
    vouched: Array | None = None


class ShieldedPolicy:
    """Asks a controller, lets a shield check its proposal, and keeps the constraint's account of an episode.

    `act` always answers. The fallback is run, unchecked, where nothing is safe, where the controller, the quantifier
    or the shield fails, where an observation is not finite or outside its space, and where an answer is not there in
    time; `counts` tells how often each of these happened. A cost that is missing, NaN or negative counts as the
    largest one, and so does one of which `observe` was not told before the next `act`; `bad_costs` counts these, and
    costs that are none of the shield's `levels`, after which it no longer relies on them.

    With a deadline a thread of its own computes, while `act` waits. A late answer is thrown away when it comes; until
    then the thread is busy, and further answers are fallbacks. What is promised is that `act` stops waiting in time,
    not that the interpreter runs it at once: while other Python code computes, that takes up to
    `sys.getswitchinterval()` longer (5 ms, which can be set lower), and a call into C that keeps Python's lock delays
    it until it returns. What must never be late belongs below Python, in a watchdog.

    One object belongs to one control loop. The shield may be shared by many, in as many threads.

    Args:
        policy: a function of the observation, or an object such as a model of Stable-Baselines3 with a method
            `predict(observation, deterministic=True)` that returns the action first. One that takes `state` and
            `episode_start`, too, as `model.predict` and `agent.propose` do, also returns its next state, and gets that
            back at the next step of the episode: recurrent policies remember.
        shield: checks the proposals.
        constraint: turns what was observed into thresholds.
        fallback: the one action for all emergencies, for which the user vouches; no function, since it must be there
            even without an observation.
        deadline: how many seconds an answer may take, None for as long as it takes, without a thread.
        show_threshold: call `policy(observation, threshold)`, for one that wants to know what remains.
        braking: what a stop itself may cost while the machine comes to rest, in units of the largest cost of a step:
            the shield is asked as if that much less remained.
    """

    def __init__(
        self,
        policy: Any,
        shield: Shield,
        constraint: Constraint,
        fallback: ArrayLike,
        *,
        deadline: float | None = None,
        show_threshold: bool = False,
        braking: float = 0.0,
    ) -> None:
        if deadline is not None and not 0 < deadline < np.inf:
            raise ValueError(f"deadline={deadline} must be a number of seconds above 0, or None for no deadline.")
        if not callable(policy) and not hasattr(policy, "predict"):
            raise TypeError(f"policy={policy!r} is no function of the observation and has no method predict.")
        self._propose = _Controller(policy)
        self._propose.check_takes("observation", *(["threshold"] if show_threshold else []))
        self.policy = policy
        self.shield = shield
        self.constraint = constraint
        self.fallback = _checked_fallback(shield.action_space, fallback)
        self.deadline = deadline
        self.show_threshold = show_threshold
        self.counts: dict[Outcome, int] = dict.fromkeys(get_args(Outcome), 0)
        self.bad_costs = 0
        self._account = Account(constraint, 1, braking)
        self._begun = False
        self._ones = np.ones(np.shape(constraint.largest_threshold))
        if self._ones.size != shield.quantifier.num_costs:
            raise ValueError(
                f"{type(constraint).__name__} limits {self._ones.size} costs, but the shield bounds "
                f"{shield.quantifier.num_costs}: give its shield one quantifier for each, PerCost(...)."
            )
        self._awaited: Answer | None = None
        self._last: NDArray[Any] | None = None
        self._worker = None if deadline is None else _Worker()
        if self._worker is not None:
            weakref.finalize(self, self._worker.close)

    @classmethod
    def load(
        cls,
        path: str | Path,
        policy: Any,
        fallback: ArrayLike,
        *,
        quantifier: Quantifier | None = None,
        safe_action: SafeAction | None = None,
        constraint: Constraint | None = None,
        deadline: float | None = None,
        show_threshold: bool | None = None,
    ) -> Self:
        """A controller with the shield, the constraint and the braking of a saved agent; a shield has none of these.

        A policy is shown the threshold where the agent's own was, unless `show_threshold` says otherwise.
        """
        document, arrays = files.read(Path(path))
        files.expect(document, "shield", path)
        if constraint is None and "constraint" not in document:
            raise files.CheckpointError(f"{path} holds a shield alone: load it with constraint=<a constraint>.")
        with files.understood(path):
            shield = build_shield(Shield, document["shield"], arrays, constraint, quantifier, safe_action)
            constraint = constraint or build_constraint(document["constraint"])
            braking = float(document.get("braking", 0.0))
        if show_threshold is None:
            show_threshold = bool(document.get("show_threshold", False))
        return cls(
            policy,
            shield,
            constraint,
            fallback,
            deadline=deadline,
            show_threshold=show_threshold,
            braking=braking,
        )

    @property
    def threshold(self) -> float | Array:
        """What the next cost may be, scaled to [0, 1]: b_h, () or (K,)."""
        if not self._begun:
            raise RuntimeError("no episode has begun: call reset(observation) first.")
        return self._account.thresholds[0]

    @property
    def braking(self) -> float:
        """What is kept for a stop itself."""
        return self._account.braking

    def reset(self, observation: Any) -> None:
        """An episode begins here: nothing of its budget is spent."""
        self._account.open(np.ones(1, dtype=bool), as_batch(observation))
        self._begun, self._awaited, self._last = True, None, None
        self._propose = _Controller(self.policy)

    def act(self, observation: Any) -> Answer:
        """What to do now."""
        if self._awaited is not None:
            self.observe(None)
        threshold = self.threshold
        if not fits(self.shield.observation_space, observation):
            answer = self._emergency("bad observation", f"{observation!r} is not of its space")
        elif self._worker is None or self.deadline is None:
            answer = self._decide(self._propose, observation, threshold, self._last)
        else:
            call = partial(self._decide, self._propose, observation, threshold, self._last)
            try:
                answer = self._worker.ask(call, self.deadline)
            except TimeoutError:
                answer = self._emergency("late", f"no answer within {self.deadline} s")
        self.counts[answer.outcome] += 1
        self._awaited = answer
        if isinstance(self.shield.action_space, spaces.Box):
            self._last = answer.action
        return answer

    def observe(self, cost: ArrayLike | None) -> None:
        """What the last action brought, () or (K,), as the constraint reads it: a cost in its units, or a margin."""
        if self._awaited is None:
            raise RuntimeError("there is no action that this cost could belong to: call act(observation) first.")
        given = self._ones * np.nan if cost is None else np.asarray(cost, dtype=np.float64)
        if given.shape != self._ones.shape:
            raise ValueError(f"cost={cost!r} has shape {given.shape}, expected {self._ones.shape}.")
        scaled = np.asarray(self.constraint.normalise(given), dtype=np.float64)
        known = scaled >= 0  # NaN is not
        if not ((known & (scaled <= 1)).all() and self._trusts_levels(scaled[None])):
            self.bad_costs += 1
        costs = np.where(known, scaled, 1.0)  # one above the largest counts as what it is
        if self._awaited.vouched is not None:
            self.shield.note_vouched(self._awaited.vouched, costs[None], self._account.certifiable)
        self._account.charge(costs[None], self._awaited.upper_bound[None])
        self._awaited = None

    def _trusts_levels(self, costs: Array) -> bool:
        """Whether observed costs (n,) or (n, K), scaled, are levels; bounds are no longer rounded if one is not."""
        try:
            self.shield.check_levels(costs)
        except ValueError as error:
            log.warning("bounds are no longer rounded to levels: %s", error)
            self.shield.levels = None
            return False
        return True

    def close(self) -> None:
        """End the thread, if there is one, as soon as it has nothing to compute."""
        if self._worker is not None:
            self._worker.close()

    def _decide(
        self, propose: _Controller, observation: Any, threshold: float | Array, last_safe: NDArray[Any] | None
    ) -> Answer:
        try:
            seen = (observation, threshold) if self.show_threshold else (observation,)
            proposal = np.asarray(propose(*seen))
            encode_actions(self.shield.action_space, proposal[None])  # raises where this is no action
            if not np.isfinite(proposal).all():
                raise ValueError(f"{proposal} is not finite")
        except Exception as error:  # whatever a controller raises, the plant needs an action
            return self._emergency("policy error", f"{type(error).__name__}: {error}")
        try:
            decision = self.shield.filter(observation, proposal, threshold - self.braking, last_safe=last_safe)
        except Exception as error:
            return self._emergency("shield error", f"{type(error).__name__}: {error}")
        if decision.stopped:
            failed = np.isinf(decision.upper_bound).any()  # a quantifier that answers bounds every cost by 1
            reason = f"upper bound {decision.upper_bound} of the proposal's cost, threshold {threshold - self.braking}"
            return self._emergency("quantifier error" if failed else "stop", reason)
        outcome: Outcome = "replacement" if decision.intervened else "proposal"
        space, vouched = self.shield.observation_space, decision.vouched
        state = encode_observations(space, as_batch(observation)) if vouched else None
        return Answer(decision.action, outcome, np.asarray(decision.upper_bound, dtype=np.float64), state)

    def _emergency(self, outcome: Outcome, reason: str) -> Answer:
        level = logging.DEBUG if self.counts[outcome] else logging.WARNING
        log.log(level, "the fallback action is run (%s): %s", outcome, reason)
        return Answer(self.fallback.copy(), outcome, self._ones)


class _Controller:
    """A policy in one episode: how it is asked, and what it remembers if it is recurrent.

    An answer that comes late, when the next episode has begun, changes no other's memory.
    """

    def __init__(self, policy: Any) -> None:
        self._policy = policy
        self._predicts = hasattr(policy, "predict")
        self._ask: Callable[..., Any] = policy.predict if self._predicts else policy
        self._signature = _signature(self._ask)
        takes = self._signature.parameters.keys() if self._signature else set()
        self._remembers = {"state", "episode_start", "deterministic"} <= takes
        self._state: Any = None
        self._first = True

    def check_takes(self, *shown: str) -> None:
        """Raise `TypeError` where a policy does not take what it will be shown, as far as that can be told."""
        if self._signature is None:
            return
        try:
            self._signature.bind(*shown, **self._options())
        except TypeError as error:
            remedy = f"give show_threshold={'threshold' not in shown}"
            message = f"policy={self._policy!r} cannot be called with ({', '.join(shown)}): {error}; {remedy}."
            raise TypeError(message) from error

    def __call__(self, *seen: Any) -> Any:
        answer = self._ask(*seen, **self._options())
        if self._remembers:
            self._state, self._first = answer[1], False
        return answer[0] if self._remembers or self._predicts else answer

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"deterministic": True} if self._predicts or self._remembers else {}
        memory = {"state": self._state, "episode_start": np.array([self._first])}
        return options | memory if self._remembers else options


class _Worker:
    """A thread that computes one thing at a time, for a caller who does not wait for ever."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._latest: _Job | None = None
        # A daemon: a controller that hangs must not keep the program from ending.
        Thread(target=_work, args=(self._jobs,), name="safexp decisions", daemon=True).start()

    def ask(self, call: Callable[[], Answer], seconds: float) -> Answer:
        """What the call returns; raises `TimeoutError` where that takes longer, or the thread is still busy."""
        end = monotonic() + seconds
        if self._latest is not None and not self._latest.done.wait(seconds):
            raise TimeoutError
        self._latest = job = _Job(call)
        self._jobs.put(job)
        if not job.done.wait(max(end - monotonic(), 0.0)) or job.answer is None:
            raise TimeoutError
        return job.answer

    def close(self) -> None:
        """End the thread when it is idle."""
        self._jobs.put(None)


class _Job:
    """A call, and its answer when it is done."""

    def __init__(self, call: Callable[[], Answer]) -> None:
        self.answer: Answer | None = None
        self.done = Event()
        self._call: Callable[[], Answer] | None = call

    def run(self) -> None:
        assert self._call is not None, "a job runs once"
        self.answer = self._call()
        self._call = None  # a thread that waits for more must not keep the policy alive
        self.done.set()


def _work(jobs: SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        job.run()


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except ValueError:  # of a function that is not written in Python
        return None


def _checked_fallback(space: spaces.Box | spaces.Discrete, fallback: ArrayLike) -> NDArray[Any]:
    if callable(fallback):
        raise TypeError(
            f"fallback={fallback!r} is a function; it must be one action, which can be run whatever went wrong, "
            "also where there is no observation."
        )
    action = np.asarray(fallback, dtype=space.dtype)
    if not fits(space, action):
        raise ValueError(f"fallback={fallback!r} is not an action of {space}.")
    return action
