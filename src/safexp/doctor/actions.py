"""Actions of a log: those never taken, and whether they vary independently of the state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.core.findings import Finding, listed, percent

NEIGHBOURS = 5
MOST_KNOWN, MOST_ASKED = 6000, 1500
"""Numbers of rows whose actions are predicted, and of rows they are predicted from."""

FOLLOWS, NEARLY = 1e-3, 0.05
"""Shares of the actions' variance not explained by the state below which there is no exploration, or little."""

FEW = 30
"""Number of times a discrete action must have been taken to count as known."""

NARROW = 0.5
"""Share of the action range below which a log covers only a part of it."""


@dataclass(frozen=True)
class Actions:
    """Actions of a log.

    Attributes:
        discrete: whether they are discrete.
        counts: how often each discrete action was taken, by its number; empty for a box.
        never: discrete actions that were never taken.
        few: discrete actions that were taken only a few times.
        covered: logged share of the range of each entry of a box.
        outside: number of rows whose action is outside the space.
        open: share of the actions' variance that is not explained by the state; the smallest of several entries.
    """

    discrete: bool
    counts: dict[int, int]
    never: tuple[int, ...]
    few: tuple[int, ...]
    covered: tuple[float, ...]
    outside: int
    open: float


def examine_actions(
    states: Array,
    encoded: Array,
    logged: NDArray[Any],
    space: spaces.Box | spaces.Discrete,
    stretches: NDArray[np.int64],
    seed: int = 0,
) -> Actions:
    """Examine encoded actions (n, da) in states (n, ds) of these stretches (n,), and all actions as `logged`."""
    left = unexplained_actions(states, encoded, stretches, isinstance(space, spaces.Discrete), seed)
    if isinstance(space, spaces.Discrete):
        numbers, times = np.unique(np.asarray(logged).reshape(-1).astype(np.int64), return_counts=True)
        counts = dict(zip(numbers.tolist(), times.tolist(), strict=True))
        choices = range(int(space.start), int(space.start) + int(space.n))
        never = tuple(one for one in choices if one not in counts)
        few = tuple(one for one in choices if 0 < counts.get(one, 0) < FEW)
        return Actions(True, {one: counts.get(one, 0) for one in choices}, never, few, (), 0, left)
    flat = np.asarray(logged, dtype=np.float64).reshape(len(logged), -1)
    low, high = space.low.reshape(-1).astype(np.float64), space.high.reshape(-1).astype(np.float64)
    tolerance = 1e-6 * (1.0 + np.abs(flat))
    outside = int(((flat < low - tolerance) | (flat > high + tolerance)).any(axis=1).sum())
    covered = tuple((np.ptp(np.clip(flat, low, high), axis=0) / np.maximum(high - low, 1e-300)).tolist())
    return Actions(False, {}, (), (), covered, outside, left)


def action_findings(found: Actions, inferred: bool) -> list[Finding]:
    """Findings on the actions; `inferred` if the space was inferred from the log."""
    told = [*_choice_findings(found), *_range_findings(found, inferred)]
    if found.open < NEARLY:
        nothing = found.open < FOLLOWS
        told.append(
            Finding(
                "exploration",
                "stop" if nothing else "caution",
                f"The state determines the actions: only {percent(found.open)} of their variance is independent of it.",
                "The effect of an action cannot be separated from that of the state in which it was always taken: the "
                "log does not show what another action would do.",
                "Log episodes with exploration noise: add a random 5 to 10 % of its range to every action, as far as "
                "that is safe.",
            )
        )
    else:
        told.append(
            Finding("exploration", "ok", f"{percent(found.open)} of the actions' variance is independent of the state.")
        )
    return told


def unexplained_actions(
    states: Array, actions: Array, stretches: NDArray[np.int64], discrete: bool, seed: int = 0
) -> float:
    """Share of the variance of actions (n, da) that no prediction from states of other stretches explains.

    The smaller of that of a linear prediction and of one from nearest neighbours; for discrete actions, the share of
    wrong predictions relative to that of always predicting the most frequent one.
    """
    from scipy.spatial import cKDTree  # slow to import

    rng = np.random.default_rng(seed)
    numbers = np.unique(stretches)
    asked_of = np.isin(stretches, rng.permutation(numbers)[: max(len(numbers) // 4, 1)])
    if asked_of.all() or len(states) < 4 * NEIGHBOURS:
        return 1.0
    known, asked = (
        rng.permutation(np.flatnonzero(rows))[:most] for rows, most in ((~asked_of, MOST_KNOWN), (asked_of, MOST_ASKED))
    )
    shift, spread = states[known].mean(axis=0), states[known].std(axis=0)
    inputs = (states - shift) / np.where(spread > 0, spread, 1.0)
    near = cKDTree(inputs[known]).query(inputs[asked], NEIGHBOURS)[1]
    by_neighbours = actions[known][near].mean(axis=1)
    design = np.column_stack([inputs, np.ones(len(inputs))])
    weights = np.linalg.lstsq(design[known], actions[known], rcond=None)[0]
    linear = design[asked] @ weights
    if discrete:
        truth, usual = actions[asked].argmax(axis=1), actions[known].sum(axis=0).argmax()
        baseline = float((truth != usual).mean())
        wrong = min(float((guess.argmax(axis=1) != truth).mean()) for guess in (by_neighbours, linear))
        return min(wrong / baseline, 1.0) if baseline else 1.0
    size = actions[asked].var(axis=0)
    varied = size > 0
    if not varied.any():
        return 0.0
    clipped = np.clip(linear, actions.min(axis=0), actions.max(axis=0))
    left = np.minimum(*(((guess - actions[asked]) ** 2).mean(axis=0) for guess in (by_neighbours, clipped)))
    return float(min((left[varied] / size[varied]).min(), 1.0))


def _choice_findings(found: Actions) -> list[Finding]:
    told = []
    if found.never:
        told.append(
            Finding(
                "actions never taken",
                "caution",
                f"{len(found.never)} of {len(found.counts)} actions were never taken: {listed(found.never)}.",
                "Nothing is known about them, so they are never certified.",
                f"Log episodes in which each is taken at least {FEW} times, where that is safe; otherwise do without "
                "them.",
            )
        )
    if found.few:
        times = [f"{one} ({found.counts[one]} times)" for one in found.few]
        told.append(
            Finding(
                "actions seldom taken",
                "caution",
                f"Rarely taken: {listed(times)}.",
                "Their effect is known from only a few states.",
                f"Log at least {FEW} steps with each.",
            )
        )
    return told


def _range_findings(found: Actions, inferred: bool) -> list[Finding]:
    told = []
    if found.outside:
        told.append(
            Finding(
                "actions outside",
                "caution",
                f"{found.outside:,} logged actions are outside the action space.",
                "They are treated as the nearest actions inside: the log may be in other units.",
                "Give the action space in the units of the log.",
            )
        )
    if not found.discrete and not inferred and min(found.covered, default=1.0) < NARROW:
        shares = [f"a{k} {percent(share)}" for k, share in enumerate(found.covered) if share < NARROW]
        told.append(
            Finding(
                "action range",
                "caution",
                f"The log covers only a part of the action range: {listed(shares)}.",
                "Actions far outside that part are not certified.",
                "Nothing, if that part is enough; otherwise log larger actions where that is safe.",
            )
        )
    return told
