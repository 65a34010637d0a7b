"""The GSE problem: every constraint becomes a threshold b_h, "the next cost must be at most b_h".

The paper's Problems 1 (budget), 2 (state visits), 3 (instantaneous) and 5 (joint chance) are rewritten as
Problem 4. A constraint is immutable; its state in n environments is an array (n, w) that `start` makes and `update`
replaces, so a reset is the assignment `state[done] = constraint.start(observations)[done]`.

Each constraint also knows its *original* form: `violated` judges a finished episode from the true signals, by the
definition in the paper and not by the thresholds, so the judgment is independent of the shield.
"""

from safexp.constraints.account import Account
from safexp.constraints.all_of import AllOf
from safexp.constraints.base import TOLERANCE, Constraint
from safexp.constraints.every_step import Instantaneous, Schedule
from safexp.constraints.whole_episode import Budget, JointChance, StateVisits
from safexp.constraints.within import Margin, Within

__all__ = [
    "TOLERANCE",
    "Account",
    "AllOf",
    "Budget",
    "Constraint",
    "Instantaneous",
    "JointChance",
    "Margin",
    "Schedule",
    "StateVisits",
    "Within",
]
