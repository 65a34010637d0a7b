"""Learners: ours within trust regions, and any algorithm class of Stable-Baselines3."""

from safexp.learners.adopt import (
    build_policy,
    describe_policy,
    find_learner,
    learner_settings,
    make_learner,
    name_of,
)
from safexp.learners.cpo import CPO
from safexp.learners.lagrangian import TRPOLagrangian
from safexp.learners.trpo import TRPO

__all__ = [
    "CPO",
    "TRPO",
    "TRPOLagrangian",
    "build_policy",
    "describe_policy",
    "find_learner",
    "learner_settings",
    "make_learner",
    "name_of",
]
