"""Learners: ours within trust regions, and any algorithm class of Stable-Baselines3."""

from safexp.learners.adopt import (
    POLICY_OPTIONS,
    build_policy,
    check_policy,
    describe_policy,
    find_learner,
    is_algorithm,
    learner_settings,
    load_weights,
    make_learner,
    name_of,
)
from safexp.learners.cpo import CPO
from safexp.learners.lagrangian import TRPOLagrangian
from safexp.learners.trpo import TRPO

__all__ = [
    "CPO",
    "POLICY_OPTIONS",
    "TRPO",
    "TRPOLagrangian",
    "build_policy",
    "check_policy",
    "describe_policy",
    "find_learner",
    "is_algorithm",
    "learner_settings",
    "load_weights",
    "make_learner",
    "name_of",
]
