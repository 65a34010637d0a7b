"""Redundant inputs of a model: constant ones, and copies or combinations of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.core.findings import Finding, listed

SAME = 1e-6
"""Largest unexplained part of a redundant input, as a share of its standard deviation: room for rounding."""


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
    """Redundant inputs of a model.

    Attributes:
        constant: names of inputs that never varied, with their values.
        copies: inputs that are linear in another one.
        combined: names of inputs that are linear combinations of several others.
        redundant: indices of all copies and combinations.
    """

    constant: dict[str, float]
    copies: tuple[Copy, ...]
    combined: tuple[str, ...]
    redundant: tuple[int, ...]


def examine_inputs(columns: Array, names: Sequence[str], first: Sequence[int] = ()) -> InputCheck:
    """Examine inputs (n, d); of several copies one of `first`, or else the earliest, is the original."""
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
    """Findings on the inputs."""
    told = []
    if found.constant:
        values = [f"{name} = {value:.4g}" for name, value in found.constant.items()]
        told.append(
            Finding(
                "constant inputs",
                "caution",
                f"Never varied: {listed(values)}.",
                "Nothing is known about other values: once such an input changes, nothing is certified any more.",
                "If it can change in operation, log episodes in which it does; otherwise nothing.",
            )
        )
    if found.copies or found.combined:
        what = [str(copy) for copy in found.copies]
        what += [f"{name} is a combination of others" for name in found.combined]
        told.append(
            Finding(
                "redundant inputs",
                "ok",
                f"{listed(what, 6)}.",
                "Their effects cannot be separated, and nothing is known off the line on which they were logged.",
                "Nothing: the recommended model leaves them out.",
            )
        )
    return told or [Finding("inputs", "ok", "Every input varies, and none is a combination of others.")]


def _unexplained(given: Array, wanted: Array) -> float:
    """Residual of `wanted` (n,) after a linear fit to `given` (n, k), as a share of its standard deviation."""
    centred = given - given.mean(axis=0)
    target = wanted - wanted.mean()
    spread = centred.std(axis=0)
    weights = np.linalg.lstsq(centred / spread, target, rcond=None)[0]
    return float(np.std(target - centred / spread @ weights) / target.std())


def _copy(columns: Array, names: Sequence[str], k: int, twin: int) -> Copy:
    x: NDArray[np.float64] = columns[:, twin]
    slope = float(np.cov(x, columns[:, k], bias=True)[0, 1] / x.var())
    return Copy(names[k], names[twin], slope, float(columns[:, k].mean() - slope * x.mean()))
