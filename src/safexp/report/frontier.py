"""Charts of the progress of exploration by epoch: certified proposals, and the smallest margin."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from safexp.report.groups import RunGroup
from safexp.report.plots import Chart, Styles, layout, line

CAPTION = (
    "Above: the share of the learner's proposals that were certified. Below: the smallest margin to a limit that an "
    "epoch reached, in the limit's units (for several limits, as a share of their scale); below 0 it was violated."
)


def frontier_charts(groups: Sequence[RunGroup], drawn_as: Styles) -> list[Chart]:
    """Chart of certified proposals above the smallest margin; empty if no run counted them."""
    told = [group for group in groups if any(line.get("proposals") for run in group.runs for line in run.metrics)]
    if not told:
        return []
    figure = go.Figure(layout=layout("share", [group.name for group in told], include=(0.0, 1.04)))
    figure.layout.height += 160
    figure.update_layout(
        yaxis={"domain": [0.52, 1.0], "title": {"text": "certified", "font": {"size": 13}}},
        yaxis2={
            **figure.layout.yaxis.to_plotly_json(),
            "domain": [0.0, 0.42],
            "title": {"text": "margin", "font": {"size": 13}},
        },
        xaxis={"anchor": "y2"},
    )
    figure.update_layout(yaxis2={"tickformat": "", "autorangeoptions": {"include": [0.0]}})
    endings = []
    for group in told:
        index = drawn_as[group.name]
        shares, margins = by_steps(group, _share), by_steps(group, _margin)
        figure.add_trace(line(index, group.name, np.array(list(shares)), np.array(list(shares.values()))))
        below = line(index, group.name, np.array(list(margins)), np.array(list(margins.values())))
        figure.add_trace(below.update(yaxis="y2", showlegend=False))
        nearest = f", and {min(margins.values()):.3g} as its smallest margin" if margins else ""
        endings.append(f"{group.name} ends with {list(shares.values())[-1]:.1%} certified{nearest}")
    summary = f"Line charts of certified proposals and smallest margin against environment steps: {'; '.join(endings)}."
    return [Chart("Frontier", CAPTION, summary, figure)]


def by_steps(group: RunGroup, read: Callable[[Sequence[Mapping[str, Any]]], float | None]) -> dict[int, float]:
    """Values over all runs, by the steps at which epochs ended; steps without a value are omitted."""
    epochs: defaultdict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for run in group.runs:
        for epoch in run.metrics:
            epochs[int(epoch["steps"])].append(epoch)
    found = {steps: read(epochs[steps]) for steps in sorted(epochs)}
    return {steps: value for steps, value in found.items() if value is not None}


def _share(epochs: Sequence[Mapping[str, Any]]) -> float | None:
    proposals = sum(int(epoch.get("proposals") or 0) for epoch in epochs)
    return sum(int(epoch.get("proposals_certified") or 0) for epoch in epochs) / proposals if proposals else None


def _margin(epochs: Sequence[Mapping[str, Any]]) -> float | None:
    told = [float(epoch["smallest_margin"]) for epoch in epochs if epoch.get("smallest_margin") is not None]
    return min(told, default=None)
