"""The two-phase planner of SNO-MDP (Wachi & Sui, 2020), which MASE on the grid shares.

Phase 1 explores safety: it walks to the certified move whose safety is least known, among those that can be
reached and left again, until the ES² test says that more certified moves could not pay. Phase 2 maximises an
optimistic reward within what is certified. The planner knows nothing of thresholds: a `Judge` tells it which
moves are certified at a step, and that is all that tells MASE from SNO-MDP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, final

import numpy as np
from scipy.special import ndtr

from safexp.core.arrays import Array, Flags, Indices
from safexp.studies.finite.grid_gp import GridGP
from safexp.studies.finite.grid_planning import policy_iteration, returnable, shortest_route
from safexp.tasks.grid_world import STAY, GridWorld

EarlyStop = Literal["es2", "p-es2", "never"]


@dataclass(frozen=True)
class PlannerSettings:
    """Settings of the planner.

    `beta_reward` scales the optimism in the reward; `early_stop` chooses ES², its probabilistic form P-ES²
    (an uncertified move succeeds with the probability that it is safe, or else ends all reward) or neither;
    phase 1 also ends after `max_targets` targets or when the standard deviation of no certified move exceeds
    `min_deviation`.
    """

    beta_reward: float = 3.0
    discount: float = 0.99
    early_stop: EarlyStop = "es2"
    max_targets: int = 100
    min_deviation: float = 0.00125

    def __post_init__(self) -> None:
        if not 0.0 <= self.discount < 1.0:
            raise ValueError(f"discount is {self.discount}; the planner's horizon is infinite, so give one in [0, 1)")


class Belief(NamedTuple):
    """Knowledge of some moves: certainly safe, possibly safe, the expected slack and its deviation."""

    certified: Flags
    possible: Flags
    slack: Array
    deviation: Array

    def chance(self) -> Array:
        """The probability that a move is safe."""
        return np.asarray(ndtr(self.slack / np.maximum(self.deviation, 1e-12)))


Judge = Callable[[Array, Array], Belief]
"""Turns mean and standard deviation of the safety of moves, in arrays of any shape, into a belief."""


@dataclass(frozen=True, eq=False)
class Walk:
    """A path of T + 1 cells, the T rewards of the cells entered, and what was certified meanwhile.

    `certified` (N, 5) are the moves certified, reachable and returnable in the end and `certified_pairs` (T,)
    their number over time; `ever_certified` (N, 5) is everything that was certified at some time, reachable
    or not; `first_certified` (N,) is the step from which each cell could be visited (T where it never could);
    `exploration_steps` is the length of phase 1, and `stopped` tells whether an emergency stop ended the run.
    """

    path: Indices
    rewards: Array
    certified: Flags
    ever_certified: Flags
    certified_pairs: Indices
    first_certified: Indices
    exploration_steps: int
    stopped: bool


def walk(world: GridWorld, judges: Iterable[Judge], settings: PlannerSettings) -> Walk:
    """Let the planner walk, judged at each step by the next judge, and stopped before a step without a safe action."""
    explorer = Explorer(world, settings)
    path, pairs = [world.start], list[int]()
    first = np.full(world.size, -1)
    ever = np.zeros((world.size, 5), dtype=bool)
    exploration, stopped, surveyed = 0, False, explorer.usable
    for judge in judges:
        action = explorer.propose(path[-1], judge)
        if explorer.usable is not surveyed:
            surveyed = explorer.usable
            ever |= explorer.certified
            first[surveyed.any(axis=1) & (first < 0)] = len(pairs)
            size = int(np.count_nonzero(surveyed))
        if action is None:
            stopped = True
            break
        path.append(int(world.next_state[path[-1], action]))
        pairs.append(size)
        exploration += explorer.exploring
        explorer.look(path[-1])
    if pairs:
        explorer.survey(path[-1], judge)
        ever |= explorer.certified
    return Walk(
        path=np.array(path),
        rewards=world.reward.ravel()[path[1:]],
        certified=explorer.usable,
        ever_certified=ever,
        certified_pairs=np.array(pairs, dtype=np.int64),
        first_certified=np.where(first < 0, len(pairs), first),
        exploration_steps=exploration,
        stopped=stopped,
    )


@final
class Explorer:
    """The planner's state: its models of altitude and reward, its route and its policies.

    `certified` and `usable` (N, 5) are the moves certified, and of these the reachable and returnable ones,
    when the planner last had to survey them all: whenever a route is finished or broken off, and at every
    step of phase 2. `model` holds altitude and reward, in this order.
    """

    def __init__(self, world: GridWorld, settings: PlannerSettings) -> None:
        self._world = world
        self._settings = settings
        self._maps = np.stack([world.altitude.ravel(), world.reward.ravel()])
        self.model = GridGP(2, len(world.altitude), step=world.step)
        self.exploring = True
        self.certified: Flags = np.zeros((world.size, 5), dtype=bool)
        self.usable: Flags = self.certified
        self._targets = 0
        self._route: list[tuple[int, int]] = []
        self._policy = self._es2_policy = np.full(world.size, STAY)
        self._stale = True
        self._learn(np.array(world.known))
        self.look(world.start)

    def look(self, state: int) -> None:
        """Learn altitude and reward of the cells seen from where the agent stands."""
        self._learn(self._world.seen_from[state])

    def propose(self, state: int, judge: Judge) -> int | None:
        """The next action, certified in both phases; None where no action is."""
        if self._route and self._still_certified(judge):
            return self._route.pop(0)[1]
        belief = self.survey(state, judge)
        if not self.certified[state].any():
            return None
        if not self.usable[state].any():
            # Nothing certified lets the agent come back; the first certified action is still a safe one.
            return int(np.argmax(self.certified[state]))
        if self.exploring:
            self._route = self._next_route(state, belief)
            self.exploring = len(self._route) > 0
        if self.exploring:
            return self._route.pop(0)[1]
        if self._stale:
            for policy, _ in self._plans(self.usable, self._reward_bound(1.0), 1.0, self._policy):
                self._policy = policy
            self._stale = False
        return int(self._policy[state])

    def _learn(self, cells: Indices) -> None:
        cells = self.model.unseen(cells)
        if len(cells):
            self.model.observe(cells, self._maps[:, cells])
            self._stale = True

    def _still_certified(self, judge: Judge) -> bool:
        """Whether the next move of the route is still certified by new observations and the current threshold."""
        cell, action = self._route[0]
        after = self._world.next_state[cell, action]
        mean = self.model.mean[0, cell] - self.model.mean[0, after]
        return bool(judge(mean, np.sqrt(self.model.difference_variance(cell, after))).certified)

    def survey(self, state: int, judge: Judge) -> Belief:
        """Judge every move again."""
        altitude, self._route = self.model.mean[0], []
        mean = altitude[:, None] - altitude[self._world.next_state]
        belief = judge(mean, np.sqrt(self.model.move_variance()))
        self.certified = belief.certified & self._world.valid
        before, self.usable = self.usable, self._returnable(self.certified, state)
        self._stale |= not np.array_equal(before, self.usable)
        return belief

    def _returnable(self, moves: Flags, state: int) -> Flags:
        inside = returnable(moves, state)
        return np.asarray(moves & inside[:, None] & inside[self._world.next_state])

    def _next_route(self, state: int, belief: Belief) -> list[tuple[int, int]]:
        """The moves (cell, action) to the least known usable one, which is the last; none when phase 1 is over."""
        variance = np.where(self.usable, self.model.move_variance(), 0.0)
        target, action = (int(index) for index in np.unravel_index(np.argmax(variance), variance.shape))
        known = variance[target, action] <= self._settings.min_deviation**2
        if known or self._targets >= self._settings.max_targets or self._nothing_to_gain(state, belief):
            return []
        self._targets += 1
        return [*shortest_route(self.usable, state, target), (target, action)]

    def _nothing_to_gain(self, state: int, belief: Belief) -> bool:
        """ES²: with usable moves paid pessimistically and all others optimistically, no other move is worth taking.

        The others are those that may be safe and, if they are, can be returned from.
        """
        if self._settings.early_stop == "never":
            return False
        allowed = self._returnable(self.usable | (belief.possible & self._world.valid), state)
        reward = np.where(self.usable, self._reward_bound(-1.0), self._reward_bound(1.0))
        chance = np.where(self.usable, 1.0, belief.chance()) if self._settings.early_stop == "p-es2" else 1.0
        inside = self.usable.any(axis=1)
        # No policy that stays inside is worth more, so a value beyond it settles the test without the
        # optimum.
        limit = reward[self.usable].max() / (1.0 - self._settings.discount)
        for policy, value in self._plans(allowed, reward, chance, self._es2_policy):
            self._es2_policy = policy
            if value[inside].max() > limit + 1e-9 * abs(limit):
                return False
        return bool(np.all(self.usable[inside, self._es2_policy[inside]]))

    def _reward_bound(self, sign: float) -> Array:
        bound = self.model.mean[1] + sign * self._settings.beta_reward * np.sqrt(self.model.variance())
        return np.asarray(bound[self._world.next_state])

    def _plans(
        self, allowed: Flags, reward: Array, chance: Array | float, policy: Indices
    ) -> Iterator[tuple[Indices, Array]]:
        discount = np.broadcast_to(self._settings.discount * chance, reward.shape)
        return policy_iteration(self._world.next_state, allowed, chance * reward, discount, policy)
