"""Shield that looks ahead to the user's backup: its calibration, its misses, and what it certifies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gymnasium import spaces

from safexp.constraints import Constraint, Within
from safexp.core.findings import Finding, listed, percent
from safexp.doctor.coverage import CoverageCheck, calibrated_model, coverage_findings, examine_coverage
from safexp.quantifiers import Calibrated, PerCost, Rollout
from safexp.shield.certificates import CHECKS, LITTLE, NEGLIGIBLE
from safexp.shield.logs import Log
from safexp.shield.lookahead import BackupController, course_of
from safexp.shield.shield import Shield
from safexp.shield.transitions import parts_of, transitions_of

USELESS = 0.05
"""Share of certified logged actions below which the backup drives nearly always."""

SAFE = 0.95
"""Share of logged states with a certified backup below which there is a caution."""

LARGE = 5.0
"""Scale of the widths from which there is a caution."""


@dataclass(frozen=True)
class LookAhead:
    """Shield with `Calibrated(Rollout())` and the given backup, fitted to the whole log.

    Attributes:
        horizon: number of steps that the backup drives.
        scale: factor of the widths from calibration, for the worst limit; infinite if nothing is certified.
        logged: share of certified logged actions.
        backup: share of logged states in which the backup's own action is certified.
        unseen: share of logged states in which the backup acts as the log never shows.
    """

    horizon: int
    scale: float
    logged: float
    backup: float
    unseen: float


def examine_lookahead(
    log: Log,
    constraint: Constraint,
    observation_space: spaces.Space[Any],
    action_space: spaces.Box | spaces.Discrete,
    backup: BackupController,
    *,
    delta: float,
) -> tuple[LookAhead, tuple[CoverageCheck, ...]]:
    """Fit the shield, and measure it; the coverage is that of each limit."""
    shield = Shield(
        calibrated_model(Rollout(), delta), observation_space, action_space, constraint=constraint, backup=backup
    )
    shield.fit(log)
    models = shield.quantifier.parts if isinstance(shield.quantifier, PerCost) else (shield.quantifier,)
    coverages, unseen = [], 0.0
    for part, model in zip(parts_of(constraint), models, strict=True):
        assert isinstance(model, Calibrated) and isinstance(model.quantifier, Rollout), "it was given one"
        own = transitions_of(log, part, observation_space, action_space, with_next=True)
        coverages.append(examine_coverage(own, model))
        unseen = max(unseen, model.quantifier.unseen_backup(own))
    data = transitions_of(log, constraint, observation_space, action_space, with_next=True)
    act = course_of(backup.options[0], constraint, observation_space, action_space).act
    found = LookAhead(
        backup.horizon,
        max(one.scale for one in coverages),
        shield.certified_share(data),
        shield.certified_share(data._replace(actions=act(data.states))),
        unseen,
    )
    return found, tuple(coverages)


def lookahead_findings(
    constraints: Sequence[Within], found: LookAhead, coverages: Sequence[CoverageCheck]
) -> list[Finding]:
    """Findings on the shield."""
    told = []
    for constraint, coverage in zip(constraints, coverages, strict=True):
        told += coverage_findings(f"{listed(constraint.names)} with the backup", coverage)
    return [*told, *_scale_findings(found), *_unseen_findings(found), _logged_finding(found), _backup_finding(found)]


def _logged_finding(found: LookAhead) -> Finding:
    topic = "with the backup, certified"
    facts = (
        f"Certified, if the backup follows for {found.horizon} steps: {percent(found.logged)} of logged actions, with "
        f"widths scaled by {found.scale:.3g}."
    )
    if found.logged >= LITTLE:
        return Finding(topic, "ok", facts)
    useless = found.logged < USELESS
    return Finding(
        topic,
        "stop" if useless else "caution",
        facts,
        f"The backup would drive {'nearly all' if useless else 'most'} of the time.",
        f"Check for {CHECKS}.",
    )


def _backup_finding(found: LookAhead) -> Finding:
    topic = "with the backup, states"
    facts = f"The backup's own action is certified in {percent(found.backup)} of logged states."
    if found.backup >= SAFE:
        return Finding(topic, "ok", facts)
    return Finding(
        topic,
        "caution",
        facts,
        "From the others it is not known to keep the limits: if an episode starts there, it drives without a "
        "certificate.",
        "Give a backup that comes to rest within the limits from every logged state, and a horizon in which it does.",
    )


def _scale_findings(found: LookAhead) -> list[Finding]:
    if not LARGE < found.scale < math.inf:
        return []
    return [
        Finding(
            "with the backup, scale",
            "caution",
            f"Calibration multiplies the widths by {found.scale:.3g}.",
            "Some stretch of the log went quite otherwise than the model expects, and the widths must cover that "
            "everywhere.",
            f"Check for {CHECKS}.",
        )
    ]


def _unseen_findings(found: LookAhead) -> list[Finding]:
    if found.unseen <= NEGLIGIBLE:
        return []
    return [
        Finding(
            "with the backup, unseen",
            "caution",
            f"In {percent(found.unseen)} of logged states the backup's action is beyond all that the log shows.",
            "Nothing can be certified there.",
            "Let the backup drive now and then while logging.",
        )
    ]
