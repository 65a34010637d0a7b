"""Trust-region learners: TRPO, TRPO with a Lagrange multiplier, and CPO."""

from safexp.learners.cpo import CPO
from safexp.learners.lagrangian import TRPOLagrangian
from safexp.learners.trpo import TRPO

__all__ = ["CPO", "TRPO", "TRPOLagrangian"]
