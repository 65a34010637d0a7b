"""Refusals of a guard: spaces that Stable-Baselines3 would change, and first states in which nothing is safe."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.vec_env import VecEnv

from safexp.constraints import Constraint
from safexp.core.arrays import Array
from safexp.core.signals import name_of_signal
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


def check_spaces(venv: VecEnv) -> None:
    """Raise for spaces that Stable-Baselines3 would convert on the learner's side of the guard."""
    observations = venv.observation_space
    parts = observations.spaces.values() if isinstance(observations, spaces.Dict) else [observations]
    if any(is_image_space(part) for part in parts):
        raise ValueError(
            "image observations are not supported: Stable-Baselines3 would transpose what the shield must see raw; "
            "extract features in the environment."
        )
