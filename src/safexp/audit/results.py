"""What an audit found, and under which assumptions it holds."""

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
"""Of every interval."""


class Judged(NamedTuple):
    """An episode and the number by which it can be played again."""

    seed: int
    episode: Episode


@dataclass(frozen=True)
class Risk:
    """What the violations of n episodes, fixed beforehand, say of the probability that an episode violates.

    `upper` and `lower` are one-sided, each wrong with probability at most 5 %; `two_sided` holds on both sides at once,
    `anytime` also for those who looked earlier and might have stopped; `path` has its upper ends after every episode.
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
    """How right the quantifier was in the audit's steps, of which it learned nothing, and how often it may be wrong."""

    counts: Coverage
    calibration: Calibration
    delta: float


@dataclass(frozen=True)
class InputShift:
    """How the audit's inputs differ from `trained` ones of training: the most shifted, and the share outside."""

    trained: int
    audited: int
    outside: float
    most: tuple[Shift, ...]


@dataclass(frozen=True)
class Latency:
    """How long single decisions took, policy and shield, in microseconds of wall time on this machine."""

    decisions: int
    p50_us: float
    p99_us: float


@dataclass(frozen=True)
class Audit:
    """All that was found. `accuracy` and `shift` are None where there is no quantifier, or no record of training."""

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
    interventions: int
    takeovers: int
    worst: tuple[Judged, ...]
    accuracy: Accuracy | None
    shift: InputShift | None
    latency: Latency
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether the risk is shown to be at most `max_risk`."""
        return self.risk.upper <= self.max_risk

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values, the assumptions with the numbers."""
        document = dataclasses.asdict(self) | {"passed": self.passed, "assumptions": assumptions(self)}
        document["worst"] = [{"seed": one.seed, **one.episode._asdict()} for one in self.worst]
        if self.shift is not None:
            document["shift"]["most"] = [one._asdict() for one in self.shift.most]
        if self.accuracy is not None:
            counts, found = self.accuracy.counts._asdict(), self.accuracy.calibration._asdict()
            document["accuracy"] |= {"counts": counts, "calibration": found | {"factors": FACTORS}}
        return document


def risk_of(violated: Sequence[bool]) -> Risk:
    """What these episodes say, in the order of their seeds."""
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
    """Under what the numbers hold, in plain words."""
    lines = [
        f"Episodes are independent draws of {found.task} as it is made here. Other starts, another plant, or sensors "
        "that fail are other tasks, of which these numbers say nothing.",
        "The policy acted deterministically, and nothing learned during the audit.",
        f"A violation is judged from the true costs by the original definition of {found.constraint}.",
        f"The exact intervals hold because {found.risk.episodes} episodes were fixed beforehand. Who watched, and "
        "might have stopped earlier, must quote the anytime interval.",
    ]
    if found.shielded:
        lines.append(
            "An episode that the shield stopped counts as one without violation: bringing the machine to rest after a "
            "stop must itself be safe."
        )
    if found.accuracy is not None:
        lines.append(
            "Coverage is of the steps that were taken; those of one episode are not independent of each other."
        )
    return lines
