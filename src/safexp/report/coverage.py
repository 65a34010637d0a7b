"""How often the quantifiers of some runs were right, epoch by epoch, beside what they promise."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import plotly.graph_objects as go

from safexp.coverage import NEAR, Coverage
from safexp.report.plots import COLOURS, Chart, layout, line
from safexp.report.summary import coverages
from safexp.signals import Array
from safexp.studies.folder import Run


def coverage_charts(runs: Sequence[Run], labels: Sequence[str]) -> list[Chart]:
    """Coverage of all transitions and of those near the threshold; nothing where no run's quantifier says anything."""
    told = [
        (index, run, label)
        for index, (run, label) in enumerate(zip(runs, labels, strict=True))
        if any(0 < epoch.rows > epoch.vacuous for epoch in coverages(run))
    ]
    if not told:
        return []
    caption = "The share of true costs within mean ± width, counted before the quantifier learned from them"
    return [
        _chart("Coverage", f"{caption}. Dotted: 1 − δ.", told, lambda epoch: (epoch.covered, epoch.rows)),
        _chart(
            "Coverage near the threshold",
            f"{caption}, of costs within {NEAR:g} of their threshold. Dotted: 1 − δ.",
            told,
            lambda epoch: (epoch.near_covered, epoch.near),
        ),
    ]


def _chart(
    title: str, caption: str, told: Sequence[tuple[int, Run, str]], share: Callable[[Coverage], tuple[int, int]]
) -> Chart:
    figure = go.Figure(layout=layout("share", len(told)))
    endings = []
    for index, run, label in told:
        epochs = [epoch for epoch in run.metrics if "coverage_rows" in epoch]
        counts = [share(epoch) for epoch in coverages(run)]
        shown = [(int(epoch["steps"]), hits / rows) for epoch, (hits, rows) in zip(epochs, counts, strict=True) if rows]
        hits, rows = (sum(part) for part in zip(*counts, strict=True))
        endings.append(f"{label} has {hits / rows:.1%} of {rows:,}" if rows else f"{label} has none")
        if shown:
            steps, values = (np.array(part, dtype=np.float64) for part in zip(*shown, strict=True))
            figure.add_trace(line(index, label, steps, values))
            figure.add_trace(_promise(index, steps, 1.0 - float(epochs[-1]["delta"])))
    summary = f"Line chart of {title.lower()} against environment steps: {'; '.join(endings)}."
    return Chart(title, caption, summary, figure)


def _promise(index: int, steps: Array, value: float) -> go.Scatter:
    """What a run's quantifier promises."""
    return go.Scatter(
        x=[0.0, float(steps[-1])],
        y=[value, value],
        mode="lines",
        showlegend=False,
        hoverinfo="skip",
        line={"color": COLOURS[index % len(COLOURS)], "width": 1.25, "dash": "dot"},
    )
