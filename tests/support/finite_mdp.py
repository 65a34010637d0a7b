"""Finite MDPs solved exactly, by backward induction over everything that has happened in an episode.

A node is a state together with the costs paid on the way there, so that one tree serves every constraint. Two problems
are solved on it: the constrained one, which judges whole episodes by `Constraint.violated` and knows no threshold, and
the penalised one of equation 1, whose actions and stops are those of a real `Shield`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from safexp import Constraint, Known, Penalty, Shield
from safexp.core.arrays import Array

Indices = NDArray[np.int64]
TIE = 1e-9


@dataclass(frozen=True)
class FiniteMDP:
    """Episodes of `horizon` steps from state 0: transitions (S, A, S), rewards and costs (S, A) in [0, 1]."""

    transitions: Array
    rewards: Array
    costs: Array
    horizon: int
    discount: float = 1.0

    @property
    def largest_value(self) -> float:
        """V_max, an upper bound on every value (erratum 4: H where nothing is discounted)."""
        return float(np.sum(self.discount ** np.arange(self.horizon)))

    @property
    def observation_space(self) -> spaces.Discrete:
        return spaces.Discrete(len(self.transitions))

    @property
    def action_space(self) -> spaces.Discrete:
        return spaces.Discrete(self.transitions.shape[1])

    def quantifier(self, mean: Array | None = None, width: Array | float = 0.0, delta: float = 0.0) -> Known:
        """Knows the costs as these tables (S, A)."""
        means = self.costs if mean is None else mean
        widths = np.broadcast_to(width, self.costs.shape)
        return Known(lambda s, a: look_up(means, s, a), lambda s, a: look_up(widths, s, a), delta=delta)

    def shield(self, quantifier: Known) -> Shield:
        return Shield(quantifier, self.observation_space, self.action_space)


def look_up(table: Array, states: Array, actions: Array) -> Array:
    """Entries (N,) of a table (S, A) at one-hot states and actions."""
    return table[states.argmax(axis=1), actions.argmax(axis=1)]


def random_mdp(
    rng: np.random.Generator, horizon: int = 4, discount: float = 1.0, branches: int = 1, tempting: float = 1.0
) -> FiniteMDP:
    """Seven states, three actions, `branches` successors of every pair, and temptation.

    States 5 and 6 are dead ends, where every action costs 1. States 3 and 4 lead there. The pairs that lead to states 3
    and 4 pay up to `tempting`, all others up to 0.3.
    """
    transitions = np.zeros((7, 3, 7))
    for state, action in np.ndindex(7, 3):
        successors = rng.choice(5, branches, replace=False)
        if state in (3, 4):
            successors[0] = 5 + action % 2
        transitions[state, action, successors] = rng.dirichlet(np.full(branches, 2.0))
    leads_on = transitions[:, :, [3, 4]].sum(axis=2) > 0
    rewards = rng.uniform(size=(7, 3)) * np.where(leads_on, tempting, 0.3)
    costs = rng.uniform(size=(7, 3)) ** 2
    costs[5:] = 1.0
    return FiniteMDP(transitions, rewards, costs, horizon, discount)


class Layer(NamedTuple):
    """The n nodes of one time: states (n,), costs paid so far (n, h), children (n, A, S) in the next layer or −1."""

    states: Indices
    paid: Array
    children: Indices


def unroll(mdp: FiniteMDP) -> list[Layer]:
    """The layers 0, …, H of the tree; the last one are the finished episodes."""
    num_actions, num_states = mdp.transitions.shape[1:]
    states, paid = np.zeros(1, dtype=np.int64), np.zeros((1, 0))
    layers = []
    for _ in range(mdp.horizon):
        node, action, successor = np.nonzero(mdp.transitions[states] > 0)
        rows = np.column_stack([successor, paid[node], mdp.costs[states[node], action]])
        unique, index = np.unique(rows, axis=0, return_inverse=True)
        children = np.full((len(states), num_actions, num_states), -1)
        children[node, action, successor] = index.reshape(-1)
        layers.append(Layer(states, paid, children))
        states, paid = unique[:, 0].astype(np.int64), unique[:, 1:]
    layers.append(Layer(states, paid, np.empty((len(states), 0, 0), dtype=np.int64)))
    return layers


def constrained_optimum(mdp: FiniteMDP, constraint: Constraint, layers: list[Layer]) -> list[Array]:
    """Action values (n, A) of every layer: −∞ where the constraint is broken with any probability at all."""
    broken = [constraint.violated(np.zeros(()), paid) for paid in layers[-1].paid]
    values = np.where(broken, -np.inf, 0.0)
    solution = []
    for layer in reversed(layers[:-1]):
        action_values = mdp.rewards[layer.states] + mdp.discount * expect(mdp, layer, values)
        values = action_values.max(axis=1)
        solution.append(action_values)
    return solution[::-1]


def penalised_optimum(
    mdp: FiniteMDP, constraint: Constraint, shield: Shield, penalty: Penalty, layers: list[Layer]
) -> list[Array]:
    """Action values (n, A) of every layer under equation 1: −∞ outside A⁺, and a penalty for leading to A⁺ = ∅."""
    thresholds = node_thresholds(mdp, constraint, layers)
    values = stop_values = np.zeros(len(layers[-1].states))
    stops = np.zeros(len(values), dtype=bool)
    solution = []
    for layer, threshold in zip(reversed(layers[:-1]), reversed(thresholds), strict=True):
        goes_on = mdp.rewards[layer.states][:, :, None] + mdp.discount * values[layer.children]
        paid = np.where(stops[layer.children], stop_values[layer.children], goes_on)
        offers = shield.outlook(layer.states, threshold)
        action_values = np.where(offers.safe, np.sum(mdp.transitions[layer.states] * paid, axis=2), -np.inf)
        values = np.where(offers.viable, action_values.max(axis=1), 0.0)
        stops, stop_values = ~offers.viable, penalty(offers.least_width)
        solution.append(action_values)
    return solution[::-1]


def expect(mdp: FiniteMDP, layer: Layer, values: Array) -> Array:
    """Expected values (n, A) of the children."""
    possible = layer.children >= 0
    weights = np.where(possible, mdp.transitions[layer.states], 1.0)
    return np.sum(np.where(possible, weights * values[layer.children], 0.0), axis=2)


def node_thresholds(mdp: FiniteMDP, constraint: Constraint, layers: list[Layer]) -> list[Array]:
    """What the constraint says at every node (n,) of the layers before the last, from the true costs."""
    thresholds = []
    for layer in layers[:-1]:
        memory = constraint.start(layer.states)
        for costs in layer.paid.T:
            memory = constraint.update(memory, costs, costs)
        thresholds.append(constraint.threshold(memory))
    return thresholds


def visited(layers: list[Layer], solution: list[Array]) -> list[Indices]:
    """The nodes of every layer that the greedy policy of a solution reaches."""
    nodes = [np.zeros(1, dtype=np.int64)]
    for layer, action_values in zip(layers[:-1], solution, strict=True):
        children = layer.children[nodes[-1], action_values[nodes[-1]].argmax(axis=1)]
        nodes.append(np.unique(children[children >= 0]))
    return nodes


def safety_margin(mdp: FiniteMDP, constraint: Constraint, layers: list[Layer], solution: list[Array]) -> float:
    """The largest ζ of Assumption 3.1: how far the greedy policy's costs stay below the thresholds, at the least."""
    margins = []
    rows = zip(layers, visited(layers, solution), node_thresholds(mdp, constraint, layers), solution, strict=False)
    for layer, nodes, threshold, action_values in rows:
        actions = action_values[nodes].argmax(axis=1)
        margins.append(np.min(threshold[nodes] - mdp.costs[layer.states[nodes], actions]))
    return float(min(margins))


def same_policy(layers: list[Layer], one: list[Array], other: list[Array]) -> bool:
    """Whether two greedy policies agree wherever the first goes and its best action is the only best one."""
    for nodes, ours, theirs in zip(visited(layers, one), one, other, strict=False):
        best = np.sort(ours[nodes], axis=1)
        unique = best[:, -1] - best[:, -2] > TIE
        if np.any(ours[nodes].argmax(axis=1)[unique] != theirs[nodes].argmax(axis=1)[unique]):
            return False
    return True


def value(solution: list[Array]) -> float:
    return float(solution[0].max())


def least_path_probability(mdp: FiniteMDP, layers: list[Layer]) -> float:
    """The smallest probability of any path: no policy stops with a smaller one, unless it never does."""
    least = np.ones(len(layers[-1].states))
    for layer in reversed(layers[:-1]):
        paths = np.where(layer.children >= 0, mdp.transitions[layer.states] * least[layer.children], 1.0)
        least = paths.min(axis=(1, 2))
    return float(least[0])


def paper_c(mdp: FiniteMDP, zeta: float) -> float:
    """A c just above Theorem 4.2's bound ζ·V_max / (2·γ^H)."""
    return 1.001 * zeta * mdp.largest_value / (2 * mdp.discount**mdp.horizon)


class FiniteEnv(gym.Env[np.int64, np.int64]):
    """A finite MDP as a Gymnasium environment that remembers the true costs and states of all its episodes."""

    def __init__(self, mdp: FiniteMDP, seed: int) -> None:
        self.mdp = mdp
        self.observation_space = mdp.observation_space
        self.action_space = mdp.action_space
        self.episodes: list[list[float]] = []
        self.paths: list[list[int]] = []
        self._rng = np.random.default_rng(seed)
        self._cumulative = mdp.transitions.cumsum(axis=2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        self.episodes.append([])
        self.paths.append([0])
        return np.int64(0), {}

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        pair = self.paths[-1][-1], int(action)
        drawn = np.searchsorted(self._cumulative[pair], self._rng.uniform() * self._cumulative[pair][-1], side="right")
        self.paths[-1].append(int(drawn))
        self.episodes[-1].append(float(self.mdp.costs[pair]))
        truncated = len(self.episodes[-1]) == self.mdp.horizon
        return np.int64(drawn), float(self.mdp.rewards[pair]), False, truncated, {"cost": self.mdp.costs[pair]}
