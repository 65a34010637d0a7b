"""Trial episodes of an environment, which can be replayed up to a step and continued with other actions."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from safexp.constraints import Constraint
from safexp.core.arrays import Array, Controller, Observations, as_batch
from safexp.core.costs import SignalError, Step

ProblemKind = Literal["missing", "not finite", "out of range", "unreadable"]

LONGEST_HOLD = 15
"""Largest number of steps for which a random action is held."""


class Problem(NamedTuple):
    """Why the cost or signal of a step could not be read."""

    kind: ProblemKind
    text: str


@dataclass(frozen=True)
class Moment:
    """One step: the action, and what the environment returned; `signals` () or (K,) are None if they are unreadable."""

    action: Any
    observation: Any
    reward: Any
    terminated: bool
    truncated: bool
    info: dict[str, Any]
    signals: Array | None
    problem: Problem | None

    @property
    def ended(self) -> bool:
        """Whether the episode ended with this step."""
        return self.terminated or self.truncated


@dataclass
class Trial:
    """One episode, from its reset to its end or to the largest length; `error` is an exception that ended it."""

    seed: int
    first: Any = None
    told: dict[str, Any] = field(default_factory=dict)
    moments: list[Moment] = field(default_factory=list)
    error: str | None = None

    @property
    def actions(self) -> list[Any]:
        """The actions taken."""
        return [moment.action for moment in self.moments]

    @property
    def signals(self) -> Array:
        """The signals (T,) or (T, K), up to the first step at which they are unreadable."""
        found = []
        for moment in self.moments:
            if moment.signals is None:
                break
            found.append(moment.signals)
        return np.asarray(found, dtype=np.float64)

    def before(self, step: int) -> Any:
        """The observation in which the action of a step was taken."""
        return self.moments[step - 1].observation if step else self.first


class Probe:
    """Runs trial episodes of one environment.

    Args:
        env: the environment.
        constraint: reads the cost or signals of every step.
        rng: source of random actions.
        policy: actions for batches of observations, used in every second episode; None for random actions only.
    """

    def __init__(
        self, env: gym.Env[Any, Any], constraint: Constraint, rng: np.random.Generator, policy: Controller | None
    ) -> None:
        self.env = env
        self.constraint = constraint
        self.rng = rng
        self.policy = policy
        self.steps = 0
        self.seconds = 0.0
        env.action_space.seed(int(rng.integers(2**31)))

    def play(self, seed: int, longest: int, style: int) -> Trial:
        """An episode: fresh random actions at every step, held ones, or those of the policy, depending on `style`."""
        if self.policy is not None and style % 2 == 0:
            policy = self.policy
            return self._run(seed, lambda seen: np.asarray(policy(as_batch(seen)))[0], longest)
        actions = self._held() if style % 2 else self._fresh()
        return self._run(seed, lambda _: next(actions), longest)

    def replay(self, trial: Trial, until: int, then: Sequence[Any] = ()) -> Trial:
        """The same seed and actions up to the step `until`, then these actions."""
        actions = iter([*trial.actions[:until], *then])
        return self._run(trial.seed, lambda _: next(actions), until + len(then))

    def corner(self) -> Any:
        """A random action at the bounds of a box, or of another space."""
        space = self.env.action_space
        if not (isinstance(space, spaces.Box) and space.is_bounded()):
            return space.sample()
        return np.where(self.rng.random(space.shape) < 0.5, space.low, space.high).astype(space.dtype)

    def _fresh(self) -> Iterator[Any]:
        while True:
            yield self.env.action_space.sample()

    def _held(self) -> Iterator[Any]:
        """Held actions, at the bounds and inside, which drive further than fresh ones."""
        while True:
            action = self.corner() if self.rng.random() < 0.5 else self.env.action_space.sample()
            for _ in range(int(self.rng.integers(1, LONGEST_HOLD + 1))):
                yield action

    def _run(self, seed: int, act: Callable[[Any], Any], longest: int) -> Trial:
        trial = Trial(seed)
        begun = time.perf_counter()
        try:
            first, told = self.env.reset(seed=seed)
            trial.first, trial.told = copy.deepcopy(first), dict(told)
            while len(trial.moments) < longest and not (trial.moments and trial.moments[-1].ended):
                trial.moments.append(self._step(trial, act(trial.before(len(trial.moments)))))
        except Exception as error:
            trial.error = f"{type(error).__name__}: {error}"
        self.seconds += time.perf_counter() - begun
        self.steps += len(trial.moments)
        return trial

    def _step(self, trial: Trial, action: Any) -> Moment:
        before = trial.before(len(trial.moments))
        observation, reward, terminated, truncated, info = self.env.step(copy.copy(action))
        observation = copy.deepcopy(observation)
        signals, problem = read(self.constraint, before, action, observation, info)
        return Moment(action, observation, reward, bool(terminated), bool(truncated), dict(info), signals, problem)


def read(
    constraint: Constraint, before: Any, action: Any, after: Any, info: dict[str, Any]
) -> tuple[Array | None, Problem | None]:
    """The signals () or (K,) of a step as the constraint reads them, or why it cannot."""

    def entry(key: str) -> Any:
        return np.asarray(info[key], dtype=np.float64)[None]

    try:
        step = Step(as_batch(before), np.asarray(action)[None], as_batch(after), entry)
        return np.asarray(constraint.read(step)[0], dtype=np.float64), None
    except KeyError as error:
        return None, Problem("missing", f"info has no {error.args[0]!r} (it has {', '.join(sorted(info)) or 'none'})")
    except SignalError as error:
        kind: ProblemKind = "out of range" if np.isfinite(error.value) else "not finite"
        return None, Problem(kind, str(error).removeprefix("environment 0 gave "))
    except Exception as error:  # also from the user's function
        return None, Problem("unreadable", str(error) or type(error).__name__)


def stacked(observations: Sequence[Any]) -> Observations:
    """Single observations as a batch."""
    if isinstance(observations[0], dict):
        return {key: np.stack([one[key] for one in observations]) for key in observations[0]}
    return np.stack(observations)
