"""Progress of exploration: the share of certified proposals, and the smallest margin to a limit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from safexp.core.arrays import Array, Flags


@dataclass
class Frontier:
    """Counts of certified proposals and smallest margins since the last `take`.

    A proposal is certified if the shield let it pass because of the quantifier: it was neither replaced nor run on the
    user's word. Steps under another controller have no proposal.
    """

    proposals: int = 0
    certified: int = 0
    smallest_margin: float = math.inf

    def propose(self, proposed: Flags, certified: Flags) -> None:
        """Count the proposals (n,) of a step, and those that were certified."""
        self.proposals += int(proposed.sum())
        self.certified += int((proposed & certified).sum())

    def reach(self, margins: Array) -> None:
        """Record the margins (n,) of executed steps to their limits."""
        self.smallest_margin = min(self.smallest_margin, float(margins.min()))

    def take(self) -> dict[str, Any]:
        """Counts as metrics; counting starts again from zero."""
        nearest = self.smallest_margin if math.isfinite(self.smallest_margin) else None
        found = {"proposals": self.proposals, "proposals_certified": self.certified, "smallest_margin": nearest}
        self.proposals, self.certified, self.smallest_margin = 0, 0, math.inf
        return found
