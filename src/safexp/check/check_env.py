"""Check of an environment and a constraint: all findings, and the verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv

from safexp.check.actions import action_findings
from safexp.check.ends import end_findings, reset_findings, speed_findings
from safexp.check.interface import gymnasium_findings, space_findings
from safexp.check.limits import reach_findings, start_findings
from safexp.check.probe import Probe, Trial
from safexp.check.seeds import seed_findings
from safexp.check.timing import timing_findings
from safexp.check.values import observation_findings, reward_findings, run_findings, signal_findings
from safexp.constraints import Constraint
from safexp.core.arrays import Controller
from safexp.core.findings import Finding, Severity, worst
from safexp.envs.six_values import SixTuple

VERDICTS: Mapping[Severity, str] = MappingProxyType(
    {
        "ok": "Good: no fault found.",
        "caution": "No fault found; read the cautions.",
        "stop": "Faults found: fix them before a shield is trusted with this environment.",
    }
)
"""The verdict for the most serious finding."""

RESETS = 20
"""Least number of resets."""

REPEATED = 3
"""Number of episodes that are repeated with the same seed."""


@dataclass(frozen=True)
class EnvCheck:
    """Check of an environment.

    Attributes:
        severity: severity of the most serious finding: "ok", "caution" or "stop".
        verdict: the severity as a sentence.
        findings: all findings, in the order of the checks.
        steps: number of steps taken.

    Example:
        >>> found = safexp.check_env(gym.make("safexp/PlanarRobot-v0"), safexp.Budget(3.0), steps=200)
        >>> [finding.subject for finding in found.findings if finding.severity == "stop"]
        []
    """

    severity: Severity
    verdict: str
    findings: tuple[Finding, ...]
    steps: int

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return dataclasses.asdict(self)


def check_env(
    env: gym.Env[Any, Any],
    constraint: Constraint,
    *,
    policy: Controller | None = None,
    steps: int = 3000,
    seed: int = 0,
) -> EnvCheck:
    """Check an environment: Gymnasium's own checks, then what a safety constraint needs.

    Episodes are played with random actions, repeated with the same seeds, and repeated up to a step with another action
    in it. The environment is left open.

    A finding of severity "stop" must be fixed before training; each has its remedy.

    Args:
        env: one environment; also one whose `step` returns six values.
        constraint: the limits that training has to keep.
        policy: actions for batches of observations (n, ...), to drive every second episode where random actions do not
            lead, such as near the limits.
        steps: about how many steps to play; repetitions take up to three times as many again.
        seed: seed of the first episode and of the random actions.

    Example:
        >>> found = safexp.check_env(gym.make("safexp/PlanarRobot-v0"), safexp.Budget(3.0), steps=200)
        >>> found.verdict
        'Good: no fault found.'
    """
    if steps < 1:
        raise ValueError(f"steps={steps} must be at least 1.")
    given = _single(env)
    findings = gymnasium_findings(given)
    probe = Probe(given, constraint, np.random.default_rng(seed), policy)
    trials = _play(probe, steps, seed)
    findings += run_findings(trials)
    started = [trial for trial in trials if trial.first is not None]
    if not started:
        return _checked(findings, probe)
    findings += space_findings(given, started[0].first)
    findings += observation_findings(started, given.observation_space)
    findings += reward_findings(started)
    findings += signal_findings(started, constraint)
    if worst(findings) == "stop" and any(trial.error for trial in trials):
        return _checked(findings, probe)
    longest = max(steps // REPEATED, 1)
    found = seed_findings(sorted(started, key=lambda one: -len(one.moments))[:REPEATED], probe, longest)
    findings += found
    readable = not any(moment.problem for trial in started for moment in trial.moments)
    repeatable = not any(one.topic == "same seed" and one.severity == "stop" for one in found)
    if readable:
        findings += start_findings(started, probe)
        findings += reach_findings(started, constraint)
    if repeatable:
        findings += action_findings(started, probe)
    if repeatable and readable:
        findings += timing_findings(started, probe, steps)
    findings += end_findings(started, given, longest)
    findings += reset_findings(started, probe)
    findings += speed_findings(probe)
    return _checked(findings, probe)


def _single(env: Any) -> gym.Env[Any, Any]:
    """The environment, with Gymnasium's interface."""
    if isinstance(env, VectorEnv):
        raise TypeError(f"got a {type(env).__name__} of {env.num_envs} copies, expected one: gymnasium.make(...).")
    if isinstance(env, str):
        raise TypeError(f"got the name {env!r}, expected a live environment: gymnasium.make({env!r}).")
    if isinstance(env, type):
        raise TypeError(f"got the class {env.__name__}, expected an environment: {env.__name__}(...).")
    if not isinstance(env, gym.Env) and not hasattr(env, "step"):
        raise TypeError(f"got a {type(env).__name__}, expected a Gymnasium Env.")
    return env if isinstance(env, gym.Env) and not _returns_six(env) else SixTuple(env, cost_max=None)


def _returns_six(env: gym.Env[Any, Any]) -> bool:
    """Whether `step` returns the cost as a sixth value; False if it raises, which the checks report."""
    try:
        env.reset(seed=0)
        return len(env.step(env.action_space.sample())) == 6
    except Exception:
        return False


def _play(probe: Probe, steps: int, seed: int) -> list[Trial]:
    """Episodes of about this many steps in total, at least a few complete ones, and many first states."""
    trials: list[Trial] = []
    longest = max(steps // REPEATED, 1)
    while probe.steps < steps and not (trials and trials[-1].error):
        trials.append(probe.play(seed + len(trials), longest, len(trials)))
    while len(trials) < RESETS and not trials[-1].error:
        trials.append(probe.play(seed + len(trials), 1, len(trials)))
    return trials


def _checked(findings: list[Finding], probe: Probe) -> EnvCheck:
    severity = worst(findings)
    return EnvCheck(severity, VERDICTS[severity], tuple(findings), probe.steps)
