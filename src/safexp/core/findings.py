"""Findings about a log or an environment: severity, consequence, and remedy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Severity = Literal["ok", "caution", "stop"]

RANKS: Mapping[Severity, int] = MappingProxyType({"ok": 0, "caution": 1, "stop": 2})


@dataclass(frozen=True)
class Finding:
    """A finding about a log or an environment.

    Attributes:
        topic: the subject in a word or two.
        severity: "ok", "caution" (a shield is possible, within limits, or something could not be examined), or "stop"
            (no trustworthy shield is possible).
        found: the facts, with numbers.
        means: the consequence for a shield.
        remedy: what to do; empty if nothing is needed.
    """

    topic: str
    severity: Severity
    found: str
    means: str = ""
    remedy: str = ""


def worst(findings: Iterable[Finding]) -> Severity:
    """The highest severity."""
    return max((one.severity for one in findings), key=RANKS.__getitem__, default="ok")


def listed(names: Iterable[object], most: int = 8) -> str:
    """Names as part of a sentence; if there are many, the first ones and the number of the others."""
    given = [str(name) for name in names]
    shown = ", ".join(given[:most])
    return shown if len(given) <= most else f"{shown} and {len(given) - most:,} more"


def percent(share: float) -> str:
    """A share as a percentage with useful digits: 12.3 %, 0.3 %, 99.97 %."""
    if 0 < share < 1e-4:
        return "under 0.01 %"
    if 0.9 <= share < 1:  # the difference from 100 % matters
        return f"{100 - float(f'{100 * (1 - share):.2g}'):.6g} %"
    return f"{100 * share:.{2 if share < 0.1 else 3}g} %"
