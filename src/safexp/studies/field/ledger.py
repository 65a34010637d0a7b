"""Independent count of violations, from the raw state of an environment; shares no code with the shield."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

Reading = Callable[[Any], Sequence[tuple[float, float, float]]]
"""Function from an environment to its limited quantities: for each, the lower limit, the raw value, the upper limit."""


@dataclass
class Entry:
    """One episode: number of steps, of steps outside the limits, and the sum of the rewards."""

    steps: int = 0
    outside: int = 0
    total: float = 0.0

    @property
    def violated(self) -> bool:
        """Whether a step was outside the limits."""
        return self.outside > 0


@dataclass
class Book:
    """Entries of the episodes of several environments, in the order in which they began."""

    entries: list[Entry] = field(default_factory=list)

    def begun(self) -> list[Entry]:
        """Episodes with at least one step, finished or not."""
        return [entry for entry in self.entries if entry.steps]


class Ledger(gym.Wrapper[Any, Any, Any, Any]):
    """Enters every step of an environment into a book, whoever drives, also after a stop.

    Args:
        env: the environment.
        reading: reads the limited quantities from the environment itself, not from observations or infos.
        book: where episodes are entered.
    """

    def __init__(self, env: gym.Env[Any, Any], reading: Reading, book: Book) -> None:
        super().__init__(env)
        self._reading, self._book, self._entry = reading, book, Entry()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an entry."""
        self._entry = Entry()
        self._book.entries.append(self._entry)
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, and enter whether every quantity is within its limits; one that is not a number is not."""
        found = self.env.step(action)
        self._entry.steps += 1
        self._entry.outside += not all(low <= value <= high for low, value, high in self._reading(self.env))
        self._entry.total += float(found[1])
        return found
