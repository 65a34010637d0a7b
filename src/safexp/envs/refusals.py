"""Refusals of a guard: observations without numbers, and first states in which nothing is safe."""

from __future__ import annotations

import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from safexp.constraints import Constraint
from safexp.core.arrays import Array
from safexp.core.encoding import encoded_size
from safexp.core.signals import name_of_signal
from safexp.quantifiers.base import Quantifier
from safexp.quantifiers.calibrated import Calibrated
from safexp.quantifiers.per_cost import PerCost
from safexp.quantifiers.unknown import Unknown
from safexp.shield.shield import Shield

ADVICE = (
    "Give seed_data=Log(...) of safe transitions from there, safe_action=<an action that is safe there>, or a "
    "constraint or quantifier that allows one."
)
UNKNOWN = (
    "Unknown certifies nothing where less remains than the largest cost of a step: give a budget of at least cost_max, "
    "safe_action=<an action that is safe there>, or a quantifier that learns or knows the costs."
)


class NothingSafeError(RuntimeError):
    """Error at a reset: no action can be certified in any first state.

    Give a log (`seed_data`), a safe action, a `seed_controller` or a `Backup`, or a looser limit; the message says what
    the quantifier lacks.

    Example:
        >>> env = safexp.wrap(gym.make("safexp/PlanarRobot-v0"), safexp.Instantaneous(0.3), safexp.Unknown())
        >>> try:
        ...     _ = env.reset(seed=0)
        ... except safexp.NothingSafeError as error:
        ...     print(str(error).partition(".")[0])
        nothing can be certified in the first state
    """


def advice(constraint: Constraint, shield: Shield, measured: Array) -> str:
    """Remedy if no first state, with these signals (n, S), has a safe action."""
    for name, values in zip(map(name_of_signal, constraint.sources), measured.T, strict=True):
        if np.isnan(values).any():
            return (
                f"The signal {name} is unknown there: put it into the info of reset(), limit an entry of the "
                "observation, or give safe_action=<what is safe until it is known>."
            )
    if shield.last_failure:
        return f"The quantifier failed: {shield.last_failure}."
    if isinstance(shield.quantifier, Unknown):
        return UNKNOWN
    parts = shield.quantifier.parts if isinstance(shield.quantifier, PerCost) else (shield.quantifier,)
    short = [part.shortage for part in parts if isinstance(part, Calibrated) and part.shortage]
    return f"{short[0]}. {ADVICE}" if short else ADVICE


def check_spaces(venv: VecEnv, constraint: Constraint, shield: Shield) -> None:
    """Raise if a quantifier would see nothing of the observations, because they are images alone."""
    if not encoded_size(venv.observation_space) and not constraint.sources and not constant(shield.quantifier):
        raise ValueError(
            f"observations are images, which only the learner sees, so {type(shield.quantifier).__name__} would see "
            "nothing: give it numbers, as further entries of a Dict observation ({'image': ..., 'speed': ...}), or as "
            "signals of the info or functions of the observation (Within('speed', high=3.0)); Unknown() needs none."
        )


def constant(quantifier: Quantifier) -> bool:
    """Whether a quantifier says the same of all states and actions."""
    parts = quantifier.parts if isinstance(quantifier, PerCost) else (quantifier,)
    return all(isinstance(part, Unknown) for part in parts)
