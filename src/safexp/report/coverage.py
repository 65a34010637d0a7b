"""Charts of the coverage of quantifiers by epoch, with their nominal coverage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import plotly.graph_objects as go

from safexp.constraints import Margin
from safexp.records.coverage import NEAR, Coverage, total
from safexp.report.groups import RunGroup
from safexp.report.plots import COLOURS, Chart, Styles, layout, line
from safexp.runs.summary import coverages

Share = Callable[[Coverage], tuple[int, int]]


def coverage_charts(groups: Sequence[RunGroup], drawn_as: Styles) -> list[Chart]:
    """Coverage of all transitions and of those near the threshold, where there are any.

    Nothing where no quantifier says anything.
    """
    told = [
        group
        for group in groups
        if any(0 < epoch.rows > epoch.vacuous for run in group.runs for epoch in coverages(run.metrics))
    ]
    if not told:
        return []
    caption = "The share of true costs within mean ± width, counted before the quantifier learned from them"
    charts = [
        _chart("Coverage", f"{caption}. Dotted: 1 − δ.", told, drawn_as, lambda epoch: (epoch.covered, epoch.rows)),
        _chart(
            "Coverage near the threshold",
            f"{caption}, of costs within {NEAR:g} of their threshold ({near_in_units(told)}). Dotted: 1 − δ.",
            told,
            drawn_as,
            lambda epoch: (epoch.near_covered, epoch.near),
        ),
    ]
    return [chart for chart in charts if chart.figure.data]


def near_in_units(groups: Sequence[RunGroup]) -> str:
    """The distance up to which a cost counts as near, in the units of costs and signals."""
    found = []
    for config in (group.runs[0].config for group in groups):
        if config.constraint == "margin":
            found.append(f"{Margin(config.cost_max).in_units(NEAR)[0]:g} of the margin")
        elif config.constraint != "within":
            found.append(f"{NEAR * config.cost_max:g} of the cost")
        for limit in config.signal_limits:
            named = zip(limit.sides.which, limit.in_units(NEAR), strict=True)
            found += [f"{distance:g} of {limit.names[which]}" for which, distance in named]
    return ", ".join(dict.fromkeys(found))


def _chart(title: str, caption: str, told: Sequence[RunGroup], drawn_as: Styles, share: Share) -> Chart:
    figure = go.Figure(layout=layout("share", [group.name for group in told], include=(0.0, 1.04)))
    endings = []
    for group in told:
        index = drawn_as[group.name]
        counts = {steps: share(counted) for steps, counted in pooled(group).items()}
        hits, rows = (sum(part) for part in zip(*counts.values(), strict=True))
        endings.append(f"{group.name} has {hits / rows:.1%} of {rows:,}" if rows else f"{group.name} has none")
        shown = {steps: hits / rows for steps, (hits, rows) in counts.items() if rows}
        if shown:
            figure.add_trace(line(index, group.name, np.array(list(shown)), np.array(list(shown.values()))))
            figure.add_trace(_promise(index, group, min(shown), max(shown)))
    summary = f"Line chart of {title.lower()} against environment steps: {'; '.join(endings)}."
    return Chart(title, caption, summary, figure)


def pooled(group: RunGroup) -> dict[int, Coverage]:
    """Counts of all runs together, by step."""
    counts: defaultdict[int, list[Coverage]] = defaultdict(list)
    for run in group.runs:
        steps = [int(epoch["steps"]) for epoch in run.metrics if "coverage_rows" in epoch]
        for step, counted in zip(steps, coverages(run.metrics), strict=True):
            counts[step].append(counted)
    return {step: total(counts[step]) for step in sorted(counts)}


def _promise(index: int, group: RunGroup, first_step: int, last_step: int) -> go.Scatter:
    """Nominal coverage of a group's quantifier, at its latest δ."""
    (*_, delta) = (line["delta"] for run in group.runs for line in run.metrics if "coverage_rows" in line)
    return go.Scatter(
        x=[first_step, last_step],
        y=[1.0 - float(delta)] * 2,
        legendgroup=group.name,
        mode="lines",
        showlegend=False,
        hoverinfo="skip",
        line={"color": COLOURS[index % len(COLOURS)], "width": 1.25, "dash": "dot"},
    )
