"""Whether the cost of a step is charged to the action that brings it.

Two episodes are alike up to a step, from which on they take different actions. The first cost that differs tells when
actions act on it. If that is not the step itself, either the system is slow or the environment reports costs late; what
tells these apart is which observation the cost follows from, the one after the step or the one before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from safexp.check.probe import Probe, Trial, stacked
from safexp.core.arrays import Array
from safexp.core.encoding import encode_observations
from safexp.core.findings import Finding

AHEAD = 12
"""Number of steps after a different action in which a difference is looked for."""

PAIRS = 24
"""Number of pairs of episodes that are compared."""

ENOUGH = 6
"""Number of pairs with a difference from which the delay of a system is judged."""

KNOTS, WAVES, RIDGE = 24, 150, 1e-7
"""Of the regressions: functions of single entries bend and jump at the knots, those of all entries are waves."""

LARGEST = 40
"""Largest number of entries of an observation for which they are fitted."""

CLEARLY = 0.7
"""Ratio of two prediction errors below which one is clearly smaller."""


class Aligned(NamedTuple):
    """Inputs (n, d) and values (n,), and the halves (n,) of the episodes they are from."""

    inputs: Array
    values: Array
    halves: Array


def timing_findings(trials: Sequence[Trial], probe: Probe, budget: int) -> list[Finding]:
    """When an action changes the cost, and whether the cost is a step late."""
    topic = "timing"
    delays = _delays(trials, probe, budget)
    if not delays:
        return [
            Finding(
                topic,
                "caution",
                "not known: no action changed a cost or signal.",
                "Whether costs are charged to the right step could not be checked.",
                "Drive where there are costs with policy=<controller> (--policy).",
            )
        ]
    first = min(delays)
    count = f"{len(delays)} comparison{'s' * (len(delays) > 1)}"
    if first == 0:
        return [Finding(topic, "ok", f"an action changes the cost of its own step ({count}).")]
    late = _late(trials, probe.env.observation_space)
    found = f"an action changes the cost or signal {first} step{'s' * (first > 1)} later at the earliest"
    if late:
        return [
            Finding(
                topic,
                "stop",
                f"{found}, and it follows from the observation before the step, not from the one after it.",
                "The cost is a step late: it is charged to the wrong action.",
                "Compute the cost of a step after the state has changed, and put it into the info of that same step.",
            )
        ]
    slow = len(delays) >= ENOUGH and delays.count(first) >= len(delays) / 2
    if late is None:
        means = "Either the system is slow, and a certificate must look further, or costs are reported late."
        unknown = "These are too few comparisons to tell whether costs are charged to the right step."
        remedy = "Check that info holds the cost of the step just taken."
        return [Finding(topic, "caution", f"{found} ({count}).", means if slow else unknown, remedy)]
    if not slow:
        return [Finding(topic, "ok", "the cost follows from the observation after its step.")]
    return [
        Finding(
            topic,
            "caution",
            f"{found} ({count}).",
            "One step ahead is not enough: a certificate must look further.",
            "Give a backup controller (docs/how-to/backups.md).",
        )
    ]


def _delays(trials: Sequence[Trial], probe: Probe, budget: int) -> list[int]:
    """Numbers of steps after which costs first differ, of the pairs in which they do."""
    delays, spent = [], 0
    for trial, step in _places(trials, probe):
        if spent > budget:
            break
        spent += 2 * (step + AHEAD)
        one, other = (probe.replay(trial, step, [action] * AHEAD).signals for action in _pair(probe))
        both = min(len(one), len(other))
        apart = np.flatnonzero(~np.isclose(one[:both], other[:both]).reshape(both, -1).all(axis=1))
        apart = apart[apart >= step]
        if apart.size:
            delays.append(int(apart[0]) - step)
    return delays


def _pair(probe: Probe) -> tuple[Any, Any]:
    """Two different actions."""
    one = probe.corner()
    for _ in range(20):
        other = probe.corner()
        if not np.array_equal(one, other):
            break
    return one, other


def _places(trials: Sequence[Trial], probe: Probe) -> list[tuple[Trial, int]]:
    """Steps in which an action is likely to change a cost: at changes of it, and random ones; early ones are cheap."""
    changing, others = [], []
    for trial in trials:
        signals = trial.signals.reshape(len(trial.signals), -1)
        if len(signals) < 2:
            continue
        changed = 1 + np.flatnonzero((np.diff(signals, axis=0) != 0).any(axis=1))
        changing += [(trial, int(step) - back) for step in changed for back in (0, 1, 4) if step >= back]
        others += [(trial, int(step)) for step in probe.rng.integers(len(signals), size=4)]
    picked = []
    for places, count in ((changing, PAIRS), (others, PAIRS // 3)):
        early = sorted(places, key=lambda place: place[1])[: 4 * count]
        picked += [early[i] for i in probe.rng.permutation(len(early))[:count]]
    return picked


def _late(trials: Sequence[Trial], space: spaces.Space[Any]) -> bool | None:
    """Whether costs follow from the observation before a step rather than after it; None if that cannot be told."""
    after, before = (_aligned(trials, space, shift) for shift in (0, 1))
    if after is None or before is None or after.inputs.shape[1] > LARGEST or len(after.values) < 200:
        return None
    errors = np.array([_errors(after), _errors(before)])  # (2, halves)
    if (errors[1] < CLEARLY * errors[0]).all():
        return True
    if (errors[0] < CLEARLY * errors[1]).all():
        return False
    return None


def _aligned(trials: Sequence[Trial], space: spaces.Space[Any], shift: int) -> Aligned | None:
    """Costs and what they may follow from: the observation after a step (shift 0), or before it (1), and its action."""
    inputs, values, halves = [], [], []
    for number, trial in enumerate(trials):
        signals = trial.signals.reshape(len(trial.signals), -1)
        if len(signals) < 3:
            continue
        steps = np.arange(1, len(signals))
        seen = [trial.moments[step - shift].observation for step in steps]
        try:
            inputs.append(encode_observations(space, stacked(seen)))
        except ValueError:
            return None
        values.append(signals[steps])
        halves.append(np.full(len(steps), number // 2 % 2))
    if not inputs or len(np.unique(np.concatenate(halves))) < 2:
        return None
    columns = np.concatenate(values)
    column = columns[:, int(np.argmax(columns.std(axis=0) / (np.abs(columns).max(axis=0) + 1e-12)))]
    return Aligned(np.concatenate(inputs), column, np.concatenate(halves))


def _errors(given: Aligned) -> Array:
    """Mean absolute errors (2,) of the better of two regressions, each fitted to the other half of the episodes."""
    inputs = (given.inputs - given.inputs.mean(axis=0)) / (given.inputs.std(axis=0) + 1e-9)
    knots = np.quantile(inputs, np.linspace(0.02, 0.98, KNOTS), axis=0)  # (KNOTS, d)
    above = inputs[:, None] - knots
    bends = np.maximum(above, 0.0).reshape(len(inputs), -1)
    jumps = (above > 0).astype(np.float64).reshape(len(inputs), -1)
    rng = np.random.default_rng(0)
    waves = np.cos(inputs @ rng.standard_normal((inputs.shape[1], WAVES)) + rng.uniform(0, 2 * np.pi, WAVES))
    constant = np.ones((len(inputs), 1))
    single = np.concatenate([constant, inputs, bends, jumps], axis=1)
    joint = np.concatenate([constant, inputs, inputs**2, waves], axis=1)
    return np.min([[_error(features, given, half) for half in (0, 1)] for features in (single, joint)], axis=0)


def _error(features: Array, given: Aligned, half: int) -> float:
    fitted, tested = given.halves != half, given.halves == half
    rows = features[fitted]
    gram = rows.T @ rows + RIDGE * len(rows) * np.eye(rows.shape[1])
    weights = np.linalg.solve(gram, rows.T @ given.values[fitted])
    return float(np.mean(np.abs(features[tested] @ weights - given.values[tested])))
