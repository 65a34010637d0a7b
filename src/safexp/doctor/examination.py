"""Results of the examination of a log."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from safexp.core.findings import Finding, Severity
from safexp.doctor.actions import Actions
from safexp.doctor.advice import Need
from safexp.doctor.certified import Certified
from safexp.doctor.coverage import CoverageCheck
from safexp.doctor.delay import Response
from safexp.doctor.folds import Fold
from safexp.doctor.inputs import InputCheck
from safexp.doctor.lookahead import LookAhead
from safexp.doctor.models import Models
from safexp.doctor.nearness import Nearness
from safexp.doctor.rows import Rows


@dataclass(frozen=True)
class Signal:
    """One limited signal: distribution of its values, whether it is folded, and its response to actions."""

    name: str
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    fold: Fold
    response: Response | None


@dataclass(frozen=True)
class Limit:
    """Results for one limit; models are None if the log is too small for them.

    With a backup, `coverage` is that of the shield that looks ahead to it, and models of one step are not examined.
    """

    names: tuple[str, ...]
    inputs: InputCheck
    nearness: tuple[Nearness, ...]
    signals: tuple[Signal, ...]
    models: Models | None = None
    coverage: CoverageCheck | None = None
    certified: Certified | None = None


@dataclass(frozen=True)
class Examination:
    """Examination of a log: whether it suffices for a trustworthy shield, and what is missing.

    Attributes:
        log: the file, or "log in memory".
        severity: severity of the most serious finding.
        verdict: the severity as a sentence.
        findings: all findings.
        delta: share of stretches in which a certificate may be wrong.
        spaces: the observation and the action space, and whether each was inferred.
        rows: size and continuity of the log.
        actions: actions in the log; None if values are missing, since nothing else is examined then.
        limits: results for each limit.
        needs: further episodes that would help.
        lines: Python code that builds the recommended shield; empty if none can be recommended.
        lookahead_lines: if a backup is needed, Python code of a shield that looks ahead to one: a template to which
            the backup controller must be added.
        needs_backup: the only stops concern a shield that looks one step ahead; one with a backup can be made.
        look_ahead: the shield that looks ahead to the given backup.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> states, actions = np.zeros((300, 1)), rng.uniform(-0.3, 0.3, (300, 1))
        >>> for step in range(1, 300):
        ...     states[step] = 0.9 * states[step - 1] + actions[step - 1] if step % 10 else 0.0
        >>> log = safexp.Log(states, actions, episodes=np.arange(300) // 10)
        >>> limits = safexp.Within(0, low=-1.0, high=1.0)
        >>> found = safexp.examine(log, constraint=limits, delta=0.1, quantifiers=["FeatureRegression"])
        >>> print(found.severity)
        ok
        >>> print([line for line in found.lines.splitlines() if line.startswith("quantifier")][0])
        quantifier = Calibrated(ChangeModel(FeatureRegression(delta=0.1), inputs=(1,)), delta=0.1)
    """

    log: str
    severity: Severity
    verdict: str
    findings: tuple[Finding, ...]
    delta: float
    spaces: Mapping[str, str]
    rows: Rows
    actions: Actions | None
    limits: tuple[Limit, ...]
    needs: tuple[Need, ...]
    lines: str
    lookahead_lines: str = ""
    needs_backup: bool = False
    look_ahead: LookAhead | None = None

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values; numbers that are not finite are None."""
        return _plain(dataclasses.asdict(self))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
