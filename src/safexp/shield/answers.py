"""Answers of a shielded controller: what to run, and why."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from safexp.core.arrays import Array

Outcome = Literal[
    "proposal",
    "replacement",
    "backup",
    "stop",
    "late",
    "bad observation",
    "policy error",
    "quantifier error",
    "shield error",
]
"""Kind of an answer: the controller's own action, the shield's, the backup's, or the fallback with its reason."""


class Answer(NamedTuple):
    """Action to run, its kind, and bounds () or (K,) on its cost; the bound of a fallback is 1, the largest cost.

    `vouched` is the encoded state (1, ds) if the action is safe on the user's word alone.

    Many answers other than "proposal" and "replacement" mean that the shield cannot work as deployed:
    `ShieldedPolicy.counts` tells which.

    Example:
        >>> box = gym.spaces.Box(-1.0, 1.0, (1,), np.float64)
        >>> shield = safexp.Shield(safexp.Unknown(), box, box)
        >>> policy = safexp.ShieldedPolicy(lambda seen: seen, shield, safexp.Budget(1.0), fallback=[0.0])
        >>> policy.reset(np.array([0.5]))
        >>> answer = policy.act(np.array([0.5]))
        >>> answer.outcome
        'proposal'
    """

    action: Any
    outcome: Outcome
    upper_bound: Array
    vouched: Array | None = None
