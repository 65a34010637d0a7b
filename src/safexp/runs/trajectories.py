"""Paths of the robots in a few episodes from the start of a run and a few from its end."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np

from safexp.core.arrays import Array, Flags
from safexp.records.episodes import Episode
from safexp.tasks.scene import Floor, Scene

KEPT = 12
"""Number of episodes kept from the start of a run, and from its end."""

FOLLOWED = 4
"""Number of environments whose episodes are followed."""

LONGEST = 1000
"""Number of steps of an episode that are kept."""

DIGITS = 4
"""Decimals of a position in a file: tenths of a millimetre, if the task measures in metres."""

Ending = Literal["violated", "stopped", "kept"]


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Path of one episode: the robot's positions (steps + 1, 2) from the start, and the initial map.

    `episode` is its row in episodes.csv. An episode that was stopped too late counts as violated.
    """

    episode: int
    ending: Ending
    floor: Floor
    path: Array

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON values; positions are rounded."""
        return {
            "episode": self.episode,
            "ending": self.ending,
            "floor": dataclasses.asdict(self.floor),
            "path": self.path.round(DIGITS).tolist(),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """What `to_json` described."""
        floor = dict(document["floor"])
        goal, hazards = _place(floor.pop("goal")), tuple(map(_place, floor.pop("hazards")))
        path = np.array(document["path"], dtype=np.float64).reshape(-1, 2)
        if document["ending"] not in get_args(Ending) or not np.isfinite(path).all():
            raise ValueError(f"an episode has the ending {document['ending']!r}, or its path is not finite")
        sizes = {name: float(size) for name, size in floor.items()}
        return cls(int(document["episode"]), document["ending"], Floor(goal=goal, hazards=hazards, **sizes), path)


@dataclass(frozen=True, slots=True)
class Trajectories:
    """The episodes that ended first and those that ended last, none of them twice, in the order in which they ended."""

    early: tuple[Trajectory, ...] = ()
    late: tuple[Trajectory, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"early": [way.to_json() for way in self.early], "late": [way.to_json() for way in self.late]}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """What `to_json` described."""
        return cls(*(tuple(map(Trajectory.from_json, document[part])) for part in ("early", "late")))


def _place(pair: Any) -> tuple[float, float]:
    x, y = pair
    return float(x), float(y)


class Follower:
    """Follows the robots of the first few environments, as a witness of a `Recorder`.

    A step costs one small copy.

    Args:
        num_envs: number of environments.
        scene: returns the present scene of an environment, by its index.
        positions: returns the positions (n, 2) after the last step, also where it ended an episode; None if the task
            does not provide them, and then nothing is kept.
    """

    def __init__(self, num_envs: int, scene: Callable[[int], Scene], positions: Callable[[], Array | None]) -> None:
        self._scene = scene
        self._positions = positions
        self._followed = min(num_envs, FOLLOWED)
        self._floors: dict[int, Floor] = {}
        self._paths = np.zeros((self._followed, LONGEST + 2, 2))  # the last entry is for steps that are not kept
        self._steps = np.zeros(self._followed, dtype=np.int64)
        self._rows = np.arange(self._followed)
        self._early: list[Trajectory] = []
        self._late: deque[Trajectory] = deque(maxlen=KEPT)

    @property
    def trajectories(self) -> Trajectories:
        """The paths so far."""
        return Trajectories(tuple(self._early), tuple(self._late))

    def begin(self, environments: Flags) -> None:
        """Start episodes in these environments, whose robots are now in their initial positions."""
        for i in np.flatnonzero(environments[: self._followed]).tolist():
            scene = self._scene(i)
            self._floors[i] = scene.floor
            self._paths[i, 0] = scene.position
            self._steps[i] = 0

    def step(self) -> None:
        """Record a step of all environments."""
        places = self._positions()
        if places is not None:
            self._steps = np.minimum(self._steps + 1, LONGEST + 1)
            self._paths[self._rows, self._steps] = places[: self._followed]

    def end(self, environment: int, episode: Episode) -> None:
        """End the episode in this environment; one without a step is not kept."""
        if environment >= self._followed or self._steps[environment] == 0:
            return
        ending: Ending = "violated" if episode.violated else "stopped" if episode.stopped else "kept"
        path = self._paths[environment, : min(self._steps[environment], LONGEST) + 1].copy()
        way = Trajectory(episode.episode, ending, self._floors[environment], path)
        (self._early if len(self._early) < KEPT else self._late).append(way)
