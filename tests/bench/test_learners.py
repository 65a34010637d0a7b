"""The measurements themselves: their rows, not their numbers."""

from __future__ import annotations

import json

import pytest

from safexp.bench.learners import measure


@pytest.mark.slow
def test_one_row_for_each_measurement() -> None:
    rows = measure(batch=100, rounds=1, train_steps=200)
    assert [row["what"].split(",")[0].split(" on ")[0] for row in rows] == [
        *["policy step"] * 4,
        *["critic"] * 2,
        *["training TRPO"] * 2,
        "TRPO",
        "MASE with Unknown",
    ]
    assert all(row["milliseconds"] > 0 for row in rows)
    assert all(row["steps_per_cpu_second"] > 0 for row in rows[-4:])
    json.dumps(rows)
