"""Observations, rewards, and costs or signals of every step: present, finite, of the right shape, and in range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from safexp.check.probe import Problem, ProblemKind, Trial
from safexp.constraints import Constraint
from safexp.core.findings import Finding

REMEDIES: dict[ProblemKind, str] = {
    "missing": "Put it into the info of every step, including the last one of an episode; or compute the cost with a "
    "function (--cost package:function), or limit a signal (--within NAME:LOW:HIGH).",
    "not finite": "Fix the environment or its sensors.",
    "out of range": "Scale the cost in the environment, or give the constraint cost_max=<largest cost> (--cost-max).",
    "unreadable": "Return one number.",
}


def run_findings(trials: Sequence[Trial]) -> list[Finding]:
    """Whether `reset` or `step` raised an exception."""
    raised = [trial for trial in trials if trial.error]
    if not raised:
        return []
    first = raised[0]
    where = f"step {len(first.moments) + 1}" if first.first is not None else "reset"
    return [
        Finding(
            "exceptions",
            "stop",
            f"{len(raised)} of {len(trials)} episodes raised an exception, the first at {where} (seed {first.seed}): "
            f"{first.error}.",
            "The cost of such a step counts as the largest.",
            "Fix the environment.",
        )
    ]


def observation_findings(trials: Sequence[Trial], space: spaces.Space[Any]) -> list[Finding]:
    """Whether every observation is finite, and in the space."""
    count = 0
    for trial in trials:
        for step in range(len(trial.moments) + 1):
            count += 1
            wrong = _wrong(space, trial.before(step))
            if wrong:
                return [
                    Finding(
                        "observations",
                        "stop",
                        f"at step {step} of seed {trial.seed} the observation {wrong}.",
                        "Nothing can be certified in such a state.",
                        "Correct the observation, or observation_space.",
                    )
                ]
    return [Finding("observations", "ok", f"all {count:,} are finite and in observation_space.")]


def reward_findings(trials: Sequence[Trial]) -> list[Finding]:
    """Whether every reward is one finite number."""
    count = 0
    for trial in trials:
        for step, moment in enumerate(trial.moments, 1):
            count += 1
            try:
                fine = np.ndim(moment.reward) == 0 and bool(np.isfinite(float(moment.reward)))
            except (TypeError, ValueError):
                fine = False
            if not fine:
                return [
                    Finding(
                        "rewards",
                        "stop",
                        f"at step {step} of seed {trial.seed} the reward is {moment.reward!r}.",
                        "Training would fail, or learn nothing.",
                        "Return one finite number.",
                    )
                ]
    return [Finding("rewards", "ok", f"all {count:,} are finite numbers.")]


def signal_findings(trials: Sequence[Trial], constraint: Constraint) -> list[Finding]:
    """Whether the constraint can be read at every step, and is in range."""
    moments = [(trial, step, moment) for trial in trials for step, moment in enumerate(trial.moments, 1)]
    found: dict[ProblemKind, list[tuple[Trial, int, Problem]]] = {}
    for trial, step, moment in moments:
        if moment.problem:
            found.setdefault(moment.problem.kind, []).append((trial, step, moment.problem))
    findings = []
    for kind, cases in found.items():
        trial, step, problem = cases[0]
        ends = sum(trial.moments[step - 1].ended for trial, step, _ in cases)
        only = ", each the last step of its episode" if kind == "missing" and ends == len(cases) else ""
        findings.append(
            Finding(
                "costs and signals",
                "stop",
                f"{kind} at {len(cases):,} of {len(moments):,} steps{only}; first at step {step} of seed {trial.seed}: "
                f"{problem.text.rstrip('.')}.",
                "A step whose cost cannot be read ends training, and counts as the worst.",
                REMEDIES[kind],
            )
        )
    if findings or not moments:
        return findings
    return [Finding("costs and signals", "ok", f"read at all {len(moments):,} steps: {_ranges(trials, constraint)}.")]


def _ranges(trials: Sequence[Trial], constraint: Constraint) -> str:
    """The ranges of the limited values."""
    values = np.concatenate([trial.signals.reshape(len(trial.moments), -1) for trial in trials if trial.moments])
    low, high = values.min(axis=0), values.max(axis=0)
    shown = [f"{a:.4g} to {b:.4g}" for a, b in zip(low, high, strict=True)]
    return ", ".join(dict.fromkeys(shown))


def _wrong(space: spaces.Space[Any], observation: Any) -> str:
    """What is wrong with an observation, or nothing."""
    if isinstance(space, spaces.Dict):
        if not isinstance(observation, dict) or set(observation) != set(space.spaces):
            return f"has not the keys {', '.join(sorted(space.spaces))}"
        parts = ((key, _wrong(space[key], observation[key])) for key in space.spaces)
        return next((f"{key!r} {wrong}" for key, wrong in parts if wrong), "")
    if isinstance(space, spaces.Box):
        array = np.asarray(observation)
        if array.shape != space.shape:
            return f"has the shape {array.shape}, expected {space.shape}"
        if array.dtype.kind not in "biuf":
            return f"has the type {array.dtype}"
        if not np.isfinite(array).all():
            return f"holds a NaN or an infinity: {array}"
        outside = (array < space.low) | (array > space.high)
        if outside.any():
            entry = tuple(np.argwhere(outside)[0].tolist())
            return (
                f"has the entry {list(entry)} = {array[entry]:g}, outside [{space.low[entry]:g}, {space.high[entry]:g}]"
            )
        return ""
    return "" if space.contains(observation) else f"{observation!r} is not in {space}"
