"""Charts of predicted signals."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from safexp.report.signal_chart import BAND, draw_signals
from safexp.runs.forecast import Signal
from safexp.tasks.drawing import AHEAD, ALARM


def drawn(signals, box=(0, 0, 200, 116)):
    image = Image.new("RGB", (200, 120), (255, 255, 255))
    count = draw_signals(ImageDraw.Draw(image), signals, box)
    return np.asarray(image), count


def rows_of(picture, colour):
    return np.flatnonzero((picture == colour).all(axis=2).any(axis=1))


def signal(width, low=-1.0, high=1.0):
    return Signal("x", np.zeros(20), np.full(20, width), low, high)


def test_a_signal_lies_between_its_limits_and_its_band_is_as_wide_as_its_width():
    picture, count = drawn([signal(0.5)])
    limits, line, band = (rows_of(picture, colour) for colour in (ALARM, AHEAD, BAND))
    assert count == 1 and limits.min() < band.min() < line.min() and line.max() < band.max() < limits.max()
    share = (band.max() - band.min()) / (limits.max() - limits.min())
    assert 0.45 < share < 0.55
    narrow, _ = drawn([signal(0.1)])
    assert len(rows_of(narrow, BAND)) < len(band)


def test_a_limit_that_does_not_exist_is_not_drawn():
    one, _ = drawn([signal(0.5, low=-np.inf)])
    assert len(rows_of(one, ALARM)) < len(rows_of(drawn([signal(0.5)])[0], ALARM))


def test_charts_that_do_not_fit_are_left_out():
    assert drawn([signal(0.5)] * 5)[1] == 2
    assert drawn([signal(0.5)], box=(0, 100, 200, 90))[1] == 0
