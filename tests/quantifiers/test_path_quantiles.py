"""Widths of paths from counts of errors."""

from __future__ import annotations

import numpy as np

from safexp.quantifiers.path_quantiles import BINS, quantiles


def test_the_error_that_few_stretches_exceed_never_falls_with_the_distance():
    counts = np.zeros((4, 1, len(BINS) + 1))
    counts[0, 0, 10], counts[1, 0, 100], counts[2, 0, [40, 60]], counts[3, 0, 50] = 100, 3, [90, 10], 200
    found = quantiles(counts, 0.95)[:, 0]
    assert found.tolist() == [BINS[10], BINS[60], BINS[60], BINS[60]]  # too few in the second: that of the third
    few = np.zeros((2, 1, len(BINS) + 1))
    few[0, 0, 7] = 4
    assert quantiles(few, 0.95)[:, 0].tolist() == [BINS[7], np.inf]  # nobody went as far as the second
    few[1, 0, -1] = 100
    assert np.isinf(quantiles(few, 0.95)[1, 0])
