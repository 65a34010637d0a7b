"""SNO-MDP (Wachi & Sui, 2020): explore safety first, then reward, on a known deterministic grid.

Phase 1 certifies: it walks to the certified move whose safety is least known, among those that can be reached
and left again, until the ES² test says that more certified moves could not pay. Phase 2 maximises an optimistic
reward within what is certified. `Explorer` is that planner and knows nothing of thresholds; it is told which moves
are certified. `sno_mdp` runs it under one fixed threshold; `safexp.finite.grid_mase` under the GSE problem's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, final

import numpy as np
from scipy.special import ndtr

from safexp.finite.grid_gp import GridGP
from safexp.finite.grid_planning import optimal_policy, returnable, shortest_route
from safexp.finite.grid_world import STAY, Array, GridWorld, Indices, Mask

EarlyStop = Literal["es2", "p-es2", "never"]


@dataclass(frozen=True)
class PlannerSettings:
    """How the planner explores.

    `beta_reward` scales the optimism in the reward; `early_stop` chooses ES², its probabilistic form P-ES²
    (an uncertified move succeeds with the probability that it is safe) or none; phase 1 also ends after
    `max_targets` targets or when the standard deviation of no certified move exceeds `min_deviation`.
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
    """What is known of each move (N, 5): surely safe, possibly safe, and the chance to be safe."""

    certified: Mask
    possible: Mask
    chance: Array


@dataclass(frozen=True, eq=False)
class Run:
    """A path of T + 1 cells, the T rewards, and what was certified, reachable and returnable at each step.

    `certified` (N, 5) is the last such set, `certified_pairs` (T,) its size over time, `certified_cells` the number
    of the step at which each cell (N,) first belonged to it (T where it never did), `exploration_steps` the length
    of phase 1, and `stopped` whether an emergency stop ended the run.
    """

    path: Indices
    rewards: Array
    certified: Mask
    certified_pairs: Indices
    certified_cells: Indices
    exploration_steps: int
    stopped: bool = False


@final
class Explorer:
    """The two-phase planner, with its models of altitude and reward."""

    def __init__(self, world: GridWorld, settings: PlannerSettings) -> None:
        self._world = world
        self._settings = settings
        n = len(world.altitude)
        self.altitude = GridGP(n, world.next_state, step=world.step)
        self.reward = GridGP(n, world.next_state, step=world.step)
        self.exploring = True
        self._targets = 0
        self._route: list[int] = []
        self._policy: Indices = np.full(world.size, STAY)
        self._belief_used = np.zeros((world.size, 5), dtype=bool)
        self.usable: Mask = np.zeros((world.size, 5), dtype=bool)
        self._stale = True
        for cell in world.known:
            self._learn(cell)
        self.look(world.start)

    def look(self, state: int) -> None:
        """Learn altitude and reward of the cells seen from where the agent stands."""
        for cell in self._world.seen_from[state]:
            self._learn(int(cell))

    def _learn(self, cell: int) -> None:
        self.altitude.observe(cell, float(self._world.altitude.flat[cell]))
        self._stale |= self.reward.observe(cell, float(self._world.reward.flat[cell]))

    def move_mean(self) -> Array:
        """The expected safety (N, 5) of each move."""
        mean = self.altitude.mean
        return np.asarray(mean[:, None] - mean[self._world.next_state])

    def propose(self, state: int, belief: Belief) -> int:
        """The next action: towards the target in phase 1, optimistic in phase 2; certified in both."""
        self._restrict(state, belief)
        if not self.usable[state].any():
            # Nothing certified lets the agent come back; the first certified action is still within A⁺.
            return int(np.argmax(belief.certified[state]))
        while self.exploring:
            if self._route and self.usable[state, self._route[0]]:
                return self._route.pop(0)
            self.exploring = self._choose_target(state, belief)
        if self._stale:
            self._policy = self._plan(self.usable, self._optimistic(1.0), np.ones_like(belief.chance))
            self._stale = False
        return int(self._policy[state])

    def _restrict(self, state: int, belief: Belief) -> None:
        if self.usable[state].any() and np.array_equal(belief.certified, self._belief_used):
            return
        self._belief_used = belief.certified
        self.usable = self._returnable(belief.certified, state)
        self._stale = True

    def _returnable(self, moves: Mask, state: int) -> Mask:
        inside = returnable(self._world.next_state, moves, state)
        return np.asarray(moves & inside[:, None] & inside[self._world.next_state])

    def _choose_target(self, state: int, belief: Belief) -> bool:
        """Set out for the widest certified move; false when phase 1 is over."""
        variance = np.where(self.usable, self.altitude.move_variance, 0.0)
        target, action = (int(index) for index in np.unravel_index(np.argmax(variance), variance.shape))
        enough = (
            self._targets >= self._settings.max_targets
            or variance[target, action] <= self._settings.min_deviation**2
        )
        if enough or self._nothing_to_gain(belief):
            return False
        self._targets += 1
        self._route = [*shortest_route(self._world.next_state, self.usable, state, target), action]
        return True

    def _nothing_to_gain(self, belief: Belief) -> bool:
        """ES²: with what is certified paid pessimistically and the rest optimistically, nothing uncertified pays."""
        if self._settings.early_stop == "never":
            return False
        state = int(np.argmax(self.usable.any(axis=1)))
        allowed = self._returnable(self.usable | (belief.possible & self._world.valid), state)
        reward = np.where(self.usable, self._optimistic(-1.0), self._optimistic(1.0))
        chance = np.ones_like(belief.chance)
        if self._settings.early_stop == "p-es2":
            chance = np.where(self.usable, 1.0, belief.chance)
        policy = self._plan(allowed, reward, chance)
        inside = self.usable.any(axis=1)
        return bool(np.all(self.usable[inside, policy[inside]]))

    def _optimistic(self, sign: float) -> Array:
        bound = self.reward.mean + sign * self._settings.beta_reward * np.sqrt(self.reward.variance)
        return np.asarray(bound[self._world.next_state])

    def _plan(self, allowed: Mask, reward: Array, chance: Array) -> Indices:
        return optimal_policy(
            self._world.next_state, allowed, chance * reward, self._settings.discount * chance, self._policy
        )


def sno_mdp(world: GridWorld, *, steps: int = 200, beta: float = 4.0, settings: PlannerSettings | None = None) -> Run:
    """Run SNO-MDP, which believes in `world.threshold` all along.

    `beta` scales the confidence interval of a move's safety. The original's 2 is not safe; see docs/grid-world.md.
    """
    explorer = Explorer(world, settings or PlannerSettings())
    recorder = Recorder(world)
    state = world.start
    for _ in range(steps):
        mean, deviation = explorer.move_mean(), np.sqrt(explorer.altitude.move_variance)
        width = beta * deviation
        certified = (mean - width >= world.threshold) & world.valid
        possible = mean + width >= world.threshold
        chance = ndtr((mean - world.threshold) / np.maximum(deviation, 1e-12))
        action = explorer.propose(state, Belief(certified, possible, chance))
        state = int(world.next_state[state, action])
        recorder.record(state, explorer)
        explorer.look(state)
    return recorder.run()


@final
class Recorder:
    """Writes down a run step by step."""

    def __init__(self, world: GridWorld) -> None:
        self._world = world
        self._path = [world.start]
        self._pairs: list[int] = []
        self._first = np.full(world.size, -1)
        self._exploration = 0
        self._usable = np.zeros((world.size, 5), dtype=bool)

    def record(self, state: int, explorer: Explorer) -> None:
        """Note the cell just entered and the certified set that allowed it."""
        if explorer.usable is not self._usable:
            self._usable = explorer.usable
            self._first[self._usable.any(axis=1) & (self._first < 0)] = len(self._pairs)
            self._size = int(self._usable.sum())
        self._path.append(state)
        self._pairs.append(self._size)
        self._exploration += explorer.exploring

    def run(self, *, stopped: bool = False) -> Run:
        """The finished record."""
        path = np.array(self._path)
        return Run(
            path=path,
            rewards=self._world.reward.ravel()[path[1:]],
            certified=self._usable,
            certified_pairs=np.array(self._pairs, dtype=np.int64),
            certified_cells=np.where(self._first < 0, len(self._pairs), self._first),
            exploration_steps=self._exploration,
            stopped=stopped,
        )
