"""Findings about a log: how serious, what it means, and the remedy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Severity = Literal["ok", "caution", "stop"]

RANKS: Mapping[Severity, int] = MappingProxyType({"ok": 0, "caution": 1, "stop": 2})

VERDICTS: Mapping[Severity, str] = MappingProxyType(
    {
        "ok": "Good: an honest shield can be made from this log.",
        "caution": "Good with cautions: an honest shield can be made from this log; read the cautions first.",
        "stop": "No honest shield can be made from this log as it is.",
    }
)
"""The verdict for the most serious finding."""


@dataclass(frozen=True)
class Finding:
    """One thing that was found.

    Attributes:
        topic: what it is about, in a word or two.
        severity: "ok", "caution" (a shield can be made, within bounds that are named), or "stop" (none that is honest).
        found: the facts, with numbers.
        means: what follows for a shield.
        remedy: what to do; empty where nothing is needed.
    """

    topic: str
    severity: Severity
    found: str
    means: str = ""
    remedy: str = ""


def worst(findings: Iterable[Finding]) -> Severity:
    """The most serious severity of all."""
    return max((one.severity for one in findings), key=RANKS.__getitem__, default="ok")


def listed(names: Iterable[object], most: int = 8) -> str:
    """Names for a sentence; of many the first ones, and how many more there are."""
    given = [str(name) for name in names]
    shown = ", ".join(given[:most])
    return shown if len(given) <= most else f"{shown} and {len(given) - most:,} more"


def percent(share: float) -> str:
    """A share as a reader wants it: 12.3 %, 0.3 %, 99.97 %."""
    if 0 < share < 1e-4:
        return "under 0.01 %"
    if 0.9 <= share < 1:  # what is missing matters
        return f"{100 - float(f'{100 * (1 - share):.2g}'):.6g} %"
    return f"{100 * share:.{2 if share < 0.1 else 3}g} %"
