"""SVG figures for the examination of a log."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from safexp.core.findings import percent
from safexp.doctor.certified import Certified
from safexp.doctor.coverage import CoverageCheck
from safexp.doctor.delay import Response
from safexp.doctor.examination import Limit, Signal
from safexp.report.figures import STYLE
from safexp.report.plots import COLOURS

SIZE = (4.6, 2.5)
"""Size in inches: the width of a phone, so that text is readable there."""

PAGE: dict[Any, Any] = {
    **STYLE,
    "font.size": 10,
    "axes.titlesize": 10,
    "svg.fonttype": "none",
    "font.family": "sans-serif",
}

LIMIT: dict[str, Any] = {"color": "#b42318", "linewidth": 1.2, "linestyle": "--"}


@dataclass(frozen=True)
class SvgPicture:
    """A figure with title and caption; `summary` is its description for screen readers."""

    title: str
    caption: str
    summary: str
    svg: Markup


def pictures(limit: Limit) -> list[SvgPicture]:
    """All figures for a limit."""
    found = []
    for signal in limit.signals:
        found.append(_values(signal, limit))
        if signal.response is not None:
            found.append(_response(signal.response))
    if limit.coverage is not None:
        found.append(_scores(limit.coverage))
    if limit.certified is not None:
        found.append(_certified(limit.certified))
    return found


def _values(signal: Signal, limit: Limit) -> SvgPicture:
    own = [one for one in limit.nearness if one.signal == signal.name]

    def draw(axes: Axes) -> None:
        axes.stairs(signal.counts, signal.edges, fill=True, color=COLOURS[0], alpha=0.75)
        for one in own:
            axes.axvline(one.limit, **LIMIT)
        axes.set_yscale("log")
        axes.set_xlabel(signal.name)
        axes.set_ylabel("rows")

    limits = ", ".join(f"{one.limit:g}" for one in own)
    return SvgPicture(
        f"Values of {signal.name}",
        "How often each value was logged, on a logarithmic axis; dashed: the limits. What lies between the last bar "
        "and a limit is not in the log.",
        f"Histogram of {signal.name} from {signal.edges[0]:.4g} to {signal.edges[-1]:.4g}; limits at {limits}.",
        _svg(draw),
    )


def _response(response: Response) -> SvgPicture:
    steps = np.arange(1, response.horizon + 1)

    def draw(axes: Axes) -> None:
        axes.bar(steps, response.effects, color=COLOURS[0], alpha=0.75)
        axes.errorbar(
            steps, response.effects, 2 * np.array(response.errors), fmt="none", ecolor="#111827", elinewidth=0.8
        )
        axes.axhline(0, color="#111827", linewidth=0.8)
        axes.set_xlabel("steps after the action")
        axes.set_ylabel(f"change of {response.signal}")

    return SvgPicture(
        f"What {response.action} does to {response.signal}",
        f"What one standard deviation of {response.action} adds to the change in each following step, later actions "
        "being as they were; lines: ± 2 standard errors. A shield that looks one step ahead sees the first bar alone.",
        f"Bar chart: the first step changes {response.signal} by {response.effects[0]:.3g}, the step "
        f"{response.horizon} by {response.effects[-1]:.3g}.",
        _svg(draw),
    )


def _scores(coverage: CoverageCheck) -> SvgPicture:
    finite = np.sort([score for score in coverage.scores if np.isfinite(score)])

    def draw(axes: Axes) -> None:
        shares = np.arange(1, len(finite) + 1) / max(len(coverage.scores), 1)
        axes.step(finite, shares, where="post", color=COLOURS[0])
        axes.axhline(1 - coverage.delta, color="#6b7280", linewidth=1, linestyle=":")
        axes.axvline(1, color="#6b7280", linewidth=1)
        if np.isfinite(coverage.scale):
            axes.axvline(coverage.scale, **LIMIT)
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("largest error of a stretch, in widths")
        axes.set_ylabel("share of stretches")

    return SvgPicture(
        "Calibration",
        "Largest errors of stretches, each by a model that has not seen it. Grey: the width as fitted, and 1 − δ; "
        "dashed: what calibration multiplies the width by.",
        f"Distribution of {len(coverage.scores)} scores; the calibrated scale is {coverage.scale:.3g}.",
        _svg(draw),
    )


def _certified(found: Certified) -> SvgPicture:
    def draw(axes: Axes) -> None:
        axes.plot(found.factors, found.logged, marker="o", markersize=4, color=COLOURS[0], label="logged actions")
        axes.plot(
            found.factors,
            found.fresh,
            marker="s",
            markersize=4,
            color=COLOURS[1],
            linestyle="--",
            label="fresh actions",
        )
        axes.axvline(1, **LIMIT)
        axes.set_ylim(0, 1.04)
        axes.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0, 0))
        axes.set_xlabel("limits, as multiples of the given ones")
        axes.set_ylabel("certified")
        axes.legend(frameon=False, loc="lower right")

    at = found.factors.index(1.0)
    return SvgPicture(
        "Certified actions",
        "How much would be certified in logged states if the limits were nearer to the signal's median or further from "
        "it; dashed: as given.",
        f"At the given limits {percent(found.logged[at])} of logged and {percent(found.fresh[at])} of fresh actions "
        "are certified.",
        _svg(draw),
    )


@mpl.rc_context(PAGE)
def _svg(draw: Callable[[Axes], None]) -> Markup:
    figure = Figure(figsize=SIZE, layout="constrained")
    draw(figure.subplots())
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    return Markup(text[text.index("<svg") :])
