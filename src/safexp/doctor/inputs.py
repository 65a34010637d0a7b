"""Inputs that say nothing: constant ones, and copies or combinations of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.doctor.findings import Finding, listed

SAME = 1e-6
"""Inputs whose part that does not follow from others is this share of their deviation are the same but for rounding."""


@dataclass(frozen=True)
class Copy:
    """An input that is slope · another + offset."""

    name: str
    of: str
    slope: float
    offset: float

    def __str__(self) -> str:
        offset = f" {'+' if self.offset > 0 else '−'} {abs(self.offset):.4g}" if abs(self.offset) > 1e-4 else ""
        return f"{self.name} = {self.slope:.4g} · {self.of}{offset}"


@dataclass(frozen=True)
class InputCheck:
    """What is wrong with the inputs of a model.

    Attributes:
        constant: names of those that never varied, with their values.
        copies: those that are proportional to another.
        combined: names of those that follow from several others.
        redundant: the numbers of all copies and combinations.
    """

    constant: dict[str, float]
    copies: tuple[Copy, ...]
    combined: tuple[str, ...]
    redundant: tuple[int, ...]


def examine_inputs(columns: Array, names: Sequence[str], first: Sequence[int] = ()) -> InputCheck:
    """Look at inputs (n, d); of several copies one of `first`, or else the earliest, counts as the original."""
    lowest, highest = columns.min(axis=0), columns.max(axis=0)
    varied = highest - lowest > SAME * (1.0 + np.abs(columns).max(axis=0))
    constant = {names[k]: float(columns[0, k]) for k in np.flatnonzero(~varied).tolist()}
    order = [k for k in (*first, *(k for k in range(len(names)) if k not in first)) if varied[k]]
    kept: list[int] = []
    copies, combined, redundant = [], [], []
    for k in order:
        twin = next((j for j in kept if _unexplained(columns[:, [j]], columns[:, k]) < SAME), None)
        if twin is not None:
            copies.append(_copy(columns, names, k, twin))
        elif kept and _unexplained(columns[:, kept], columns[:, k]) < SAME:
            combined.append(names[k])
        else:
            kept.append(k)
            continue
        redundant.append(k)
    return InputCheck(constant, tuple(copies), tuple(combined), tuple(sorted(redundant)))


def input_findings(found: InputCheck) -> list[Finding]:
    """What that means for a shield."""
    told = []
    if found.constant:
        values = [f"{name} = {value:.4g}" for name, value in found.constant.items()]
        told.append(
            Finding(
                "constant inputs",
                "caution",
                f"Never varied: {listed(values)}.",
                "Nothing is known of other values: once such an input changes, nothing is certified any more.",
                "If it can change in operation, log episodes in which it does; if it cannot, this is no loss.",
            )
        )
    if found.copies or found.combined:
        what = [*map(str, found.copies), *(f"{name} follows from others" for name in found.combined)]
        told.append(
            Finding(
                "redundant inputs",
                "ok",
                f"{listed(what, 6)}.",
                "Their effects cannot be told apart, and off the line on which they were logged nothing is known.",
                "The recommended model leaves them out.",
            )
        )
    return told or [Finding("inputs", "ok", "Every input varies, and none follows from the others.")]


def _unexplained(given: Array, wanted: Array) -> float:
    """The deviation of what a linear function of `given` (n, k) leaves of `wanted` (n,), as a share of its own."""
    centred = given - given.mean(axis=0)
    target = wanted - wanted.mean()
    spread = centred.std(axis=0)
    weights = np.linalg.lstsq(centred / spread, target, rcond=None)[0]
    return float(np.std(target - centred / spread @ weights) / target.std())


def _copy(columns: Array, names: Sequence[str], k: int, twin: int) -> Copy:
    x: NDArray[np.float64] = columns[:, twin]
    slope = float(np.cov(x, columns[:, k], bias=True)[0, 1] / x.var())
    return Copy(names[k], names[twin], slope, float(columns[:, k].mean() - slope * x.mean()))
