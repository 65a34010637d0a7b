"""Results of an audit, and the assumptions under which they hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from safexp.records.coverage import FACTORS, Calibration, Coverage
from safexp.records.episodes import Episode
from safexp.records.input_shift import Shift
from safexp.records.statistics import anytime_interval, exact_interval, upper_bound

CONFIDENCE = 0.95
"""Confidence level of every interval."""


class Judged(NamedTuple):
    """An episode and the seed that replays it, with its smallest distance to a limit on a signal if there is one."""

    seed: int
    episode: Episode
    clearance: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The episode as JSON values."""
        nearest = {} if self.clearance is None else {"clearance": self.clearance}
        return {"seed": self.seed, **self.episode._asdict(), **nearest}


@dataclass(frozen=True)
class Risk:
    """Bounds on the probability that an episode violates, from a number of episodes that was fixed beforehand.

    `upper` and `lower` are one-sided, each wrong with probability at most 5 %; `two_sided` holds on both sides at once;
    `anytime` also holds if someone watched and might have stopped early; `path` has its upper ends after every episode.
    """

    episodes: int
    violations: int
    upper: float
    lower: float
    two_sided: tuple[float, float]
    anytime: tuple[float, float]
    path: tuple[float, ...]


@dataclass(frozen=True)
class Accuracy:
    """Accuracy of the quantifier on the steps of the audit, from which it learned nothing.

    Attributes:
        counts: how often its intervals covered the true cost.
        calibration: how often multiples of its widths did.
        delta: the probability with which it may be wrong.
    """

    counts: Coverage
    calibration: Calibration
    delta: float


@dataclass(frozen=True)
class Drilled:
    """Drills of training, which test a certificate that looks ahead: how many were judged, and how many missed it."""

    judged: int
    missed: int


@dataclass(frozen=True)
class InputShift:
    """Difference between the `audited` inputs and the `trained` ones: the most shifted, and the share out of range."""

    trained: int
    audited: int
    outside: float
    most: tuple[Shift, ...]


@dataclass(frozen=True)
class Latency:
    """Wall time of single decisions, policy and shield, in microseconds on this machine."""

    decisions: int
    p50_us: float
    p99_us: float


@dataclass(frozen=True)
class Unshielded:
    """The same policy on the same seeds with every proposal executed: its risk and its mean return."""

    risk: Risk
    mean_return: float


@dataclass(frozen=True)
class Audit:
    """Results of an audit.

    `own_actions` is the share of the executed actions that were the policy's own. `accuracy` and `shift` are None
    without a quantifier or a record of training inputs, `unshielded` if it was not requested.
    `drills` are those of training if a certificate looks ahead to a backup, which then drives instead of a stop.
    `after_stop_violations` of the risk's violations happened only after a stop; None if stops were taken to be free.
    """

    checkpoint: str
    task: str
    method: str
    constraint: str
    shielded: bool
    first_seed: int
    max_risk: float
    risk: Risk
    mean_return: float
    mean_cost: float
    max_cost: float
    max_step_cost: float
    stops: int
    after_stop_violations: int | None
    interventions: int
    takeovers: int
    own_actions: float | None
    worst: tuple[Judged, ...]
    accuracy: Accuracy | None
    shift: InputShift | None
    latency: Latency
    seconds: float
    unshielded: Unshielded | None = None
    drills: Drilled | None = None

    @property
    def passed(self) -> bool:
        """Whether the risk is shown to be at most `max_risk`."""
        return self.risk.upper <= self.max_risk

    def to_json(self) -> dict[str, Any]:
        """Results and assumptions as JSON values."""
        document = dataclasses.asdict(self) | {"passed": self.passed, "assumptions": assumptions(self)}
        document["worst"] = [one.to_json() for one in self.worst]
        if self.shift is not None:
            document["shift"]["most"] = [one._asdict() for one in self.shift.most]
        if self.accuracy is not None:
            counts, found = self.accuracy.counts._asdict(), self.accuracy.calibration._asdict()
            document["accuracy"] |= {"counts": counts, "calibration": found | {"factors": FACTORS}}
        return document


def violated(episode: Episode) -> bool:
    """Whether an episode violated the constraint, before its end or after its stop."""
    return episode.violated or episode.after_stop_violated


def risk_of(violated: Sequence[bool]) -> Risk:
    """Bounds on the risk from whether each episode, in the order of the seeds, violated the constraint."""
    total, counts = len(violated), np.cumsum(violated)
    low, high = anytime_interval(counts, np.arange(1, total + 1), CONFIDENCE)
    count = int(counts[-1])
    return Risk(
        episodes=total,
        violations=count,
        upper=upper_bound(count, total, CONFIDENCE),
        lower=1.0 - upper_bound(total - count, total, CONFIDENCE),
        two_sided=exact_interval(count, total, CONFIDENCE),
        anytime=(float(low[-1]), float(high[-1])),
        path=tuple(high.tolist()),
    )


def assumptions(found: Audit) -> list[str]:
    """The assumptions under which the numbers hold, as sentences."""
    lines = [
        f"Episodes are independent draws of {found.task} as configured here. The numbers do not apply to other initial "
        "states, another plant, or failing sensors.",
        "The policy acted deterministically, and nothing learned during the audit.",
        f"A violation is judged from the true costs by the original definition of {found.constraint}.",
        f"The exact intervals hold because the number of episodes, {found.risk.episodes}, was fixed beforehand. If "
        "someone watched and might have stopped earlier, quote the anytime interval.",
    ]
    if found.after_stop_violations is not None:
        lines.append(
            "After a stop a controller drove on, and an episode that violated only then counts as a violation. What "
            "the machine does after these steps must be safe."
        )
    elif found.shielded and found.drills is not None and not found.stops:
        lines.append(
            "Where nothing was certified the backup drove, and its steps were judged like all others. No episode was "
            "stopped."
        )
    elif found.shielded:
        lines.append(
            "A stop was taken to be free: an episode that the shield stopped counts as one without a violation, so "
            "bringing the machine to rest after a stop must itself be safe."
        )
    if found.accuracy is not None:
        lines.append(
            "Coverage is measured on the steps that were taken; steps of one episode are not independent of each other."
        )
    return lines
