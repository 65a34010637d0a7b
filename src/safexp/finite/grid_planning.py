"""Graph and planning primitives for worlds whose moves (N, A) lead to one known cell each."""

from __future__ import annotations

from collections.abc import Iterator

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


def shortest_route(next_state: Indices, allowed: Mask, start: int, end: int) -> list[tuple[int, int]]:
    """The moves (cell, action) of a shortest path over allowed moves; `end` must be reachable."""
    before = breadth_first_order(_graph(next_state, allowed), start)[1]
    cells = [end]
    while cells[-1] != start:
        cells.append(int(before[cells[-1]]))
    cells.reverse()
    return [
        (here, int(np.flatnonzero(allowed[here] & (next_state[here] == there))[0]))
        for here, there in zip(cells[:-1], cells[1:], strict=True)
    ]


def evaluate_policy(next_state: Indices, reward: Array, discount: Array) -> Array:
    """The value (N,) of moving to `next_state` (N,) forever, being paid `reward` and keeping `discount` of the rest.

    Doubles the horizon until what lies beyond is below rounding, so the answer is exact and needs no linear solve.
    """
    value, largest = reward, float(discount.max())
    while largest > 1e-17:
        value = value + discount * value[next_state]
        discount = discount * discount[next_state]
        next_state, largest = next_state[next_state], largest * largest
    return value


def policy_iteration(
    next_state: Indices, allowed: Mask, reward: Array, discount: Array, policy: Indices
) -> Iterator[tuple[Indices, Array]]:
    """Ever better policies (N,) among the allowed moves and their values, from `policy` on; the last is optimal.

    `reward` and `discount` (N, A) are what a move pays and which share of the future it keeps. A cell with no
    allowed move is worth nothing. Ties keep the earlier choice, so that the iteration ends.
    """
    cells = np.arange(len(next_state))
    alive = allowed.any(axis=1)
    reward = np.where(allowed, reward, -np.inf)
    policy = np.where(allowed[cells, policy], policy, np.argmax(reward, axis=1))
    better = alive
    while better.any():
        value = evaluate_policy(
            next_state[cells, policy],
            np.where(alive, reward[cells, policy], 0.0),
            np.where(alive, discount[cells, policy], 0.0),
        )
        yield policy, value
        action_value = reward + discount * value[next_state]
        best = np.argmax(action_value, axis=1)
        better = alive & (action_value[cells, best] - value > 1e-11 * (1.0 + np.abs(value)))
        policy = np.where(better, best, policy)


def _graph(next_state: Indices, allowed: Mask) -> csr_array:
    ends = np.concatenate([[0], np.cumsum(np.count_nonzero(allowed, axis=1))]).astype(np.int32)
    return csr_array(
        (np.ones(ends[-1]), next_state[allowed].astype(np.int32), ends), shape=(len(allowed), len(allowed))
    )
