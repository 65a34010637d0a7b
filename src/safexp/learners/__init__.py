"""Learners: any algorithm class of Stable-Baselines3, put on guarded environments."""

from safexp.learners.adopt import build_policy, describe_policy, find_learner, make_learner

__all__ = ["build_policy", "describe_policy", "find_learner", "make_learner"]
