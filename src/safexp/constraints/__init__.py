"""The GSE problem: every constraint becomes a threshold b_h, "the next cost must be at most b_h".

The paper's Problems 1 (budget), 2 (state visits), 3 (instantaneous) and 5 (joint chance) are rewritten as
Problem 4. A constraint is an immutable description; what has happened so far in each of n environments is an
array of its own (n, w) that `start` makes and `update` replaces, so that a reset is the assignment
`state[done] = constraint.start(observations)[done]`.

Each constraint also knows its *original* form: `violated` judges a finished episode from the true signals, by the
definition in the paper and not by the thresholds, so that the shield is never asked whether it did well.
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
