"""Graph and planning primitives for worlds whose moves (N, A) lead to one known cell each."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from safexp.finite.grid_world import Array, Indices, Mask


def returnable(next_state: Indices, allowed: Mask, state: int) -> Mask:
    """The cells (N,) that can be reached from `state` over allowed moves *and* from which it can be reached.

    That is the strongly connected component of `state`; whoever stays in it can never be trapped.
    """
    labels = connected_components(_graph(next_state, allowed), connection="strong")[1]
    return np.asarray(labels == labels[state])


def shortest_route(next_state: Indices, allowed: Mask, start: int, end: int) -> list[int]:
    """The actions of a shortest path over allowed moves; `end` must be reachable."""
    before = breadth_first_order(_graph(next_state, allowed), start)[1]
    cells = [end]
    while cells[-1] != start:
        cells.append(int(before[cells[-1]]))
    cells.reverse()
    return [
        int(np.flatnonzero(allowed[here] & (next_state[here] == there))[0])
        for here, there in zip(cells[:-1], cells[1:], strict=True)
    ]


def evaluate_policy(next_state: Indices, reward: Array, discount: Array) -> Array:
    """The value (N,) of moving to `next_state` (N,) forever, being paid `reward` and keeping `discount` of the rest.

    Doubles the horizon until what lies beyond is below rounding, so the answer is exact and costs
    O(N log horizon) instead of a linear solve.
    """
    value = reward
    while discount.max() > 1e-17:
        value = value + discount * value[next_state]
        discount = discount * discount[next_state]
        next_state = next_state[next_state]
    return value


def optimal_policy(next_state: Indices, allowed: Mask, reward: Array, discount: Array, policy: Indices) -> Indices:
    """An optimal policy (N,) among the allowed moves, by policy iteration from `policy`.

    `reward` and `discount` (N, A) are what a move pays and which share of the future it keeps. A cell with no
    allowed move is worth nothing. Ties keep the earlier choice, so that the iteration ends.
    """
    cells = np.arange(len(next_state))
    alive = allowed.any(axis=1)
    reward = np.where(allowed, reward, -np.inf)
    policy = np.where(allowed[cells, policy], policy, np.argmax(reward, axis=1))
    while True:
        value = evaluate_policy(
            next_state[cells, policy],
            np.where(alive, reward[cells, policy], 0.0),
            np.where(alive, discount[cells, policy], 0.0),
        )
        action_value = reward + discount * value[next_state]
        best = np.argmax(action_value, axis=1)
        gain = action_value[cells, best] - value
        better = alive & (gain > 1e-11 * (1.0 + np.abs(value)))
        if not better.any():
            return policy
        policy = np.where(better, best, policy)


def _graph(next_state: Indices, allowed: Mask) -> csr_array:
    ends = np.cumsum(allowed.sum(axis=1))
    return csr_array(
        (np.ones(ends[-1]), next_state[allowed], np.concatenate([[0], ends])), shape=(len(allowed),) * 2
    )
