"""Figure of the GLM-MASE study."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from safexp.studies.glm_regret import GLMTable

COLOURS = ("#0072b2", "#d55e00", "#009e73")


def write_figure(table: GLMTable, path: Path) -> None:
    """Cumulative regret with its √t guide, and λ_min(Λ) with the level that Theorem 5.7 requires."""
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    shown = [variant for variant in table.variants if variant.curves]
    t = np.arange(1, table.study.episodes + 1)
    for variant, colour in zip(shown, COLOURS, strict=False):
        for number, curve in enumerate(variant.curves):
            label = variant.name if number == 0 else None
            left.plot(t, np.cumsum(curve.regret), color=colour, alpha=0.8, lw=1.2, label=label)
            right.plot(t, curve.smallest_eigenvalue, color=colour, alpha=0.8, lw=1.2, label=label)
            if curve.t_star is not None:
                reached = curve.smallest_eigenvalue[curve.t_star - 1]
                right.plot([curve.t_star], [reached], "o", color=colour, ms=4)
    guide = max(np.cumsum(curve.regret)[0] for variant in shown for curve in variant.curves)
    left.plot(t, guide * np.sqrt(t), color="black", ls="--", lw=1.0, label="∝ √t")
    level = max(curve.level for variant in shown for curve in variant.curves)
    right.axhline(level, color="black", ls="--", lw=1.0)
    right.annotate("(2C/ζ)²: Γ ≤ ζ/2 everywhere", (1.2, level), (0, 4), textcoords="offset points", fontsize=8)
    for axes, title in ((left, "cumulative regret"), (right, "λ_min(Λ); dots mark t*")):
        axes.set(xscale="log", yscale="log", xlabel="episode", title=title)
        axes.grid(alpha=0.25, lw=0.5)
    left.legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
