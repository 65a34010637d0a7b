"""Options of a backup: the ways to safety that certificates look ahead to."""

from __future__ import annotations

from dataclasses import dataclass

from safexp.core.arrays import Controller


@dataclass(frozen=True)
class Option:
    """A way to safety after a certified action: it is held for `hold` more steps, then `act` drives for `horizon`."""

    act: Controller
    horizon: int
    hold: int = 0

    @property
    def steps(self) -> int:
        """Number of steps after the certified action."""
        return self.hold + self.horizon
