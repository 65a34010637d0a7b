"""Whether the same seed and the same actions give the same episode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import data_equivalence

from safexp.check.probe import Probe, Trial
from safexp.core.findings import Finding


def seed_findings(trials: Sequence[Trial], probe: Probe, longest: int) -> list[Finding]:
    """Replay some episodes, and compare observations, rewards, and costs or signals."""
    rewards: list[str] = []
    steps = 0
    for trial in trials:
        until = min(len(trial.moments), longest)
        again = probe.replay(trial, until)
        steps += until
        if not data_equivalence(trial.first, again.first):
            return [_differs(f"seed {trial.seed} gave different first observations")]
        for step, (one, other) in enumerate(zip(trial.moments[:until], again.moments, strict=False), 1):
            where = f"at step {step} of seed {trial.seed}, after the same actions,"
            if not data_equivalence(one.observation, other.observation):
                return [_differs(f"{where} the observation differs")]
            if one.signals is not None and other.signals is not None and not np.allclose(one.signals, other.signals):
                return [_differs(f"{where} the cost or signal is {other.signals}, and was {one.signals}")]
            if one.ended != other.ended:
                return [_differs(f"{where} the episode ends only once")]
            if not np.allclose(one.reward, other.reward, equal_nan=True):
                rewards.append(f"{where} the reward is {float(other.reward):.4g}, and was {float(one.reward):.4g}")
    wrapper = next((name for name in _wrappers(probe.env) if name == "NormalizeReward"), "")
    if rewards or wrapper:
        found = f"the environment is wrapped in {wrapper}" if wrapper else rewards[0]
        return [
            Finding(
                "reward scale",
                "stop",
                f"{found}.",
                "A reward that is scaled by what came before squashes the penalty of a stop.",
                "Leave the normalisation out, or scale rewards by a constant.",
            )
        ]
    return [Finding("same seed", "ok", f"{len(trials)} episodes were repeated exactly, {steps:,} steps.")]


def _differs(found: str) -> Finding:
    return Finding(
        "same seed",
        "stop",
        f"{found}.",
        "Runs cannot be repeated or resumed, and timing and action bounds could not be checked.",
        "Draw all random numbers from self.np_random, after super().reset(seed=seed).",
    )


def _wrappers(env: gym.Env[Any, Any]) -> Iterator[str]:
    layer: Any = env
    while isinstance(layer, gym.Wrapper):
        yield type(layer).__name__
        layer = layer.env
