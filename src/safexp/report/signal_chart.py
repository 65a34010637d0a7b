"""Small charts of predicted signals within their widths and limits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import ImageDraw, ImageFont

from safexp.core.arrays import Array
from safexp.runs.forecast import Signal
from safexp.tasks.drawing import AHEAD, ALARM, FLOOR

BAND, TEXT = (214, 200, 230), (120, 122, 126)
LEAST_HEIGHT = 44
"""Height in pixels below which a chart could not be read, and is left out."""

MARGIN = 0.15
"""Room above and below the limits, as a share of their distance."""


def draw_signals(pen: ImageDraw.ImageDraw, signals: Sequence[Signal], box: tuple[int, int, int, int]) -> int:
    """Draw a chart for each signal, one below the other, in a box (left, top, right, bottom); returns how many fit."""
    left, top, right, bottom = box
    count = min(len(signals), max((bottom - top) // LEAST_HEIGHT, 0))
    for k, signal in enumerate(signals[:count]):
        height = (bottom - top) // count
        _draw(pen, signal, (left, top + k * height, right, top + (k + 1) * height - 6))
    return count


def _draw(pen: ImageDraw.ImageDraw, signal: Signal, box: tuple[int, int, int, int]) -> None:
    left, top, right, bottom = box
    pen.text((left, top), f"{signal.name}, predicted with the backup", TEXT, ImageFont.load_default(12))
    top += 16
    low, high = _shown(signal)

    def at(steps: Array, values: Array) -> list[tuple[float, float]]:
        heights = np.clip((values - low) / max(high - low, 1e-12), 0.0, 1.0)
        across = left + (right - left) * steps / max(len(signal.values) - 1, 1)
        return list(zip(across.tolist(), (bottom - (bottom - top) * heights).tolist(), strict=True))

    steps = np.arange(len(signal.values), dtype=np.float64)
    pen.rectangle((left, top, right, bottom), FLOOR)
    upper, lower = at(steps, signal.values + signal.widths), at(steps, signal.values - signal.widths)
    pen.polygon([*upper, *lower[::-1]], BAND)
    pen.line(at(steps, signal.values), AHEAD, 2)
    for limit in (signal.low, signal.high):
        if np.isfinite(limit):
            pen.line(at(steps[[0, -1]], np.full(2, limit)), ALARM, 2)


def _shown(signal: Signal) -> tuple[float, float]:
    """Range of a chart: the limits with a margin; where there is none, the predicted values."""
    low = signal.low if np.isfinite(signal.low) else float((signal.values - signal.widths).min())
    high = signal.high if np.isfinite(signal.high) else float((signal.values + signal.widths).max())
    room = MARGIN * (high - low)
    return low - room, high + room
