"""Which actions a log tells of: those never taken, and whether they say more than the state does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.doctor.findings import Finding, listed, percent

NEIGHBOURS = 5
MOST_KNOWN, MOST_ASKED = 6000, 1500
"""How many rows the actions of how many others are predicted from."""

FOLLOWS, NEARLY = 1e-3, 0.05
"""The share of the actions' variance that the state leaves open, below which there is no exploration, or little."""

FEW = 30
"""A discrete action that was taken less often has hardly been seen."""

NARROW = 0.5
"""A share of the given action range below which a log is about a part of it alone."""


@dataclass(frozen=True)
class Actions:
    """What a log tells of actions.

    Attributes:
        discrete: whether they are choices.
        counts: how often each choice was taken, by its number; empty for a box.
        never: choices that were never taken.
        few: choices that were taken a few times only.
        covered: the logged share of the range of each entry of a box.
        outside: rows whose action lies outside of the space.
        open: the share of the actions' variance that does not follow from the state; of several entries the least.
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
    """Look at encoded actions (n, da) in states (n, ds) of these stretches (n,), and at all as they were `logged`."""
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
    """What that means for a shield; `inferred` where the space was inferred from the log."""
    told = [*_choice_findings(found), *_range_findings(found, inferred)]
    if found.open < NEARLY:
        nothing = found.open < FOLLOWS
        told.append(
            Finding(
                "exploration",
                "stop" if nothing else "caution",
                f"The actions follow from the state: it leaves open {percent(found.open)} of their variance.",
                "The effect of an action cannot be told from that of the state in which it was always taken: what "
                "another action would do is not in the log.",
                "Log episodes with exploration noise: a random addition to every action, of 5 to 10 % of its range, as "
                "far as that is safe.",
            )
        )
    else:
        told.append(
            Finding("exploration", "ok", f"{percent(found.open)} of the actions' variance does not follow from states.")
        )
    return told


def unexplained_actions(
    states: Array, actions: Array, stretches: NDArray[np.int64], discrete: bool, seed: int = 0
) -> float:
    """The share of the variance of actions (n, da) that no prediction from states of other stretches explains.

    The least of a linear prediction and one from nearest neighbours; of choices, the share of wrong guesses beside that
    of always guessing the most frequent one.
    """
    from scipy.spatial import cKDTree  # here, because it takes longer to import than all the rest

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
                "Nothing is known of them, so that none of them is ever certified.",
                f"Log episodes in which they are taken at least {FEW} times each, where that is safe; otherwise do "
                "without them.",
            )
        )
    if found.few:
        times = [f"{one} ({found.counts[one]} times)" for one in found.few]
        told.append(
            Finding(
                "actions seldom taken",
                "caution",
                f"Hardly ever taken: {listed(times)}.",
                "What they do is known from a few states alone.",
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
                f"{found.outside:,} logged actions lie outside of the action space.",
                "They are learned as the nearest ones inside: the log may be in other units.",
                "Give the action space in the units of the log.",
            )
        )
    if not found.discrete and not inferred and min(found.covered, default=1.0) < NARROW:
        shares = [f"a{k} {percent(share)}" for k, share in enumerate(found.covered) if share < NARROW]
        told.append(
            Finding(
                "action range",
                "caution",
                f"The log uses a part of the action range alone: {listed(shares)}.",
                "Actions far outside of that part are not certified.",
                "Nothing needs to be done if that part suffices; otherwise log larger actions where that is safe.",
            )
        )
    return told
