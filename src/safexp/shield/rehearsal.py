"""Closed-loop test of a shield: a controller drives a simulator behind it, and certified actions are checked.

A static check uses the states of a log. A controller behind a shield can go wherever the shield lets it, including
states where the model is least certain: only a closed loop shows whether the shield can be trusted there.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from safexp.constraints import Account, Constraint
from safexp.core.arrays import Array, Controller, as_batch
from safexp.core.costs import Step
from safexp.core.signals import column_of, in_observation, key_and_entry

if TYPE_CHECKING:
    from safexp.shield.shield import Shield


class Rehearsal(NamedTuple):
    """Result of a closed-loop test.

    `violated` counts episodes that broke the constraint, `missed` those in which a certified action did. `low` and
    `high` are the exact 95% interval of the share of missed episodes. `stopped` counts steps at which nothing was
    certified: the backup took over, or the episode ended. `returns` are those of the episodes as executed.

    If `missed` is above 0, the certificates are wrong where the controller leads: log there, or calibrate.

    Example:
        >>> env = gym.make("safexp/PlanarRobot-v0")
        >>> spaces, budget = (env.observation_space, env.action_space), safexp.Budget(3.0)
        >>> shield = safexp.Shield(safexp.Unknown(), *spaces, constraint=budget)
        >>> found = shield.rehearse(env, lambda seen: np.ones((len(seen), 2), np.float32), episodes=3, seed=1000)
        >>> found.episodes, found.violated
        (3, 0)
    """

    episodes: int
    violated: int
    missed: int
    low: float
    high: float
    steps: int
    interventions: int
    stopped: int
    returns: tuple[float, ...]

    @property
    def mean_return(self) -> float:
        """Mean return of an episode."""
        return float(np.mean(self.returns))


def rehearse(
    shield: Shield, env: Any, controller: Controller, episodes: int, *, backup: Controller | None, seed: int
) -> Rehearsal:
    """Drive an environment with a controller, a function of observations (n, ...), behind a shield.

    The backup, also a function of observations, takes over where nothing is certified; without one the episode ends.
    `ShieldedPolicy(..., backup=...)` deploys what was rehearsed.
    """
    from scipy.stats import binomtest  # imported here because it is slow to import

    constraint = shield.constraint
    if constraint is None:
        raise ValueError("rehearse needs a shield with a constraint to judge by: give Shield(..., constraint=...).")
    if episodes < 1:
        raise ValueError(f"episodes={episodes} must be at least 1.")
    found = [_episode(shield, constraint, env, controller, backup, seed + k) for k in range(episodes)]
    missed = sum(one.missed for one in found)
    interval = binomtest(missed, episodes).proportion_ci(method="exact")
    return Rehearsal(
        episodes=episodes,
        violated=sum(one.violated for one in found),
        missed=missed,
        low=float(interval.low),
        high=float(interval.high),
        steps=sum(one.steps for one in found),
        interventions=sum(one.interventions for one in found),
        stopped=sum(one.stopped for one in found),
        returns=tuple(one.total for one in found),
    )


class _Episode(NamedTuple):
    violated: bool
    missed: bool
    steps: int
    interventions: int
    stopped: int
    total: float


def _episode(
    shield: Shield, constraint: Constraint, env: Any, controller: Controller, backup: Controller | None, seed: int
) -> _Episode:
    observation, info = env.reset(seed=seed)
    account, batch = Account(constraint, 1), as_batch(observation)
    account.open(np.ones(1, dtype=bool), batch)
    measured, first = _first_signals(constraint, batch, info), constraint.first_signal(batch)[0]
    signals: list[Array] = []
    interventions = stopped = 0
    total, missed, ended = 0.0, False, False
    while not ended:
        decision = shield.filter(
            observation, np.asarray(controller(batch))[0], account.thresholds[0], measured=measured
        )
        nothing = decision.stopped or decision.takeover
        interventions, stopped = interventions + decision.intervened, stopped + nothing
        if decision.stopped and backup is None:
            break
        action = np.asarray(backup(batch))[0] if decision.stopped and backup is not None else decision.action
        observation, reward, terminated, truncated, info = env.step(action)
        following = as_batch(observation)
        step = Step(batch, np.asarray(action)[None], following, partial(_column, info))
        read, measured = constraint.read(step), constraint.measured(step)[0]
        signals.append(read[0])
        before = constraint.violated(first, np.array(signals[:-1])) if len(signals) > 1 else False
        missed |= not nothing and not before and constraint.violated(first, np.array(signals))
        account.charge(constraint.normalise(read), np.atleast_1d(decision.upper_bound)[None].reshape(read.shape))
        total += float(reward)
        batch, ended = following, bool(terminated or truncated)
    violated = bool(signals) and constraint.violated(first, np.array(signals))
    return _Episode(violated, missed, len(signals), interventions, stopped, total)


def _column(info: dict[str, Any], key: str) -> Array:
    """Entry of the info of one environment as an array (1, ...).

    Raises:
        ValueError: if it is missing.
    """
    if key not in info:
        raise ValueError(
            f"the environment gave no info[{key!r}] (it has {sorted(info)}): put it into the info of every step, and "
            "a limited signal also into that of reset(), or limit an entry of the observation."
        )
    return np.array([info[key]], dtype=np.float64)


def _first_signals(constraint: Constraint, batch: Any, info: dict[str, Any]) -> Array:
    """Signals (S,) in the first state, from the observation or the info of the reset."""
    now = constraint.now(batch)[0]
    for k, source in enumerate(constraint.sources):
        if isinstance(source, str) and not in_observation(source, batch):
            now[k] = column_of(_column(info, key_and_entry(source)[0]), source)[0]
    return now
