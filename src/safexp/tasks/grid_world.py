"""Random square grid worlds whose moves are safe when they do not climb too fast (the paper's Appendix H).

A state is a cell, numbered row by row. The safety of a move is the drop in altitude, `altitude(s) −
altitude(s')`, and must be at least a (negative) threshold. As a cost in [0, 1], the form of the GSE problem:
g = ½ − safety/(2D) and b = ½ − threshold/(2D).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from safexp.core.arrays import Array, Flags, Indices

STAY, RIGHT, DOWN, LEFT, UP = range(5)
STEPS = ((0, 0), (0, 1), (1, 0), (0, -1), (-1, 0))


@dataclass(frozen=True, eq=False)
class GridWorld:
    """Altitude and reward maps (n, n), a start cell and the threshold assumed at the start.

    `known` are the cells whose altitude and reward are known beforehand: the safe seed without which nothing
    could be certified. By default, the start and every neighbour that can be entered and left safely. `step`
    is the distance of neighbouring cells in units of the maps' length scale. From its cell the agent sees
    altitude and reward up to `sight` moves straight ahead in each direction; with 0 it only sees its own cell,
    the feedback of the GSE problem, which is too little to certify anything distant at β = 4.
    """

    altitude: Array
    reward: Array
    start: int
    threshold: float = -0.25
    step: float = 0.5
    known: tuple[int, ...] = ()
    sight: int = 1

    def __post_init__(self) -> None:
        _check_map("altitude", self.altitude)
        _check_map("reward", self.reward)
        if self.reward.shape != self.altitude.shape:
            raise ValueError(
                f"the reward map is {self.reward.shape}, the altitude map {self.altitude.shape}; "
                "give both the same shape"
            )
        if not 0 <= self.start < self.altitude.size:
            raise ValueError(
                f"start {self.start} is not a cell: cells are numbered row by row from 0 to {self.altitude.size - 1}"
            )
        safe = self.safety >= self.threshold
        if not np.any(safe[:, 1:] & self.valid[:, 1:]):
            raise ValueError(
                f"no move between cells has a safety of at least {self.threshold}; the safest has "
                f"{self.safety[self.valid].max():.3g}: lower the threshold"
            )
        if not self.known:
            object.__setattr__(self, "known", (self.start, *_safe_neighbours(self, self.start)))
        if len(self.known) < 2:
            raise ValueError(
                f"the start {self.start} is unsafe: no neighbour can be entered and left again with a safety of at "
                f"least {self.threshold}; choose another start, such as one of {_safe_starts(self)[:5].tolist()}"
            )

    @property
    def size(self) -> int:
        """The number of cells."""
        return self.altitude.size

    @cached_property
    def next_state(self) -> Indices:
        """The cell (N, 5) after staying or moving right, down, left or up; the same cell for a move off the map."""
        return self._neighbours[0]

    @cached_property
    def valid(self) -> Flags:
        """Which of the actions (N, 5) stay on the map."""
        return self._neighbours[1]

    @cached_property
    def seen_from(self) -> tuple[Indices, ...]:
        """For each cell, the cells seen from it, itself first."""
        ahead = [np.arange(self.size)[:, None]]
        for action in (RIGHT, DOWN, LEFT, UP):
            cells = np.arange(self.size)
            for _ in range(self.sight):
                cells = self.next_state[cells, action]
                ahead.append(cells[:, None])
        return tuple(np.array(list(dict.fromkeys(cells.tolist()))) for cells in np.concatenate(ahead, axis=1))

    @cached_property
    def safety(self) -> Array:
        """The true safety (N, 5) of each action."""
        altitude = self.altitude.ravel()
        return altitude[:, None] - altitude[self.next_state]

    @cached_property
    def scale(self) -> float:
        """D: an upper bound on |safety|, a power of two, so that g and b are scaled without rounding."""
        largest = max(float(np.abs(self.safety).max()), abs(self.threshold))
        return float(2.0 ** np.ceil(np.log2(largest)))

    def cost(self, safety: Array | float) -> Array:
        """Safety, or a threshold on it, in the paper's cost form: ½ − safety/(2D)."""
        return 0.5 - np.asarray(safety, dtype=np.float64) / (2.0 * self.scale)

    @cached_property
    def _neighbours(self) -> tuple[Indices, Flags]:
        n = len(self.altitude)
        row, column = np.divmod(np.arange(n * n), n)
        rows = row[:, None] + [step[0] for step in STEPS]
        columns = column[:, None] + [step[1] for step in STEPS]
        valid = (rows >= 0) & (rows < n) & (columns >= 0) & (columns < n)
        return np.where(valid, rows * n + columns, np.arange(n * n)[:, None]), valid


def random_world(
    generator: np.random.Generator,
    size: int = 20,
    *,
    threshold: float = -0.25,
    step: float = 0.5,
    length_scale: float = 2.0,
) -> GridWorld:
    """Random world with altitude and reward from a Gaussian process, and a non-trivial safe seed.

    Both maps ~ GP(0, RBF) with unit variance; the reward is shifted to be at least 0. The start has a
    vertical and a horizontal neighbour that can be entered and left safely; these three cells are known
    beforehand.
    """
    if size < 2:
        raise ValueError(f"size is {size}; a world needs at least 2 x 2 cells")
    root = kernel_root(size, step, length_scale)
    while True:
        altitude, reward = (root @ generator.standard_normal((size, size)) @ root.T for _ in range(2))
        neighbours = _two_way(altitude, threshold)
        starts = np.flatnonzero(
            (neighbours[:, RIGHT] | neighbours[:, LEFT]) & (neighbours[:, UP] | neighbours[:, DOWN])
        )
        if len(starts):
            break
        if not np.any(neighbours):
            raise ValueError(
                f"no move of a random world has a safety of at least {threshold} both ways; lower the threshold"
            )
    start = int(generator.choice(starts))
    offsets = {RIGHT: 1, DOWN: size, LEFT: -1, UP: -size}
    horizontal, vertical = (
        start + offsets[int(generator.choice([action for action in pair if neighbours[start, action]]))]
        for pair in ((RIGHT, LEFT), (DOWN, UP))
    )
    return GridWorld(altitude, reward - reward.min(), start, threshold, step, known=(start, horizontal, vertical))


def rising_thresholds(start: float, rise: float, steps: int) -> Array:
    """The time-variant threshold `start + rise · t/T` for t = 0, …, T − 1; constant when `rise` is 0."""
    return start + rise * np.arange(steps) / steps


def kernel_root(size: int, step: float, length_scale: float) -> Array:
    """Root of the RBF kernel matrix of one axis; the kernel of the grid is the Kronecker product of two."""
    values, vectors = np.linalg.eigh(axis_kernel(size, step, length_scale))
    return np.asarray(vectors * np.sqrt(np.clip(values, 0.0, None)))


def axis_kernel(size: int, step: float, length_scale: float) -> Array:
    """The RBF kernel (n, n) between the coordinates of one axis."""
    x = np.arange(size) * step
    return np.asarray(np.exp(-0.5 * ((x[:, None] - x) / length_scale) ** 2))


def violations(altitude: Array, path: Indices, thresholds: Array) -> Flags:
    """Which moves of `path` (T + 1 cells) climbed too fast, from the true altitude alone.

    Independent of the code that certifies moves, so that a shared mistake cannot hide a violation.
    """
    heights = altitude.ravel()[path]
    return np.asarray(heights[1:] - heights[:-1] > -thresholds[: len(path) - 1])


def _two_way(altitude: Array, threshold: float) -> Flags:
    """Which neighbours (N, 5) can be entered and left with a safety of at least `threshold`."""
    allowed = np.zeros((*altitude.shape, 5), dtype=bool)
    across = np.abs(np.diff(altitude, axis=1)) <= -threshold
    down = np.abs(np.diff(altitude, axis=0)) <= -threshold
    allowed[:, :-1, RIGHT] = allowed[:, 1:, LEFT] = across
    allowed[:-1, :, DOWN] = allowed[1:, :, UP] = down
    return allowed.reshape(-1, 5)


def _safe_neighbours(world: GridWorld, state: int) -> list[int]:
    return [int(cell) for cell in world.next_state[state][_two_way(world.altitude, world.threshold)[state]]]


def _safe_starts(world: GridWorld) -> Indices:
    return np.flatnonzero(_two_way(world.altitude, world.threshold).any(axis=1))


def _check_map(name: str, values: Array) -> None:
    if values.ndim != 2 or values.shape[0] != values.shape[1] or len(values) < 2:
        raise ValueError(f"the {name} map is {values.shape}; a square map of at least 2 x 2 cells is needed")
    if not np.all(np.isfinite(values)):
        bad = np.argwhere(~np.isfinite(values))
        raise ValueError(
            f"the {name} map is not finite in {len(bad)} cells, the first at {tuple(bad[0].tolist())}; fill them in"
        )
