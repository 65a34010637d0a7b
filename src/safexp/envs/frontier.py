"""How far exploration got: the share of proposals that were certified, and the smallest margin to a limit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from safexp.core.arrays import Array, Flags


@dataclass
class Frontier:
    """Counts since they were last taken.

    A proposal is certified if the shield let it pass on the quantifier's word: it was neither replaced nor run because
    the user vouches for it. Steps under another controller have no proposal.
    """

    proposals: int = 0
    certified: int = 0
    smallest_margin: float = math.inf

    def propose(self, proposed: Flags, certified: Flags) -> None:
        """Count the proposals (n,) of a step, and those that were certified."""
        self.proposals += int(proposed.sum())
        self.certified += int((proposed & certified).sum())

    def reach(self, margins: Array) -> None:
        """Note how far executed steps stayed from their limits, (n,)."""
        self.smallest_margin = min(self.smallest_margin, float(margins.min()))

    def take(self) -> dict[str, Any]:
        """The counts as metrics; counting starts anew."""
        nearest = self.smallest_margin if math.isfinite(self.smallest_margin) else None
        found = {"proposals": self.proposals, "proposals_certified": self.certified, "smallest_margin": nearest}
        self.proposals, self.certified, self.smallest_margin = 0, 0, math.inf
        return found
