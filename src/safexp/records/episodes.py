"""Record of episodes, from true rewards and true costs only, independent of the shield."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from safexp.constraints import Constraint
from safexp.core.arrays import Array, Flags, Observations


class Episode(NamedTuple):
    """One finished episode.

    `true_return` sums the environment's rewards, `penalised_return` those that the learner received. `cost` and
    `max_step_cost` are in the user's units (with several costs, their sum); `violated` is judged by the constraint's
    original definition. `end_step` counts environment steps since the start of training, `takeovers` the steps under
    a controller other than the learner, `unreadable` those whose cost could not be read and counts as the largest,
    `drills` those that another controller drove to test a certificate.

    `after_stop_steps` are steps that a controller drove after a stop, at `after_stop_cost`; no other number includes
    them, except for `unreadable`. `after_stop_violated`: the episode kept the constraint, and violated it with them.
    """

    episode: int
    end_step: int
    length: int
    true_return: float
    penalised_return: float
    cost: float
    max_step_cost: float
    violated: bool
    stopped: bool
    interventions: int
    takeovers: int = 0
    unreadable: int = 0
    drills: int = 0
    after_stop_steps: int = 0
    after_stop_cost: float = 0.0
    after_stop_violated: bool = False


def own_share(episodes: Sequence[Episode]) -> float | None:
    """Share of the executed actions that were the policy's own; None without a step."""
    steps = sum(episode.length for episode in episodes)
    others = sum(episode.interventions + episode.takeovers + episode.drills for episode in episodes)
    return 1 - others / steps if steps else None


class Drivers(NamedTuple):
    """Where (n,) the executed action was not the learner's: replaced by a shield, or another controller drove.

    `drills` are steps that another controller drove to test a certificate.
    """

    interventions: Flags | bool = False
    takeovers: Flags | bool = False
    drills: Flags | bool = False


class Witness(Protocol):
    """Observer of a `Recorder`: called when episodes begin, when all environments step, and when an episode ends."""

    def begin(self, environments: Flags) -> None: ...

    def step(self) -> None: ...

    def end(self, environment: int, episode: Episode) -> None: ...


class Recorder:
    """Recorder of n environments: one row for every finished episode, and totals.

    An optional `witness` is notified of every event. `latest` (n,) or (n, K) has the signals of the last step.
    """

    transient = ("episodes", "witness")  # stored in separate files of the run folder

    def __init__(self, constraint: Constraint, num_envs: int) -> None:
        self.episodes: list[Episode] = []
        self.witness: Witness | None = None
        self.steps = self.stops = self.interventions = self.takeovers = self.drills = 0
        self.refused_starts = 0
        """First states from which no episode could begin, because nothing was certified there."""
        self.judges_stops = False
        """Whether a controller drives on after a stop, and is judged; otherwise a stop is taken to be free."""
        self.after_stop_steps = self.after_stop_violations = 0
        self._violations = 0
        self.constraint = constraint
        self._length = np.zeros(num_envs, dtype=np.int64)
        self._after_stop = np.zeros(num_envs, dtype=np.int64)
        self._totals = np.zeros((num_envs, 6))  # true and penalised return, those of `Drivers`, unreadable
        costs = np.shape(constraint.largest_threshold)  # () or (K,)
        self.latest = np.zeros((num_envs, *costs))
        self._first = np.zeros((num_envs, *costs))
        self._signals = np.zeros((num_envs, 256, *costs))  # of an episode, then of the steps after its stop
        self._limits = np.zeros((num_envs, 256, *costs))  # of the steps so far and of the next one

    def begin(self, environments: Flags, observations: Observations) -> None:
        """Start episodes in these of the n environments."""
        self._first[environments] = self.constraint.first_signal(observations)[environments]
        self._length[environments] = 0
        self._totals[environments] = 0.0
        self._ask_limits(environments)
        if self.witness:
            self.witness.begin(environments)

    def step(
        self,
        rewards: Array,
        signals: Array,
        drivers: Drivers = Drivers(),  # noqa: B008 (immutable)
        unreadable: Flags | bool = False,
    ) -> None:
        """Record one step of all environments, (n,) each."""
        self._signals[np.arange(len(rewards)), self._length] = signals
        self.latest = signals
        counts = np.broadcast_arrays(rewards, *drivers, unreadable)
        self._totals[:, [0, 2, 3, 4, 5]] += np.stack(counts, axis=-1)
        self._length += 1
        self.steps += len(rewards)
        if self._length.max() == self._signals.shape[1]:
            self._grow()
        self._ask_limits(np.ones(len(rewards), dtype=bool))
        if self.witness:
            self.witness.step()

    def after_stop(self, environments: NDArray[np.intp], signals: Array, unreadable: Flags | bool = False) -> None:
        """Record one step after the stop of these m environments, from its signals (m,) or (m, K)."""
        self._signals[environments, (self._length + self._after_stop)[environments]] = signals
        self._totals[environments, 5] += unreadable
        self._after_stop[environments] += 1
        steps = (self._length + self._after_stop)[environments]
        if steps.max() == self._signals.shape[1]:
            self._grow()
        self._limits[environments, steps] = self.constraint.limits_at(steps)

    def pay(self, rewards: Array) -> None:
        """Record the rewards (n,) that the learner received for the last step."""
        self._totals[:, 1] += rewards

    def end(self, environments: Flags, stopped: Flags) -> None:
        """End the episodes in these environments, of which some were `stopped`."""
        for i in np.flatnonzero(environments):
            first, signals = self._first[i : i + 1], self._signals[i, : self._length[i]]
            constraint = self._as_it_was(int(i))
            after_stop_cost, whole_violated = self._after_its_stop(int(i))
            violated = self._violated(int(i))
            costs = np.concatenate([constraint.true_cost(first), constraint.true_cost(signals)])
            episode = Episode(
                episode=len(self.episodes),
                end_step=self.steps,
                length=int(self._length[i]),
                true_return=float(self._totals[i, 0]),
                penalised_return=float(self._totals[i, 1]),
                cost=float(costs.sum()),
                max_step_cost=float(costs.max()),
                violated=violated,
                stopped=bool(stopped[i]),
                interventions=int(self._totals[i, 2]),
                takeovers=int(self._totals[i, 3]),
                unreadable=int(self._totals[i, 5]),
                drills=int(self._totals[i, 4]),
                after_stop_steps=int(self._after_stop[i]),
                after_stop_cost=after_stop_cost,
                after_stop_violated=whole_violated and not violated,
            )
            self._keep(episode)
            if self.witness:
                self.witness.end(int(i), episode)
        self._length[environments] = 0
        self._after_stop[environments] = 0

    def _after_its_stop(self, environment: int) -> tuple[float, bool]:
        """Cost after the stop of an episode, and whether both together violate the constraint."""
        length, steps = self._length[environment], self._after_stop[environment]
        if not steps:
            return 0.0, False
        signals = self._signals[environment, : length + steps]
        constraint = self.constraint.settled(self._limits[environment, : length + steps])
        cost = float(constraint.true_cost(signals)[length:].sum())
        return cost, constraint.violated(self._first[environment, ...], signals)

    def _keep(self, episode: Episode) -> None:
        self.episodes.append(episode)
        self._violations += episode.violated
        self.stops += episode.stopped
        self.interventions += episode.interventions
        self.takeovers += episode.takeovers
        self.drills += episode.drills
        self.after_stop_steps += episode.after_stop_steps
        self.after_stop_violations += episode.after_stop_violated

    @property
    def running(self) -> Flags:
        """Which environments are in an unfinished episode with at least one step."""
        return self._length > 0

    @property
    def returns(self) -> Array:
        """True returns (n,) so far of the running episodes."""
        return self._totals[:, 0].copy()

    @property
    def violations(self) -> int:
        """Number of episodes, finished or running, that violated the constraint."""
        return self._violations + sum(self._violated(int(i)) for i in np.flatnonzero(self.running))

    def clearance(self, environment: int) -> float | None:
        """Smallest distance to a limit in the episode of an environment so far; None for limits on costs."""
        return self._as_it_was(environment).clearance(self._signals[environment, : self._length[environment]])

    def _violated(self, environment: int) -> bool:
        """Judge the episode of an environment so far, by the limits that held at each step."""
        signals = self._signals[environment, : self._length[environment]]
        return self._as_it_was(environment).violated(self._first[environment, ...], signals)

    def _as_it_was(self, environment: int) -> Constraint:
        """The constraint with the limits that held at each step of an environment's episode."""
        return self.constraint.settled(self._limits[environment, : self._length[environment]])

    def _grow(self) -> None:
        """Make room for as many steps again."""
        self._signals = np.concatenate([self._signals, np.zeros_like(self._signals)], axis=1)
        self._limits = np.concatenate([self._limits, np.zeros_like(self._limits)], axis=1)

    def _ask_limits(self, environments: Flags) -> None:
        """Query the limits of the next step of these environments."""
        if environments.any():
            steps = self._length[environments]
            self._limits[environments, steps] = self.constraint.limits_at(steps)
