"""SNO-MDP (Wachi & Sui, 2020): explore safety first, then reward, on a known deterministic grid.

Phase 1 certifies: it walks to the certified move whose safety is least known, among those that can be reached
and left again, until the ES² test says that more certified moves could not pay. Phase 2 maximises an optimistic
reward within what is certified. `Explorer` is that planner and knows nothing of thresholds; it is told which moves
are certified. `sno_mdp` runs it under one fixed threshold; `safexp.finite.grid_mase` under the GSE problem's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, final

import numpy as np
from scipy.special import ndtr

from safexp.finite.grid_gp import GridGP
from safexp.finite.grid_planning import policy_iteration, returnable, shortest_route
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
    """What is known of some moves: surely safe, possibly safe, the expected slack and its deviation."""

    certified: Mask
    possible: Mask
    slack: Array
    deviation: Array

    def chance(self) -> Array:
        """The probability that a move is safe."""
        return np.asarray(ndtr(self.slack / np.maximum(self.deviation, 1e-12)))


Judge = Callable[[Array, Array], Belief]
"""Turns mean and deviation of the safety of moves, of any shape, into a belief: all that tells MASE from SNO-MDP."""


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
        self._maps = np.stack([world.altitude.ravel(), world.reward.ravel()])
        self._model = GridGP(2, len(world.altitude), step=world.step)
        self.exploring = True
        self.usable: Mask = np.zeros((world.size, 5), dtype=bool)
        self._targets = 0
        self._route: list[tuple[int, int]] = []
        self._policy = self._es2_policy = np.full(world.size, STAY)
        self._stale = True
        self._learn(np.array(world.known))
        self.look(world.start)

    def look(self, state: int) -> None:
        """Learn altitude and reward of the cells seen from where the agent stands."""
        self._learn(self._world.seen_from[state])

    def _learn(self, cells: Indices) -> None:
        cells = self._model.unseen(cells)
        if len(cells):
            self._model.observe(cells, self._maps[:, cells])
            self._stale = True

    def propose(self, state: int, judge: Judge) -> int | None:
        """The next action: towards the target in phase 1, optimistic in phase 2; certified in both, None without one."""
        if self._route and self._certified(self._route, judge):
            return self._route.pop(0)[1]
        mean, deviation = self._safety(slice(None), slice(None))
        belief = judge(mean, deviation)
        belief = belief._replace(certified=belief.certified & self._world.valid)
        usable = self._returnable(belief.certified, state)
        self._stale |= not np.array_equal(usable, self.usable)
        self.usable = usable
        if not belief.certified[state].any():
            return None
        if not self.usable[state].any():
            # Nothing certified lets the agent come back; the first certified action is still within A⁺.
            return int(np.argmax(belief.certified[state]))
        if self.exploring:
            self._route = self._next_route(state, belief)
            self.exploring = len(self._route) > 0
        if self._route:
            return self._route.pop(0)[1]
        if self._stale:
            for policy, _ in self._plans(self.usable, self._reward_bound(1.0), 1.0, self._policy):
                self._policy = policy
            self._stale = False
        return int(self._policy[state])

    def _certified(self, route: list[tuple[int, int]], judge: Judge) -> bool:
        cells, actions = np.array(route).T
        return bool(judge(*self._safety(cells, actions)).certified.all())

    def _safety(self, cells: Indices | slice, actions: Indices | slice) -> tuple[Array, Array]:
        """Mean and standard deviation of the safety of moves."""
        altitude = self._model.mean[0]
        before = altitude[cells] if isinstance(actions, np.ndarray) else altitude[cells][:, None]
        after = altitude[self._world.next_state[cells, actions]]
        return before - after, np.sqrt(self._model.move_variance[cells, actions])

    def _returnable(self, moves: Mask, state: int) -> Mask:
        inside = returnable(moves, state)
        return np.asarray(moves & inside[:, None] & inside[self._world.next_state])

    def _next_route(self, state: int, belief: Belief) -> list[tuple[int, int]]:
        """The moves (cell, action) to the widest usable one, which is the last; none when phase 1 is over."""
        variance = np.where(self.usable, self._model.move_variance, 0.0)
        target, action = (int(index) for index in np.unravel_index(np.argmax(variance), variance.shape))
        enough = (
            self._targets >= self._settings.max_targets
            or variance[target, action] <= self._settings.min_deviation**2
        )
        if enough or self._nothing_to_gain(belief):
            return []
        self._targets += 1
        return [*shortest_route(self._world.next_state, self.usable, state, target), (target, action)]

    def _nothing_to_gain(self, belief: Belief) -> bool:
        """ES²: with what is certified paid pessimistically and the rest optimistically, nothing uncertified pays."""
        if self._settings.early_stop == "never":
            return False
        state = int(np.argmax(self.usable.any(axis=1)))
        allowed = self._returnable(self.usable | (belief.possible & self._world.valid), state)
        reward = np.where(self.usable, self._reward_bound(-1.0), self._reward_bound(1.0))
        chance = np.where(self.usable, 1.0, belief.chance()) if self._settings.early_stop == "p-es2" else 1.0
        inside = self.usable.any(axis=1)
        # No policy that stays inside is worth more, so a value beyond it settles the test without the optimum.
        limit = reward[self.usable].max() / (1.0 - self._settings.discount)
        for policy, value in self._plans(allowed, reward, chance, self._es2_policy):
            self._es2_policy = policy
            if value[inside].max() > limit * (1.0 + 1e-9):
                return False
        return bool(np.all(self.usable[inside, self._es2_policy[inside]]))

    def _reward_bound(self, sign: float) -> Array:
        bound = self._model.mean[1] + sign * self._settings.beta_reward * np.sqrt(self._model.variance)
        return np.asarray(bound[self._world.next_state])

    def _plans(
        self, allowed: Mask, reward: Array, chance: Array | float, policy: Indices
    ) -> Iterator[tuple[Indices, Array]]:
        discount = np.broadcast_to(self._settings.discount * chance, reward.shape)
        return policy_iteration(self._world.next_state, allowed, chance * reward, discount, policy)


def sno_mdp(world: GridWorld, *, steps: int = 200, beta: float = 4.0, settings: PlannerSettings | None = None) -> Run:
    """Run SNO-MDP, which believes in `world.threshold` all along.

    `beta` scales the confidence interval of a move's safety. The original's 2 is not safe; see docs/grid-world.md.
    """

    def judge(mean: Array, deviation: Array) -> Belief:
        slack, width = mean - world.threshold, beta * deviation
        return Belief(slack - width >= 0.0, slack + width >= 0.0, slack, deviation)

    explorer = Explorer(world, settings or PlannerSettings())
    recorder = Recorder(world)
    state = world.start
    for _ in range(steps):
        action = explorer.propose(state, judge)
        if action is None:
            return recorder.run(stopped=True)
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
