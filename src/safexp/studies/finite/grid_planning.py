"""Reachability, routes and exact planning on grids whose moves (N, 5) lead to one known cell each.

Sets of cells are Python integers with one bit per cell: a whole generation of a flood fill is then a handful
of shifts, several times faster on such small graphs than building a sparse matrix.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from safexp.core.arrays import Array, Flags, Indices
from safexp.tasks.grid_world import DOWN, LEFT, RIGHT, UP


def returnable(allowed: Flags, state: int) -> Flags:
    """The cells (N,) that can be reached from `state` over allowed moves *and* from which it can be reached.

    Whoever stays among them can never be trapped.
    """
    forward = _shifts(allowed)
    backward = tuple((mask << shift if shift > 0 else mask >> -shift, -shift) for mask, shift in forward)
    inside = _generations(forward, state)[-1] & _generations(backward, state)[-1]
    return _cells(inside, len(allowed))


def shortest_route(allowed: Flags, start: int, end: int) -> list[tuple[int, int]]:
    """The moves (cell, action) of a shortest path over allowed moves; `end` must be reachable."""
    shifts = _shifts(allowed)
    generations = _generations(shifts, start)
    moves: list[tuple[int, int]] = []
    cell = end
    distance = next(steps for steps, reached in enumerate(generations) if reached >> end & 1)
    for reached in reversed(generations[:distance]):
        for action, (mask, shift) in zip((RIGHT, DOWN, LEFT, UP), shifts, strict=True):
            before = cell - shift
            if before >= 0 and reached & mask & 1 << before:
                moves.append((before, action))
                cell = before
                break
    return moves[::-1]


def evaluate_policy(next_state: Indices, reward: Array, discount: Array) -> Array:
    """The value (N,) of moving to `next_state` (N,) forever, being paid `reward` and keeping `discount` of the rest.

    Doubles the horizon until what lies beyond is below rounding, so the answer is exact and needs no linear
    solve.
    """
    value, largest = reward, float(discount.max())
    while largest > 1e-17:
        value = value + discount * value[next_state]
        discount = discount * discount[next_state]
        next_state, largest = next_state[next_state], largest * largest
    return value


def policy_iteration(
    next_state: Indices, allowed: Flags, reward: Array, discount: Array, policy: Indices
) -> Iterator[tuple[Indices, Array]]:
    """Policies (N,) of increasing value among the allowed moves, with values, from `policy` on; the last is optimal.

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


def _shifts(allowed: Flags) -> tuple[tuple[int, int], ...]:
    """For right, down, left and up: the cells that may move so, and by how many cells that shifts them."""
    n = round(len(allowed) ** 0.5)
    packed = np.packbits(allowed.T, axis=1, bitorder="little")
    steps = ((RIGHT, 1), (DOWN, n), (LEFT, -1), (UP, -n))
    return tuple((int.from_bytes(packed[action].tobytes(), "little"), shift) for action, shift in steps)


def _generations(shifts: tuple[tuple[int, int], ...], start: int) -> list[int]:
    """The cells within 0, 1, 2, … moves of `start`, until they are all that can be reached."""
    reached = frontier = 1 << start
    generations = [reached]
    while frontier:
        entered = 0
        for mask, shift in shifts:
            leaving = frontier & mask
            entered |= leaving << shift if shift > 0 else leaving >> -shift
        frontier = entered & ~reached
        reached |= frontier
        generations.append(reached)
    return generations


def _cells(bits: int, count: int) -> Flags:
    packed = np.frombuffer(bits.to_bytes(-(-count // 8), "little"), dtype=np.uint8)
    return np.unpackbits(packed, count=count, bitorder="little").astype(bool)
