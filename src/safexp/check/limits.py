"""The constraint in use: whether first states keep it, and whether its threshold is ever reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from safexp.check.probe import Probe, Trial
from safexp.constraints import AllOf, Constraint, Within
from safexp.core.arrays import Array, as_batch
from safexp.core.findings import Finding, percent
from safexp.core.signals import key_and_entry, name_of_signal

TRIED = 8
"""Number of actions tried in a first state whose first step violates."""

FAR, NOTHING = 0.1, 1e-3
"""Shares of a limit below which the largest value is far from it, or nothing."""


def start_findings(trials: Sequence[Trial], probe: Probe) -> list[Finding]:
    """Whether first states keep the constraint, by themselves and with a suitable first action."""
    constraint, topic = probe.constraint, "first states"
    begun = [trial for trial in trials if trial.first is not None]
    unknown = _unknown_at_reset(begun, constraint)
    bad = [trial for trial in begun if _unsafe_first(trial, constraint)]
    if bad:
        return [
            Finding(
                topic,
                "stop",
                f"{len(bad)} of {len(begun)} resets violate the constraint before any action (seed {bad[0].seed}).",
                "No shield can prevent that.",
                "Reset to states within the limits.",
            )
        ]
    stuck = [trial for trial in begun if _violates_at_once(trial, constraint) and not _way_out(trial, probe)]
    if stuck:
        return [
            Finding(
                topic,
                "stop",
                f"from {len(stuck)} of {len(begun)} resets each of {TRIED} first actions violates the constraint (seed "
                f"{stuck[0].seed}).",
                "Nothing can be certified there, so an episode cannot begin.",
                "Reset to states from which some action is safe.",
            )
        ]
    if unknown:
        return [
            Finding(
                topic,
                "caution",
                f"the info of `reset` has no {unknown}.",
                "A model of its change has no present value to start from in a first state.",
                "Put the signal into the info of `reset` too, or into the observation.",
            )
        ]
    return [Finding(topic, "ok", f"{len(begun)} resets, none of which violates.")]


def reach_findings(trials: Sequence[Trial], constraint: Constraint) -> list[Finding]:
    """Whether the limit is reached, and whether it can be kept."""
    topic = "threshold"
    seen = [trial for trial in trials if len(trial.signals)]
    if not seen:
        return []
    violated = [trial for trial in seen if constraint.violated(_first(trial, constraint), trial.signals)]
    if len(violated) == len(seen) and all(_violates_at_once(trial, constraint) for trial in seen):
        return [
            Finding(
                topic,
                "stop",
                f"all {len(seen)} episodes violate it at the first step.",
                "A limit that no step keeps leaves nothing to certify.",
                "Check the limit and its units.",
            )
        ]
    if violated:
        return [Finding(topic, "ok", f"violated in {len(violated)} of {len(seen)} episodes, kept in the others.")]
    share = max(_largest_share(trial, constraint) for trial in seen)
    steps = sum(len(trial.signals) for trial in seen)
    if share >= FAR:
        return [Finding(topic, "ok", f"not violated in {steps:,} steps; the nearest came to {percent(share)} of it.")]
    largest = "there was no cost at all" if share < NOTHING else f"the largest value is {percent(share)} of it"
    return [
        Finding(
            topic,
            "caution",
            f"not reached in {steps:,} steps: {largest}.",
            "Either these actions do not lead there, or the limit has other units and never binds.",
            "Check the limit, or drive nearer to it with policy=<controller> (--policy).",
        )
    ]


def _first(trial: Trial, constraint: Constraint) -> Array:
    return np.asarray(constraint.first_signal(as_batch(trial.first))[0])


def _parts(constraint: Constraint) -> tuple[Constraint, ...]:
    return constraint.parts if isinstance(constraint, AllOf) else (constraint,)


def _unsafe_first(trial: Trial, constraint: Constraint) -> bool:
    """Whether the first state violates by itself: its signals, its visit, or the cost in the info of the reset."""
    for part in _parts(constraint):
        first = _first(trial, part)
        if isinstance(part, Within):
            signals = _measured_first(trial, part)
            if np.isfinite(signals).all() and part.violated(first, part.by_side(signals[None])):
                return True
        elif part.violated(first, np.zeros((0, *np.shape(first)))):
            return True
        elif isinstance(part.cost, str) and part.on_every_step:
            told = trial.told.get(part.cost)
            if _is_number(told) and part.violated(first, np.array([told], dtype=np.float64)):
                return True
    return False


def _measured_first(trial: Trial, part: Within) -> Array:
    """The signals (S,) in the first state, NaN where neither the observation nor the info of the reset has them."""
    found = np.asarray(part.now(as_batch(trial.first))[0], dtype=np.float64)
    for k, source in enumerate(part.sources):
        if isinstance(source, str) and np.isnan(found[k]):
            key, entry = key_and_entry(source)
            values = np.ravel(np.asarray(trial.told.get(key, np.nan), dtype=np.float64))
            if (entry or 0) < len(values):
                found[k] = values[entry or 0]
    return found


def _unknown_at_reset(trials: Sequence[Trial], constraint: Constraint) -> str:
    """The name of a signal that first states do not have, or nothing."""
    for part in _parts(constraint):
        if isinstance(part, Within):
            for trial in trials:
                missing = np.flatnonzero(np.isnan(_measured_first(trial, part)))
                if missing.size:
                    return name_of_signal(part.sources[int(missing[0])])
    return ""


def _violates_at_once(trial: Trial, constraint: Constraint) -> bool:
    signals = trial.signals[:1]
    return bool(len(signals)) and constraint.violated(_first(trial, constraint), signals)


def _way_out(trial: Trial, probe: Probe) -> bool:
    """Whether some other first action keeps the constraint."""
    for attempt in range(TRIED):
        action = probe.corner() if attempt % 2 else probe.env.action_space.sample()
        other = probe.replay(trial, 0, [action])
        if len(other.signals) and not _violates_at_once(other, probe.constraint):
            return True
    return False


def _largest_share(trial: Trial, constraint: Constraint) -> float:
    """How far the way from nothing to the limit an episode came, at most 1."""
    shares = []
    for part, signals in _by_part(trial, constraint):
        if isinstance(part, Within):
            # A cost is ½ at the limit; half the distance between two limits, or the limit itself, below it, it is 0.
            shares.append(2 * float(part.normalise(signals).max(initial=0.0)))
            continue
        low, high = 0.0, 1.0
        first = _first(trial, part)
        for _ in range(12):  # by how much could costs grow without violating it?
            middle = (low + high) / 2
            low, high = (middle, high) if part.violated(first, signals / middle) else (low, middle)
        shares.append(high)
    return max(shares)


def _by_part(trial: Trial, constraint: Constraint) -> list[tuple[Constraint, Array]]:
    if not isinstance(constraint, AllOf):
        return [(constraint, trial.signals)]
    return [(part, trial.signals[:, own]) for part, own in zip(constraint.parts, constraint.columns, strict=True)]


def _is_number(value: Any) -> bool:
    return value is not None and np.ndim(value) == 0 and bool(np.isfinite(float(value)))
