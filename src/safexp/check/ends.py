"""The end of an episode: terminated or truncated, resets in the middle, and the speed of a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from scipy.stats import poisson

from safexp.check.probe import Probe, Trial
from safexp.core.encoding import encode_observations
from safexp.core.findings import Finding

BY_CHANCE = 1e-3
"""Probability below which so many terminations at the largest length are no coincidence."""

SLOW = 100.0
"""Steps per second below which training takes long."""


def end_findings(trials: Sequence[Trial], env: gym.Env[Any, Any], longest: int) -> list[Finding]:
    """Whether episodes end, and whether a time limit is reported as one."""
    topic = "ends of episodes"
    ended = [trial for trial in trials if trial.moments and trial.moments[-1].ended]
    limit = None if env.spec is None else env.spec.max_episode_steps
    if not ended and limit is not None and limit > longest:
        return [Finding(topic, "ok", f"none ended within {longest:,} steps; the time limit is {limit:,}.")]
    if not ended:
        return [
            Finding(
                topic,
                "caution",
                f"no episode ended within {longest:,} steps.",
                "Without an end no episode is counted, and a budget is never renewed.",
                "Set a time limit: gymnasium.make(..., max_episode_steps=...).",
            )
        ]
    terminated = [trial for trial in ended if trial.moments[-1].terminated]
    lengths = np.array([len(trial.moments) for trial in terminated])
    truncated = len(ended) - len(terminated)
    told = f"{len(terminated)} terminated, {truncated} truncated"
    if len(lengths) and not truncated:
        most = int(lengths.max())
        full = [trial for trial in terminated if len(trial.moments) == most]
        shortly = int(((lengths < most) & (lengths >= 0.8 * most)).sum())
        expected = (shortly + 1) / max(0.2 * most, 1.0)  # ends of one step, if the last one were like those before it
        if poisson.sf(len(full) - 1, expected) < BY_CHANCE and not _shows_time(full, env.observation_space):
            return [
                Finding(
                    topic,
                    "stop",
                    f"{len(full)} of {len(ended)} episodes are terminated after exactly {most:,} steps, and none is "
                    "truncated.",
                    "A time limit that is reported as a termination teaches that nothing follows, and hides what does.",
                    "Return terminated=False, truncated=True at a time limit, or leave it to max_episode_steps. If the "
                    "task really ends then, show the time in the observation.",
                )
            ]
    return [Finding(topic, "ok", f"{told}, after {min(len(t.moments) for t in ended):,} steps or more.")]


def reset_findings(trials: Sequence[Trial], probe: Probe) -> list[Finding]:
    """Whether an episode can be stopped by a reset in its middle."""
    trial = max(trials, key=lambda one: len(one.moments))
    if len(trial.moments) < 2:
        return []
    probe.replay(trial, len(trial.moments) // 2)
    again = probe.replay(trial, 1)
    if again.error is None:
        return [Finding("reset", "ok", "possible in the middle of an episode.")]
    return [
        Finding(
            "reset",
            "stop",
            f"in the middle of an episode it failed: {again.error}.",
            "An emergency stop resets the environment before its episode is over.",
            "Make `reset` possible at any step.",
        )
    ]


def speed_findings(probe: Probe) -> list[Finding]:
    """Steps per second, including resets."""
    speed = probe.steps / max(probe.seconds, 1e-9)
    found = f"{speed:,.0f} steps per second, with resets: 100,000 steps take {1e5 / speed / 60:.1f} min."
    if speed >= SLOW:
        return [Finding("speed", "ok", found)]
    return [Finding("speed", "caution", found, "Training takes long.", "Run several copies in parallel processes.")]


def _shows_time(trials: Sequence[Trial], space: spaces.Space[Any]) -> bool:
    """Whether an entry of the observation is the same in all these episodes at each step, and always changes."""
    try:
        rows = []
        for trial in trials:
            seen = [trial.before(step) for step in range(1, len(trial.moments) + 1)]
            batch = (
                {key: np.stack([one[key] for one in seen]) for key in seen[0]} if isinstance(seen[0], dict) else seen
            )
            rows.append(encode_observations(space, batch if isinstance(batch, dict) else np.stack(batch)))
    except ValueError:
        return False
    table = np.stack(rows)  # (episodes, steps, entries)
    same = np.isclose(table, table[:1]).all(axis=(0, 1))
    moving = (np.diff(table[0], axis=0) != 0).all(axis=0)
    return bool((same & moving).any())
