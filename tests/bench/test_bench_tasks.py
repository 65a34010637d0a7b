"""The measurements themselves: their rows, not their numbers."""

from __future__ import annotations

import json

from safexp.bench.tasks import measure


def test_one_row_for_each_case() -> None:
    rows = measure(robots=["Point"], layouts=["Static", "Goal1"], batches=[1, 4], threads=[1], rounds=1)
    assert [(row["task"], row["batch"], row["threads"]) for row in rows] == [
        ("Point Static", 1, 1),
        ("Point Static", 4, 1),
        ("Point Goal1", 1, 1),
        ("Point Goal1", 4, 1),
    ]
    for row in rows:
        assert row["steps_per_second"] > 0 and row["physics_steps_per_second"] > 0
        assert row["reset_microseconds"] > 0 and row["lone_reset_microseconds"] > 0
    json.dumps(rows)
