"""Coverage of the recommended model: misses on held-out stretches with exact intervals, and its calibration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from gymnasium import spaces

from safexp.core.findings import Finding, listed, percent
from safexp.doctor.models import SPLITS, Choice, Split, held_out, scores_of, some_stretches
from safexp.doctor.subject import LimitedSignals
from safexp.quantifiers import Calibrated
from safexp.quantifiers.base import rows_of, stretches_of
from safexp.quantifiers.calibrated import LEAST_CONFIDENCE, stretches_needed
from safexp.records.statistics import exact_interval
from safexp.shield.certificates import certificate_for

CONFIDENCE = 0.95

HELD: Mapping[Split, str] = MappingProxyType({"random": "held out at random", "bold": "of the boldest"})

ROOM = 500
"""Number of scores that calibration keeps by default."""

MOST_ROWS = 30_000
"""Number of rows for measuring coverage, in whole stretches."""


@dataclass(frozen=True)
class Misses:
    """Number of held-out stretches that a model missed in at least one step, with the exact 95 % interval."""

    stretches: int
    missed: int
    interval: tuple[float, float]
    steps: int
    steps_missed: int


@dataclass(frozen=True)
class CoverageCheck:
    """Coverage of the recommended model.

    Attributes:
        delta: share of stretches that may be missed.
        bare: misses of the uncalibrated model, by the split of held-out stretches.
        calibrated: misses after calibration on the others.
        scale: factor of the widths from calibration on the whole log; infinite if nothing is certified.
        scores: largest error in widths of each scored stretch, by a model that has not seen it.
        reached: confidence that at most a share δ is missed.
        stretches: number of stretches in the log.
        needed: number of stretches needed for a confidence of 95 %.
    """

    delta: float
    bare: Mapping[Split, Misses]
    calibrated: Mapping[Split, Misses]
    scale: float
    scores: tuple[float, ...]
    reached: float
    stretches: int
    needed: int


def calibrated_model(choice: Choice, delta: float) -> Calibrated:
    """The recommended quantifier, untrained."""
    return Calibrated(choice.build(), delta=delta, capacity=max(ROOM, stretches_needed(delta, CONFIDENCE)))


def examine_coverage(
    subject: LimitedSignals,
    space: spaces.Space[Any],
    choice: Choice,
    fitted: Calibrated,
    *,
    delta: float,
    seed: int = 0,
) -> CoverageCheck:
    """Count misses on held-out stretches; `fitted` was calibrated on the whole log."""
    rng = np.random.default_rng(seed)
    data = some_stretches(subject.data, MOST_ROWS, rng)
    bare: dict[Split, Misses] = {}
    calibrated: dict[Split, Misses] = {}
    for split in SPLITS:
        model = certificate_for(subject.constraint, calibrated_model(choice, delta), space)
        assert isinstance(model, Calibrated), "it was given one"
        unseen = held_out(model, data, split, rng)
        model.fit(rows_of(data, ~unseen))
        steps, stretches = scores_of(model.quantifier, rows_of(data, unseen))
        bare[split] = _misses(steps, stretches, 1.0)
        calibrated[split] = _misses(steps, stretches, model.scale)
    return CoverageCheck(
        delta,
        bare,
        calibrated,
        fitted.scale,
        tuple(fitted.scores.tolist()),
        fitted.reached,
        int(stretches_of(subject.data).max()) + 1,
        stretches_needed(delta, CONFIDENCE),
    )


def coverage_findings(subject: LimitedSignals, found: CoverageCheck) -> list[Finding]:
    """Findings on the coverage."""
    signal = listed(subject.names)
    told = [_calibration_finding(signal, found)]
    facts = f"As fitted it misses {_text(found.bare)}; calibrated, {_text(found.calibrated)}."
    over = [split for split in SPLITS if found.calibrated[split].interval[0] > found.delta]
    if over and math.isfinite(found.scale):
        told.append(
            Finding(
                f"{signal}, coverage",
                "stop",
                f"{facts} More than δ = {found.delta:g}, beyond chance.",
                "Even calibrated widths do not hold on stretches that the model has not seen.",
                "Log bolder episodes, and the inputs that the change depends on; or give a larger --delta.",
            )
        )
    else:
        told.append(Finding(f"{signal}, coverage", "ok", facts))
    return told


def _calibration_finding(signal: str, found: CoverageCheck) -> Finding:
    topic = f"{signal}, calibration"
    facts = f"{found.stretches} stretches; δ = {found.delta:g} with 95 % confidence needs {found.needed}."
    if math.isfinite(found.scale):
        facts += f" Widths × {found.scale:.3g} hold with confidence {percent(found.reached)}."
        if found.stretches >= found.needed:
            return Finding(topic, "ok", facts)
    more = f"Log {max(found.needed - found.stretches, 0)} more episodes, or give a larger --delta."
    if not math.isfinite(found.scale):
        facts += f" {len(found.scores)} were scored, for a confidence of {percent(found.reached)}."
        reason = (
            "With less than 50 % nothing is certified."
            if found.reached < LEAST_CONFIDENCE
            else "No finite scale covers some of the stretches, so nothing is certified."
        )
        return Finding(topic, "stop", facts, reason, more)
    return Finding(topic, "caution", facts, "The bound holds only with that confidence.", more)


def _misses(steps: Any, stretches: Any, scale: float) -> Misses:
    missed = int((stretches > scale).sum())
    return Misses(
        len(stretches), missed, exact_interval(missed, len(stretches)), len(steps), int((steps > scale).sum())
    )


def _text(misses: Mapping[Split, Misses]) -> str:
    """Numbers of missed stretches with exact intervals, as text."""
    told = []
    for split, held in HELD.items():
        one = misses[split]
        low, high = one.interval
        told.append(f"{one.missed} of {one.stretches} stretches {held} ({percent(low)} to {percent(high)})")
    return ", ".join(told)
