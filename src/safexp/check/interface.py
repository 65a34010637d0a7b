"""Gymnasium's own checks, and whether a shield supports the spaces."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
from gymnasium.utils.env_checker import check_env as gymnasium_check

from safexp.core.arrays import as_batch
from safexp.core.encoding import check_action_space, encode_observations, encoded_size
from safexp.core.findings import Finding, listed

NOT_ABOUT_SAFETY = (
    "is different from the unwrapped version",  # wrappers are checked too: learners meet them
    "-infinity. This is probably too low",  # of observations; unbounded actions are found by our own check
    "infinity. This is probably too high",
    "we recommend using a symmetric and normalized space",
    "render",
    "is currently `float64`",
    "precision lowered",
)
"""Parts of Gymnasium's warnings that do not concern a shield."""


def gymnasium_findings(env: gym.Env[Any, Any]) -> list[Finding]:
    """Gymnasium's `check_env`: its error is a reason to stop, its warnings are cautions."""
    topic = "Gymnasium's checks"
    remedy = "https://gymnasium.farama.org/introduction/create_custom_env shows the interface."
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            gymnasium_check(env, skip_render_check=True, skip_close_check=True)
        except Exception as error:
            said = " ".join(str(error).split()) or type(error).__name__
            return [Finding(topic, "stop", f"`gymnasium.utils.env_checker.check_env` failed: {said}", remedy=remedy)]
    told = dict.fromkeys(_plain(str(one.message)) for one in caught)
    relevant = [text for text in told if not any(part in text for part in NOT_ABOUT_SAFETY)]
    if relevant:
        return [Finding(topic, "caution", f"passed, with warnings: {listed(relevant, 3)}", remedy=remedy)]
    return [Finding(topic, "ok", "passed.")]


def space_findings(env: gym.Env[Any, Any], first: Any) -> list[Finding]:
    """Whether a shield can search the actions and encode the observations."""
    try:
        actions = check_action_space(env.action_space)
        encode_observations(env.observation_space, as_batch(first))
    except ValueError as error:
        return [Finding("spaces", "stop", str(error), "A shield cannot be built around this environment.")]
    size = encoded_size(env.observation_space)
    return [Finding("spaces", "ok", f"observations have {size:,} entries; actions: {actions}.")]


def _plain(text: str) -> str:
    """A warning without Gymnasium's colours and prefix."""
    for part in ("\x1b[33m", "\x1b[0m", "WARN: "):
        text = text.replace(part, "")
    return " ".join(text.split())
