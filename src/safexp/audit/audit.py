"""Audit: exact intervals for the probability that a trained policy, with or without its shield, violates.

Episodes are judged from true costs by the constraint's original definition (`episodes.Recorder`), independently of the
shield. They are played in blocks of `WIDTH` environments: episode s is row s mod `WIDTH` of its block, and a block is
determined by its number alone, to the last bit on one machine. So every episode can be replayed by its number, its
*seed*.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch as th

from safexp.audit.results import (
    CONFIDENCE,
    Accuracy,
    Audit,
    Drilled,
    InputShift,
    Judged,
    Latency,
    Unshielded,
    risk_of,
    violated,
)
from safexp.constraints import Constraint
from safexp.core.arrays import Array, Observations, as_batch, take
from safexp.core.signals import name_of_signal
from safexp.envs.infos import Info
from safexp.envs.refusals import NothingSafeError
from safexp.mase.agent import Agent
from safexp.quantifiers.base import Transitions
from safexp.records import coverage
from safexp.records.coverage import Calibration, Coverage
from safexp.records.episodes import own_share
from safexp.records.statistics import anytime_interval
from safexp.runs.evaluate import Subject, load_subject, play_first

WIDTH = 100
"""Number of episodes played in parallel."""

MOST_DECISIONS = 500
"""Number of decisions that are timed."""

WORST = 5
SHIFTS = 5


def audit(
    path: Path,
    episodes: int = 300,
    first_seed: int = 1_000_000,
    task: str | None = None,
    task_options: Mapping[str, Any] | None = None,
    shielded: bool = True,
    max_risk: float = 0.01,
    tell: Callable[[str], None] = lambda line: None,
    unshielded: bool = False,
) -> Audit:
    """Play episodes of a trained agent, deterministically, and judge them.

    Args:
        path: a run folder, or an agent.safexp.
        episodes: number of episodes; it must be fixed beforehand for `Risk.upper` to hold.
        first_seed: seed of the first episode; use seeds that the agent was not trained or tuned on.
        task: task to audit on, if not the one it was trained on.
        task_options: arguments of that task.
        shielded: False executes every proposal.
        max_risk: largest upper bound for which `Audit.passed` holds.
        tell: called with a line on the progress after every block.
        unshielded: play the same seeds again with every proposal executed, to see whether the policy needs its shield.
    """
    if unshielded and not shielded:
        raise ValueError(
            "--no-shield plays without the shield, and --unshielded adds that to an audit with it: give one."
        )
    if episodes < 1 or first_seed < 0 or not 0 <= max_risk <= 1:
        raise ValueError(
            f"episodes={episodes} must be at least 1, seed={first_seed} at least 0, and max_risk={max_risk} a "
            "probability."
        )
    begin = time.perf_counter()
    subject = _load(path, task, task_options, shielded)
    try:
        seen = _Watcher(subject.agent)
        judged = _judge(subject, episodes, first_seed, seen, tell)
        every = [one.episode for one in judged]
        judged_stops = subject.agent.shielded and subject.envs.recorder.judges_stops
        return Audit(
            checkpoint=str(path),
            task=subject.task,
            method=subject.method,
            constraint=re.sub(r"<function (.+?) at 0x[0-9a-f]+>", r"\1", repr(subject.envs.constraint)),
            shielded=subject.agent.shielded,
            first_seed=first_seed,
            max_risk=max_risk,
            risk=risk_of([violated(episode) for episode in every]),
            mean_return=float(np.mean([episode.true_return for episode in every])),
            mean_cost=float(np.mean([episode.cost for episode in every])),
            max_cost=max(episode.cost for episode in every),
            max_step_cost=max(episode.max_step_cost for episode in every),
            stops=sum(episode.stopped for episode in every),
            after_stop_violations=sum(episode.after_stop_violated for episode in every) if judged_stops else None,
            interventions=sum(episode.interventions for episode in every),
            takeovers=sum(episode.takeovers for episode in every),
            own_actions=own_share(every),
            worst=tuple(sorted(judged, key=partial(_badness, subject.envs.constraint), reverse=True)[:WORST]),
            accuracy=seen.accuracy(),
            shift=seen.shift(),
            latency=seen.latency(),
            unshielded=_unshielded(path, episodes, first_seed, task, task_options, tell) if unshielded else None,
            seconds=time.perf_counter() - begin,
            drills=_drills(subject.agent),
        )
    finally:
        subject.envs.close()


def replay(
    path: Path,
    seed: int,
    task: str | None = None,
    task_options: Mapping[str, Any] | None = None,
    shielded: bool = True,
) -> Judged:
    """Replay the episode of this seed, by playing its whole block."""
    subject = _load(path, task, task_options, shielded)
    try:
        return _play(subject, seed // WIDTH, None)[seed % WIDTH]
    finally:
        subject.envs.close()


class _Situation(NamedTuple):
    """State in which a single decision is timed: observation, threshold if there is a shield, and signals (S,)."""

    observation: Observations
    threshold: Any
    measured: Array


def _decide(agent: Agent, situation: _Situation) -> None:
    """Decide as a deployed agent does: its policy, and then its shield if it has one."""
    observation, threshold, measured = situation
    action, _ = agent.propose(observation, threshold, episode_start=True)
    if agent.shielded and agent.shield is not None:
        limits = np.asarray(threshold, dtype=np.float64)[None] - agent.envs.account.braking
        signals = measured[None] if len(measured) else None
        agent.shield.filter_batch(as_batch(observation), np.asarray(action)[None], limits, measured=signals)


class _Watcher:
    """Collects the transitions of an audit for coverage and input shift, and decisions to time."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._decisions: list[_Situation] = []
        self._counts: list[Coverage] = []
        self._calibrations: list[Calibration] = []
        self._inputs: list[Transitions] = []
        self._steps = 0

    def __call__(self, observations: Observations, measured: Array, infos: Sequence[Info]) -> None:
        """Store a step of one of the environments."""
        row = self._steps % len(infos)
        self._steps += 1
        if len(self._decisions) < MOST_DECISIONS:
            seen = take(self._agent.observed(observations), row)
            self._decisions.append(_Situation(seen, infos[row].get("shield", {}).get("threshold"), measured[row]))

    def harvest(self) -> None:
        """Evaluate the transitions of a block."""
        quantifier, harvest = self._agent.quantifier, self._agent.envs.harvest()
        if quantifier is not None and harvest is not None:
            self._counts.append(coverage.measure(quantifier, *harvest))
            self._calibrations.append(coverage.calibration(quantifier, harvest.transitions))
            self._inputs.append(harvest.transitions)

    def accuracy(self) -> Accuracy | None:
        quantifier = self._agent.quantifier
        if quantifier is None or quantifier.looks_ahead or not self._counts:
            return None
        rows, within = zip(*self._calibrations, strict=True)
        found = Calibration(sum(rows), tuple(sum(column) for column in zip(*within, strict=True)))
        return Accuracy(coverage.total(self._counts), found, quantifier.delta)

    def shift(self) -> InputShift | None:
        trained = self._agent.inputs
        if trained is None or not trained.count or not self._inputs:
            return None
        states, actions = (
            np.concatenate([getattr(part, name) for part in self._inputs]) for name in ("states", "actions")
        )
        shifts, outside = trained.compare(states, actions, self._signals())
        return InputShift(trained.count, len(states), outside, tuple(shifts[:SHIFTS]))

    def _signals(self) -> list[str]:
        """Names of the signals that follow the observation in the quantifier's states."""
        quantifier, sources = self._agent.quantifier, self._agent.envs.constraint.sources
        return [name_of_signal(source) for source in sources] if quantifier and quantifier.num_signals else []

    def latency(self) -> Latency:
        times = []
        for situation in self._decisions:
            begin = time.perf_counter()
            _decide(self._agent, situation)
            times.append(1e6 * (time.perf_counter() - begin))
        return Latency(len(times), *(round(float(np.percentile(times, q)), 1) for q in (50, 99)))


def _drills(agent: Agent) -> Drilled | None:
    """Drills of an agent's training, if its certificate looks ahead."""
    ahead = agent.quantifier is not None and agent.quantifier.looks_ahead
    return Drilled(agent.drills.judged, agent.drills.missed) if ahead and agent.drills is not None else None


def _load(path: Path, task: str | None, task_options: Mapping[str, Any] | None, shielded: bool) -> Subject:
    th.set_num_threads(1)  # results must not depend on the number of cores
    subject = load_subject(path, WIDTH, task, task_options)
    subject.agent.evaluate(shielded)
    return subject


def _judge(
    subject: Subject, episodes: int, first_seed: int, seen: _Watcher | None, tell: Callable[[str], None]
) -> list[Judged]:
    """Play the episodes of these seeds, block by block."""
    judged: list[Judged] = []
    for block in range(first_seed // WIDTH, (first_seed + episodes - 1) // WIDTH + 1):
        judged += [one for one in _play(subject, block, seen) if 0 <= one.seed - first_seed < episodes]
        if seen is not None:
            seen.harvest()
        tell(_progress(judged, episodes))
    return judged


def _unshielded(
    path: Path,
    episodes: int,
    first_seed: int,
    task: str | None,
    task_options: Mapping[str, Any] | None,
    tell: Callable[[str], None],
) -> Unshielded:
    """Play the episodes of an audit again without the shield."""
    subject = _load(path, task, task_options, shielded=False)
    try:
        judged = _judge(subject, episodes, first_seed, None, lambda line: tell(f"without the shield: {line}"))
        returns = [one.episode.true_return for one in judged]
        return Unshielded(risk_of([one.episode.violated for one in judged]), float(np.mean(returns)))
    finally:
        subject.envs.close()


def _play(subject: Subject, block: int, seen: _Watcher | None) -> list[Judged]:
    try:
        found = play_first(subject, block * WIDTH, seen)
        return [Judged(block * WIDTH + row, found.episodes[row], found.clearances[row]) for row in range(WIDTH)]
    except NothingSafeError as error:
        raise ValueError(
            f"the shield certifies nothing on {subject.task}, so there is nothing to audit: {error}"
        ) from error


def _badness(constraint: Constraint, one: Judged) -> tuple[bool, float, float, float, float]:
    """Sort key: violations first, then the limited quantity, and how near it came to its limit."""
    episode, clearance = one.episode, 0.0 if one.clearance is None else one.clearance
    costs = (episode.max_step_cost, episode.cost) if constraint.on_every_step else (episode.cost, episode.max_step_cost)
    return violated(episode), *costs, -clearance, -episode.true_return


def _progress(judged: Sequence[Judged], wanted: int) -> str:
    count, total = sum(violated(one.episode) for one in judged), len(judged)
    low, high = anytime_interval(count, total, CONFIDENCE)
    return (
        f"{total:,} of {wanted:,} episodes, {count:,} violations; "
        f"risk {100 * float(low):.3g} to {100 * float(high):.3g} % (95 %, at any time)"
    )
