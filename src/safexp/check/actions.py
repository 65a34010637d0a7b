"""Whether the whole action space has an effect, or the environment clips actions more tightly than it says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence

from safexp.check.probe import Moment, Probe, Trial
from safexp.core.findings import Finding, listed

FRACTIONS = (0.95, 0.75, 0.5, 0.25)
"""Actions compared with the one at a bound, as shares of the way there from the middle of the range."""

STATES = 8
"""Number of states in which each entry of the action is examined."""

ENTRIES = 12
"""Largest number of entries of the action that are examined."""

LATEST = 40
"""Latest step of an episode in which actions are compared: later ones take longer to reach."""


def action_findings(trials: Sequence[Trial], probe: Probe) -> list[Finding]:
    """Compare the effects of actions at a bound and inside it, in the same states."""
    space, topic = probe.env.action_space, "action bounds"
    if not (isinstance(space, spaces.Box) and space.is_bounded()):
        return []
    size = int(np.prod(space.shape))
    entries = range(min(size, ENTRIES))
    clipped, idle = [], []
    for entry in entries:
        places = _places(trials, probe)
        sides = [_effective_share(probe, places, entry, bound) for bound in (space.low, space.high)]
        if all(share == 0.0 for share in sides):
            idle.append(f"action[{entry}]")
            continue
        for name, share in zip(("low", "high"), sides, strict=True):
            if share is not None and 0 < share < 1:
                clipped.append(f"action[{entry}] beyond {_value_at(share, space, entry, name)}")
    if clipped:
        return [
            Finding(
                topic,
                "caution",
                f"no effect beyond a smaller bound: {listed(clipped, 4)}.",
                "The environment clips actions, or its actuators saturate: what lies beyond is explored in vain, and "
                "distances between actions mean nothing there.",
                "Give action_space the bounds that are executed, or rescale the action.",
            )
        ]
    if idle:
        return [
            Finding(
                topic,
                "caution",
                f"no effect on the next observation or reward in {STATES} states: {listed(idle)}.",
                "A shield cannot influence anything with it.",
                "Leave it out, unless it acts later.",
            )
        ]
    return [
        Finding(topic, "ok", f"actions have an effect up to their bounds ({len(entries)} of {size} entries tried).")
    ]


def _value_at(share: float, space: spaces.Box, entry: int, side: str) -> str:
    """The value of an entry at this share of the way from the middle to a bound, and the bound."""
    low, high = float(space.low.flat[entry]), float(space.high.flat[entry])
    middle, bound = (low + high) / 2, low if side == "low" else high
    return f"{middle + share * (bound - middle):.3g} (the bound is {bound:.3g})"


def _places(trials: Sequence[Trial], probe: Probe) -> list[tuple[Trial, int]]:
    """Some states, as episodes and steps."""
    found = []
    for index in range(STATES):
        trial = trials[index % len(trials)]
        until = max(min(len(trial.moments) - 1, LATEST), 0)
        found.append((trial, int(probe.rng.integers(until + 1))))
    return found


def _effective_share(probe: Probe, places: Sequence[tuple[Trial, int]], entry: int, bound: Any) -> float | None:
    """The smallest of the shares of the way to a bound that has the bound's effect in every state; 1 if there is none.

    It is 0 if the middle of the range has the same effect, and None if no state could be reached.
    """
    space = probe.env.action_space
    assert isinstance(space, spaces.Box)
    middle = (space.low.astype(np.float64) + space.high) / 2
    alike = [True] * (len(FRACTIONS) + 1)
    reached = False
    for trial, step in places:
        others = space.sample()

        def outcome(share: float, trial: Trial = trial, step: int = step, others: Any = others) -> Moment | None:
            action = others.copy()
            action.flat[entry] = middle.flat[entry] + share * (bound.flat[entry] - middle.flat[entry])
            again = probe.replay(trial, step, [action])
            return again.moments[step] if len(again.moments) > step else None

        full = outcome(1.0)
        if full is None:
            continue
        reached = True
        for index, share in enumerate((*FRACTIONS, 0.0)):
            if alike[index]:
                other = outcome(share)
                alike[index] = other is not None and _same(full, other)
        if not alike[0]:
            return 1.0
    if not reached:
        return None
    return min((share for share, same in zip((*FRACTIONS, 0.0), alike, strict=True) if same), default=1.0)


def _same(one: Moment, other: Moment) -> bool:
    """Whether two steps had the same outcome; rewards may charge the action itself."""
    return data_equivalence(one.observation, other.observation, exact=True) and one.terminated == other.terminated
