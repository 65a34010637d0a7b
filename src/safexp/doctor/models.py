"""Comparison of models of the change and of their inputs, on random held-out stretches and on the boldest ones."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from gymnasium import spaces

from safexp.core.arrays import Array, Flags
from safexp.core.findings import Finding, listed, percent
from safexp.doctor.subject import LimitedSignals
from safexp.quantifiers import ChangeModel, ExactGP, FeatureRegression, Quantifier, SparseGP
from safexp.quantifiers.base import Transitions, rows_of, stretches_of
from safexp.quantifiers.boldness import by_boldness, ladder, stretch_maxima
from safexp.quantifiers.calibrated import transition_scores
from safexp.quantifiers.trend import Trend
from safexp.shield.certificates import certificate_for

Split = Literal["random", "bold"]
SPLITS: tuple[Split, ...] = ("random", "bold")

ModelKind = Literal["SparseGP", "FeatureRegression", "ExactGP"]
MODEL_KINDS: tuple[ModelKind, ...] = ("SparseGP", "FeatureRegression", "ExactGP")
"""Quantifiers to compare."""

HELD_OUT = 0.2
"""Share of the stretches that is held out."""

MOST_ROWS = 12_000
"""Number of rows for comparing models, in whole stretches."""

SMALL = 2000
"""Number of rows up to which the exact Gaussian process is compared."""

MATTERS, OF_ALL = 0.02, 1e-4
"""Smallest increase of the error by shuffling a relevant input, as a share of the error and of the variance."""

WORSE, NOTABLE = 3.0, 0.05
"""Ratio of the error on bold stretches to that on others, and error, from which there is a caution."""

POOR = 0.5
"""Error, as a share of the usual change, above which a model has learned little."""

AS_GOOD = 1.02
"""Ratio of the width needed with fewer inputs to that with all up to which fewer are recommended."""


@dataclass(frozen=True)
class Choice:
    """A quantifier with its arguments, and its inputs among the entries of the state."""

    kind: ModelKind
    options: Mapping[str, Any]
    inputs: tuple[int, ...]

    def build(self) -> ChangeModel:
        """The untrained model."""
        makers: dict[ModelKind, Any] = {
            "SparseGP": SparseGP,
            "FeatureRegression": FeatureRegression,
            "ExactGP": ExactGP,
        }
        return ChangeModel(makers[self.kind](**self.options), inputs=self.inputs)


class Score(NamedTuple):
    """Accuracy on held-out stretches.

    Attributes:
        error: root mean square error of the change, as a share of the root mean square change.
        steps: number of held-out steps.
        covered: number of them within the width.
        scale: factor of the widths with which at most a share δ of stretches is missed.
        width: median width times that factor, in the signal's units, for the worst signal.
    """

    error: float
    steps: int
    covered: int
    scale: float
    width: float


@dataclass(frozen=True)
class Comparison:
    """A model and its accuracy, by the split of held-out stretches."""

    name: str
    inputs: tuple[str, ...]
    scores: Mapping[Split, Score]

    @property
    def width(self) -> float:
        """The criterion for comparison: the largest of the widths that it needs."""
        return max(score.width for score in self.scores.values())


@dataclass(frozen=True)
class Models:
    """The compared models, the recommended one, and the relevance of its inputs.

    Attributes:
        compared: the models, starting with the linear trend alone.
        choice: the recommended model.
        best: its accuracy.
        weights: increase of the mean square error if an input is shuffled, as a share of the change's variance.
        half: bold error of the recommended model with half of the episodes, as a multiple of that with all.
    """

    compared: tuple[Comparison, ...]
    choice: Choice
    best: Comparison
    weights: Mapping[str, float]
    half: float


def compare_models(
    subject: LimitedSignals,
    space: spaces.Space[Any],
    redundant: Sequence[int],
    *,
    delta: float,
    quantifiers: Sequence[ModelKind] = MODEL_KINDS,
    seed: int = 0,
) -> Models:
    """Compare models of the change of a limited signal, and choose one with its inputs."""
    rng = np.random.default_rng(seed)
    data = some_stretches(subject.data, MOST_ROWS, rng)
    inputs = tuple(k for k in range(data.states.shape[1]) if k not in redundant)
    choices = _choices(data, inputs, delta, quantifiers)
    judge = certificate_for(subject.constraint, choices[0].build(), space)
    held = {split: held_out(judge, data, split, rng) for split in SPLITS}
    found = [_trend(subject, data, held, inputs)]
    fitted: list[tuple[Choice, Comparison, dict[Split, Quantifier]]] = []
    for choice in choices:
        models, comparison = _compared(subject, space, choice, data, held, delta)
        found.append(comparison)
        fitted.append((choice, comparison, models))
    choice, best, models = min(fitted, key=lambda one: one[1].width)
    weights = _weights(subject, models["random"], rows_of(data, held["random"]), inputs, rng)
    error = best.scores["random"].error ** 2
    matter = [k for k in inputs if k not in weights or weights[k] > max(MATTERS * error, OF_ALL)]
    if 0 < len(matter) < len(inputs):
        fewer = Choice(choice.kind, _for_inputs(choice, data, tuple(matter)), tuple(matter))
        _, comparison = _compared(subject, space, fewer, data, held, delta)
        found.append(comparison)
        if comparison.width <= AS_GOOD * best.width:
            choice, best = fewer, comparison
    half = _half(subject, space, choice, data, held["bold"], best, rng)
    named = {_name(subject, k): float(weight) for k, weight in weights.items()}
    return Models(tuple(found), choice, best, named, half)


def model_findings(subject: LimitedSignals, found: Models) -> list[Finding]:
    """Findings on the models."""
    scores, signal = found.best.scores, listed(subject.names)
    facts = (
        f"{found.best.name} on {listed(found.best.inputs, 12)} predicts the change of {signal} best: error "
        f"{percent(scores['random'].error)} of the usual change on stretches held out at random, "
        f"{percent(scores['bold'].error)} on the boldest fifth; ± {found.best.width:.3g} covers both."
    )
    if max(score.error for score in scores.values()) > POOR:
        return [
            Finding(
                f"{signal}, model",
                "caution",
                facts,
                "The logged inputs do not explain most of the change, so the width is nearly that of knowing only the "
                "present signal.",
                "Log the inputs that the change depends on: speeds, loads, the last actions.",
            )
        ]
    if scores["bold"].error > max(WORSE * scores["random"].error, NOTABLE):
        return [
            Finding(
                f"{signal}, model",
                "caution",
                facts,
                "The boldest stretches are predicted much worse than others: the model does not extrapolate well, and "
                "exploration goes where the log was boldest.",
                "Log bolder episodes.",
            )
        ]
    return [Finding(f"{signal}, model", "ok", facts)]


def held_out(model: Quantifier, data: Transitions, split: Split, rng: np.random.Generator) -> Flags:
    """Which transitions are held out: those of a fifth of the stretches, random ones or the boldest by the model."""
    stretches = stretches_of(data)
    count = int(stretches.max()) + 1
    if split == "bold":
        _, chosen = ladder(by_boldness(model, data, stretches), 1)[-1]
    else:
        chosen = rng.permutation(count)[: max(math.ceil(count * HELD_OUT), 1)]
    return np.isin(stretches, chosen)


def some_stretches(data: Transitions, most: int, rng: np.random.Generator) -> Transitions:
    """Random whole stretches with at most `most` rows in total, but at least two."""
    stretches = stretches_of(data)
    if len(stretches) <= most:
        return data
    counts = np.bincount(stretches)
    order = rng.permutation(len(counts))
    kept = order[: max(int((np.cumsum(counts[order]) <= most).sum()), 2)]
    return rows_of(data, np.isin(stretches, kept))


def errors_of(model: Quantifier, data: Transitions) -> tuple[Array, Array]:
    """Errors and widths (n, S) of a model on transitions."""
    mean, width = (np.asarray(part)[:, 0] for part in model.interval(data.states, data.actions[:, None]))
    return np.abs(model.observed(data) - mean), width


def scores_of(model: Quantifier, data: Transitions) -> tuple[Array, Array]:
    """The largest error in widths of every step (n,), and of every stretch."""
    steps = transition_scores(model, data)
    return steps, stretch_maxima(steps, stretches_of(data))


def _compared(
    subject: LimitedSignals,
    space: spaces.Space[Any],
    choice: Choice,
    data: Transitions,
    held: Mapping[Split, Flags],
    delta: float,
) -> tuple[dict[Split, Quantifier], Comparison]:
    models: dict[Split, Quantifier] = {}
    scores: dict[Split, Score] = {}
    for split, unseen in held.items():
        models[split] = certificate_for(subject.constraint, copy.deepcopy(choice.build()), space)
        models[split].fit(rows_of(data, ~unseen))
        scores[split] = _score(models[split], rows_of(data, unseen), delta)
    return models, Comparison(choice.kind, tuple(_name(subject, k) for k in choice.inputs), scores)


def _score(model: Quantifier, data: Transitions, delta: float) -> Score:
    errors, widths = errors_of(model, data)
    steps, stretches = scores_of(model, data)
    scale = max(float(np.quantile(stretches, 1 - delta, method="higher")), 1.0)
    width = float(np.median(widths, axis=0).max())
    covered = int((steps <= 1).sum())
    return Score(_relative(errors, data), len(steps), covered, scale, scale * width)


def _relative(errors: Array, data: Transitions) -> float:
    """Root mean square error as a share of the root mean square change, for the worst signal."""
    assert data.signals is not None, "transitions of a limit on signals have them"
    change = data.signals - data.states[:, -data.signals.shape[1] :]
    size = np.maximum((change**2).mean(axis=0), np.finfo(np.float64).tiny)
    return float(np.sqrt((errors**2).mean(axis=0) / size).max())


def _trend(
    subject: LimitedSignals, data: Transitions, held: Mapping[Split, Flags], inputs: tuple[int, ...]
) -> Comparison:
    """A linear function alone, as a baseline; its width is a quantile of its errors."""
    scores: dict[Split, Score] = {}
    for split, unseen in held.items():
        known, asked = rows_of(data, ~unseen), rows_of(data, unseen)
        assert known.signals is not None and asked.signals is not None, "of a limit on signals"
        size = known.signals.shape[1]
        trend = Trend.fit(
            np.concatenate([known.states[:, list(inputs)], known.actions], axis=1),
            known.signals - known.states[:, -size:],
        )
        mean = trend.predict(asked.states[:, list(inputs)], asked.actions[:, None])[0][:, 0]
        errors = np.abs(asked.signals - asked.states[:, -size:] - mean)
        worst = stretch_maxima(errors.max(axis=1), stretches_of(asked))
        scores[split] = Score(_relative(errors, asked), len(errors), 0, math.nan, float(worst.max()))
    return Comparison("linear trend alone", tuple(_name(subject, k) for k in inputs), scores)


def _choices(data: Transitions, inputs: tuple[int, ...], delta: float, kinds: Sequence[ModelKind]) -> list[Choice]:
    asked = [kind for kind in kinds if kind != "ExactGP" or len(data.costs) <= SMALL or len(kinds) == 1]
    return [
        Choice(kind, exact_settings(data, inputs, delta) if kind == "ExactGP" else {"delta": delta}, inputs)
        for kind in asked
    ]


def exact_settings(data: Transitions, inputs: tuple[int, ...], delta: float) -> dict[str, Any]:
    """Arguments of an exact Gaussian process: lengthscales of √d deviations of each input."""
    columns = np.concatenate([data.states[:, list(inputs)], data.actions], axis=1)
    spread = columns.std(axis=0)
    scales = math.sqrt(columns.shape[1]) * np.where(spread > 0, spread, 1e-6 * (1 + np.abs(columns[0])))
    return {
        "lengthscale": [float(f"{scale:.3g}") for scale in scales],
        "norm_bound": 3.0,
        "noise": 0.1,
        "delta": delta,
    }


def _for_inputs(choice: Choice, data: Transitions, inputs: tuple[int, ...]) -> Mapping[str, Any]:
    return exact_settings(data, inputs, choice.options["delta"]) if choice.kind == "ExactGP" else choice.options


def _weights(
    subject: LimitedSignals, model: Quantifier, data: Transitions, inputs: tuple[int, ...], rng: np.random.Generator
) -> dict[int, float]:
    """Increase of the mean square error if an input that varied is shuffled, as a share of the changes' variance.

    The present values of the limited signals are not shuffled, since the change is added to them.
    """
    size = len(subject.names)
    base = _relative(errors_of(model, data)[0], data) ** 2
    found = {}
    for k in inputs:
        if np.ptp(subject.data.states[:, k]) == 0 or k >= data.states.shape[1] - size:
            continue
        states = data.states.copy()
        states[:, k] = rng.permutation(states[:, k])
        errors, _ = errors_of(model, data._replace(states=states))
        found[k] = max(_relative(errors, data) ** 2 - base, 0.0)
    return found


def _half(
    subject: LimitedSignals,
    space: spaces.Space[Any],
    choice: Choice,
    data: Transitions,
    bold: Flags,
    best: Comparison,
    rng: np.random.Generator,
) -> float:
    """Bold error of a model with half of the episodes, as a multiple of that with all."""
    known = rows_of(data, ~bold)
    stretches = stretches_of(known)
    half = np.isin(stretches, rng.permutation(int(stretches.max()) + 1)[: (int(stretches.max()) + 2) // 2])
    model = certificate_for(subject.constraint, copy.deepcopy(choice.build()), space)
    model.fit(rows_of(known, half))
    errors, _ = errors_of(model, rows_of(data, bold))
    return _relative(errors, rows_of(data, bold)) / max(best.scores["bold"].error, 1e-12)


def _name(subject: LimitedSignals, k: int) -> str:
    return subject.states[k]
