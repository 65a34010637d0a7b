"""Train reinforcement-learning policies without breaking a safety constraint while they learn."""

from typing import TYPE_CHECKING, Any

from safexp import tasks
from safexp.backups.penalty import Penalty
from safexp.backups.stops import Fallback, Reset, Stop
from safexp.constraints import (
    AllOf,
    Budget,
    Constraint,
    Instantaneous,
    JointChance,
    Margin,
    Schedule,
    StateVisits,
)
from safexp.quantifiers import (
    GLM,
    Calibrated,
    DeepGP,
    Each,
    ExactGP,
    FeatureRegression,
    FromMargin,
    Known,
    Projected,
    Quantifier,
    SparseGP,
    Unknown,
)
from safexp.shield.logs import Log, read_log
from safexp.shield.policy import ShieldedPolicy
from safexp.shield.shield import Shield

if TYPE_CHECKING:
    from safexp.backups.learned_reset import LearnedReset
    from safexp.learners.cpo import CPO
    from safexp.learners.lagrangian import TRPOLagrangian
    from safexp.learners.trpo import TRPO
    from safexp.mase.mase import MASE

tasks.register()

__version__ = "0.1.0.dev0"

__all__ = [
    "CPO",
    "GLM",
    "MASE",
    "TRPO",
    "AllOf",
    "Budget",
    "Calibrated",
    "Constraint",
    "DeepGP",
    "Each",
    "ExactGP",
    "Fallback",
    "FeatureRegression",
    "FromMargin",
    "Instantaneous",
    "JointChance",
    "Known",
    "LearnedReset",
    "Log",
    "Margin",
    "Penalty",
    "Projected",
    "Quantifier",
    "Reset",
    "Schedule",
    "Shield",
    "ShieldedPolicy",
    "SparseGP",
    "StateVisits",
    "Stop",
    "TRPOLagrangian",
    "Unknown",
    "read_log",
]


def __getattr__(name: str) -> Any:
    """Import what needs torch only when it is asked for: a deployed shield does not."""
    if name == "MASE":
        from safexp.mase.mase import MASE

        return MASE
    if name == "LearnedReset":
        from safexp.backups.learned_reset import LearnedReset

        return LearnedReset
    if name in ("CPO", "TRPO", "TRPOLagrangian"):
        from safexp import learners

        return getattr(learners, name)
    raise AttributeError(f"module 'safexp' has no attribute {name!r}")
