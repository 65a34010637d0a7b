"""Examination of a log: all findings, the verdict, and the recommended shield."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from gymnasium import spaces

from safexp.constraints import Constraint, Within
from safexp.core.encoding import check_action_space
from safexp.core.findings import Finding, Severity, listed, worst
from safexp.doctor.actions import action_findings, examine_actions
from safexp.doctor.advice import lookahead_lines, needs_of, shield_lines
from safexp.doctor.certified import certified_findings, examine_certified
from safexp.doctor.coverage import calibrated_model, coverage_findings, examine_coverage
from safexp.doctor.delay import delay_findings, examine_delay
from safexp.doctor.examination import Examination, Limit, Signal
from safexp.doctor.folds import examine_fold, fold_findings
from safexp.doctor.inputs import examine_inputs, input_findings
from safexp.doctor.lookahead import examine_lookahead, lookahead_findings
from safexp.doctor.models import MODEL_KINDS, Choice, ModelKind, compare_models, model_findings
from safexp.doctor.nearness import examine_nearness, nearness_findings
from safexp.doctor.rows import count_rows, missing_findings, missing_values, rows_findings
from safexp.doctor.subject import LimitedSignals, inferred_actions, inferred_observations, limit_subjects
from safexp.quantifiers.base import stretches_of
from safexp.quantifiers.calibrated import Calibrated
from safexp.shield.certificates import certificate_for
from safexp.shield.logs import Log, read_log
from safexp.shield.lookahead import BackupController, BackupOption, check_backup

LEAST_STRETCHES, LEAST_ROWS = 5, 100
"""Numbers of rows and stretches below which models are not compared."""

VERDICTS: Mapping[Severity, str] = MappingProxyType(
    {
        "ok": "Good: a trustworthy shield{backup} can be made from this log.",
        "caution": "Good with cautions: a trustworthy shield{backup} can be made from this log; read the cautions "
        "first.",
        "stop": "No trustworthy shield{backup} can be made from this log as it is.",
    }
)
"""The verdict for the most serious finding; `{backup}` is filled in where a backup was given."""

NEEDS_BACKUP = (
    "A shield that looks one step ahead is not enough here: one that looks ahead to a backup controller is needed. "
    "Complete the lines below, and examine that shield with backup=Backup(controller, horizon), or --backup and "
    "--horizon."
)
"""The verdict where the only stops concern a shield that looks one step ahead."""

WITH_BACKUP = " with this backup"

REAL_BOUNDS = "put the machine's real bounds"
"""What to do about an inferred range of actions."""

BINS = 60
"""Of the histograms of signals."""


def examine(
    log: Log | str | Path,
    *,
    constraint: Constraint,
    observation_space: spaces.Space[Any] | None = None,
    action_space: spaces.Space[Any] | None = None,
    delta: float = 0.05,
    resets: bool = False,
    quantifiers: Sequence[ModelKind] = MODEL_KINDS,
    task: str | None = None,
    backup: BackupController | None = None,
) -> Examination:
    """Examine a log for limits on its signals.

    A finding of "stop" names what to log next, or that a backup is needed: then examine the log again with yours.
    Afterwards test the shield in a closed loop with `Shield.rehearse`.

    Args:
        log: logged transitions, or a file that `read_log` reads.
        constraint: `Within`, or `AllOf` of them.
        observation_space: inferred from the log by default.
        action_space: inferred likewise: the range of the logged actions, or `Discrete` if they are one column of few
            whole numbers. Give the machine's own.
        delta: share of stretches in which a certificate may be wrong, for all limits together.
        resets: an episode can be stopped at any step without harm, so one step ahead is enough.
        quantifiers: models to compare; the exact Gaussian process is tried only on small logs.
        task: Gymnasium id of the task, used only in the recommended code.
        backup: `Backup(controller, horizon)`: the shield that looks ahead to it, with `Calibrated(Rollout())`, is
            examined in place of one that looks one step ahead.

    Raises:
        ValueError: if the log lacks what the constraint reads, or does not fit the spaces; or if the backup has several
            options.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> states, actions = np.zeros((300, 1)), rng.uniform(-0.3, 0.3, (300, 1))
        >>> for step in range(1, 300):
        ...     states[step] = 0.9 * states[step - 1] + actions[step - 1] if step % 10 else 0.0
        >>> log = safexp.Log(states, actions, episodes=np.arange(300) // 10)
        >>> limits = safexp.Within(0, low=-1.0, high=1.0)
        >>> found = safexp.examine(log, constraint=limits, delta=0.1, quantifiers=["FeatureRegression"])
        >>> print(found.verdict)
        Good: a trustworthy shield can be made from this log.
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta={delta} must lie in (0, 1).")
    if backup is not None:
        _check_alone(backup)
    path = None if isinstance(log, Log) else str(log)
    given = log if isinstance(log, Log) else read_log(log, finite=False)
    rows = count_rows(given)
    missing = missing_values(given)
    first_line = 2 if path is not None and path.endswith(".csv") else None
    findings = [*missing_findings(missing, rows.rows, first_line), *rows_findings(rows)]
    name = path or "log in memory"
    if missing:
        verdict = _verdict("stop", False, backup)
        return Examination(name, "stop", verdict, tuple(findings), delta, {}, rows, None, (), (), "")
    seen = observation_space or inferred_observations(given.observations)
    done = check_action_space(action_space or _inferred_actions(given, seen, backup))
    if not isinstance(done, spaces.Box | spaces.Discrete):
        raise ValueError(
            f"action_space={done}: the doctor examines Box and Discrete; number its actions as one Discrete."
        )
    note = _range_note(done, action_space is None, backup)
    about = _spaces(seen, done, observation_space is None, action_space is None, note)
    findings.append(Finding("spaces", "ok", f"{listed(f'{k}: {v}' for k, v in about.items())}."))
    of_one_step: list[Finding] = []
    look_ahead = None
    with _quiet():
        subjects = limit_subjects(given, constraint, seen, done)
        share = delta / len(subjects)
        first = subjects[0]
        observed = first.data.states[:, : -len(first.names)]
        actions = examine_actions(observed, first.data.actions, given.actions, done, stretches_of(first.data))
        findings += action_findings(actions, action_space is None)
        limits: list[Limit] = []
        chosen: list[tuple[Within, Choice, Calibrated]] = []
        for subject in subjects:
            one, fitted, general, narrow = _examine_limit(
                subject, seen, done, delta=share, resets=resets, quantifiers=quantifiers, backup=backup
            )
            limits.append(one)
            findings += general
            of_one_step += narrow
            if one.models and fitted:
                chosen.append((subject.constraint, one.models.choice, fitted))
        limited = [subject.constraint for subject in subjects]
        if backup is not None and not any(map(_is_small, subjects)):
            look_ahead, coverages = examine_lookahead(given, constraint, seen, done, backup, delta=delta)
            findings += lookahead_findings(limited, look_ahead, coverages)
            limits = [dataclasses.replace(one, coverage=own) for one, own in zip(limits, coverages, strict=True)]
    ahead = 0 if resets else _steps_ahead(limits)
    needs_backup = bool(ahead) and backup is None and worst(findings) != "stop"
    unique = tuple(dict.fromkeys([*findings, *of_one_step]))  # limits share inputs
    severity = worst(unique)
    needs = needs_of(
        actions,
        [near for one in limits for near in one.nearness],
        [one.coverage for one in limits if one.coverage],
        [one.models for one in limits if one.models],
        rows.episodes or len(np.unique(stretches_of(first.data))),
    )
    lines = template = ""
    where: dict[str, Any] = {
        "path": path,
        "observation_space": seen,
        "action_space": done,
        "task": task,
        "note": f"{note} here" if note else "",
    }
    if needs_backup:
        template = lookahead_lines(limited, ahead, controller=None, delta=delta, **where)
    elif severity != "stop" and backup is not None:
        lines = lookahead_lines(limited, backup.horizon, controller=backup.options[0].act, delta=delta, **where)
    elif severity != "stop":
        lines = shield_lines(chosen, **where)
    return Examination(
        name,
        severity,
        _verdict(severity, needs_backup, backup),
        unique,
        delta,
        about,
        rows,
        actions,
        tuple(limits),
        tuple(needs),
        lines,
        template,
        needs_backup,
        look_ahead,
    )


def _steps_ahead(limits: Sequence[Limit]) -> int:
    """Steps that a certificate must look ahead; 0 where one step is enough for every signal, or nothing is known."""
    responses = [signal.response for one in limits for signal in one.signals if signal.response is not None]
    return max((one.look_ahead for one in responses if not one.one_step), default=0)


def _examine_limit(
    subject: LimitedSignals,
    seen: spaces.Space[Any],
    done: spaces.Box | spaces.Discrete,
    *,
    delta: float,
    resets: bool,
    quantifiers: Sequence[ModelKind],
    backup: BackupController | None,
) -> tuple[Limit, Calibrated | None, list[Finding], list[Finding]]:
    """Results, the fitted model of one step unless there is a backup, and findings: on the log, and on one step."""
    data, size = subject.data, len(subject.names)
    width = data.states.shape[1]
    inputs = examine_inputs(data.states, subject.states, first=range(width - size, width))
    nearness = examine_nearness(subject)
    findings = [*input_findings(inputs), *nearness_findings(nearness)]
    of_one_step: list[Finding] = []
    signals = []
    for k, name in enumerate(subject.names):
        signal = _examine_signal(subject, k)
        signals.append(signal)
        findings += fold_findings(signal.fold)
        of_one_step += delay_findings(signal.response, name, resets, None if backup is None else backup.horizon)
    limit = Limit(subject.names, inputs, tuple(nearness), tuple(signals))
    if _is_small(subject):
        return limit, None, [*findings, _too_small(subject)], of_one_step
    if backup is not None:
        return limit, None, findings, of_one_step
    models = compare_models(subject, seen, inputs.redundant, delta=delta, quantifiers=quantifiers)
    fitted = certificate_for(subject.constraint, calibrated_model(models.choice.build(), delta), seen)
    assert isinstance(fitted, Calibrated), "it was given one"
    fitted.fit(data)
    coverage = examine_coverage(data, fitted)
    certified = examine_certified(subject, fitted, done)
    calibration, *missed = coverage_findings(listed(subject.names), coverage)
    findings.append(calibration)
    of_one_step += [*model_findings(subject, models), *missed, *certified_findings(subject, certified)]
    limit = dataclasses.replace(limit, models=models, coverage=coverage, certified=certified)
    return limit, fitted, findings, of_one_step


def _examine_signal(subject: LimitedSignals, k: int) -> Signal:
    data, name = subject.data, subject.names[k]
    now, after = subject.now[:, k], subject.after[:, k]
    sides = subject.constraint.sides
    counts, edges = np.histogram(after, BINS)
    fold = examine_fold(name, data.states, data.actions, now, after, subject.episodes)
    response = examine_delay(
        name,
        data.states[:, : -len(subject.names)],
        data.actions,
        now=now,
        after=after,
        episodes=subject.episodes,
        names=subject.actions,
        signs=tuple(sides.sign[sides.which == k].tolist()),
    )
    return Signal(name, tuple(edges.tolist()), tuple(counts.tolist()), fold, response)


def _is_small(subject: LimitedSignals) -> bool:
    return len(subject.data.costs) < LEAST_ROWS or int(stretches_of(subject.data).max()) + 1 < LEAST_STRETCHES


def _too_small(subject: LimitedSignals) -> Finding:
    stretches = int(stretches_of(subject.data).max()) + 1
    return Finding(
        f"{listed(subject.names)}, size",
        "stop",
        f"{len(subject.data.costs):,} steps in {stretches} stretches are usable.",
        f"At least {LEAST_ROWS} steps in {LEAST_STRETCHES} stretches are needed to test a model on held-out data.",
        "Log more episodes.",
    )


def _verdict(severity: Severity, needs_backup: bool, backup: BackupController | None) -> str:
    return NEEDS_BACKUP if needs_backup else VERDICTS[severity].format(backup="" if backup is None else WITH_BACKUP)


def _check_alone(backup: BackupController) -> None:
    """Raise `ValueError` unless this is a backup with one controller that drives at once."""
    options: Sequence[BackupOption] = getattr(backup, "options", ())
    if len(options) != 1 or options[0].hold or not backup.horizon:
        raise ValueError(
            f"backup={backup!r} with {len(options)} options: examine Backup(controller, horizon) for each alone, "
            "without hold."
        )


def _inferred_actions(log: Log, seen: spaces.Space[Any], backup: BackupController | None) -> spaces.Space[Any]:
    """The space of the logged actions and, since the machine can take these as well, of the backup's."""
    logged = inferred_actions(log.actions)
    if backup is None:
        return logged
    check_backup(backup, seen, logged)
    driven = np.reshape(backup.act(log.observations), np.shape(log.actions))
    return inferred_actions(np.concatenate([log.actions, driven]))


def _range_note(done: spaces.Space[Any], inferred: bool, backup: BackupController | None) -> str:
    """Where the bounds of the actions come from; empty if they were given, or the actions are discrete."""
    if not inferred or not isinstance(done, spaces.Box):
        return ""
    return f"the range of the logged actions{'' if backup is None else ' and of the backup'}: {REAL_BOUNDS}"


def _spaces(
    seen: spaces.Space[Any], done: spaces.Space[Any], seen_inferred: bool, done_inferred: bool, note: str
) -> dict[str, str]:
    of_log = " (inferred from the log)"
    return {
        "observations": _shape(seen) + of_log * seen_inferred,
        "actions": _shape(done) + (f" ({note} there)" if note else of_log * done_inferred),
    }


def _shape(space: spaces.Space[Any]) -> str:
    if isinstance(space, spaces.Discrete):
        return f"{int(space.n)} choices"
    if isinstance(space, spaces.Box):
        if not space.is_bounded():
            return f"{'x'.join(map(str, space.shape)) or 1} numbers"
        low, high = space.low.reshape(-1), space.high.reshape(-1)
        return listed((f"{a:.4g} to {b:.4g}" for a, b in zip(low, high, strict=True)), 4)
    return str(space)


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the warnings that a shield would log, which the findings repeat."""
    logger = logging.getLogger("safexp")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
