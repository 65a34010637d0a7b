"""Coverage of the recommended model: misses on held-out stretches with exact intervals, and its calibration."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from safexp.core.arrays import Array
from safexp.core.findings import Finding, percent
from safexp.doctor.models import SPLITS, Split, held_out, scores_of, some_stretches
from safexp.quantifiers import Calibrated, Quantifier
from safexp.quantifiers.base import Transitions, rows_of, stretches_of
from safexp.quantifiers.calibrated import LEAST_CONFIDENCE, stretches_needed
from safexp.records.statistics import exact_interval

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


def calibrated_model(quantifier: Quantifier, delta: float) -> Calibrated:
    """A quantifier with calibrated widths, untrained."""
    return Calibrated(quantifier, delta=delta, capacity=max(ROOM, stretches_needed(delta, CONFIDENCE)))


def examine_coverage(data: Transitions, fitted: Calibrated, *, seed: int = 0) -> CoverageCheck:
    """Count misses on held-out stretches of the log by copies that learn the others; `fitted` has learned it all."""
    rng = np.random.default_rng(seed)
    some = some_stretches(data, MOST_ROWS, rng)
    bare: dict[Split, Misses] = {}
    calibrated: dict[Split, Misses] = {}
    for split in SPLITS:
        model = copy.deepcopy(fitted)
        unseen = held_out(model, some, split, rng)
        model.fit(rows_of(some, ~unseen))
        steps, stretches = scores_of(model.quantifier, rows_of(some, unseen))
        bare[split] = _misses(steps, stretches, 1.0)
        calibrated[split] = _misses(steps, stretches, model.scale)
    return CoverageCheck(
        fitted.delta,
        bare,
        calibrated,
        fitted.scale,
        tuple(fitted.scores.tolist()),
        fitted.reached,
        int(stretches_of(data).max()) + 1,
        stretches_needed(fitted.delta, CONFIDENCE),
    )


def coverage_findings(about: str, found: CoverageCheck) -> list[Finding]:
    """Findings on the calibration and the coverage of a model; their topics begin with `about`."""
    told = [_calibration_finding(about, found)]
    facts = f"As fitted it misses {_text(found.bare)}; calibrated, {_text(found.calibrated)}."
    over = [split for split in SPLITS if found.calibrated[split].interval[0] > found.delta]
    if over and math.isfinite(found.scale):
        told.append(
            Finding(
                f"{about}, coverage",
                "stop",
                f"{facts} More than δ = {found.delta:g}, beyond chance.",
                "Even calibrated widths do not hold on stretches that the model has not seen.",
                "Log bolder episodes, and the inputs that the change depends on; or give a larger --delta.",
            )
        )
    else:
        told.append(Finding(f"{about}, coverage", "ok", facts))
    return told


def _calibration_finding(about: str, found: CoverageCheck) -> Finding:
    topic = f"{about}, calibration"
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


def _misses(steps: Array, stretches: Array, scale: float) -> Misses:
    """Numbers of scores above a scale; those that are NaN were not measured."""
    steps, stretches = (part[~np.isnan(part)] for part in (steps, stretches))
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
