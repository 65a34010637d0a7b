"""The measurement itself: its rows, not its numbers."""

from __future__ import annotations

import json

import pytest

from safexp.bench.shield import OUTCOMES, measure
from safexp.cli import main
from support.c_loop import needs_compiler


@pytest.mark.slow
def test_all_decisions_and_those_of_each_outcome() -> None:
    rows = measure(decisions=400, settings={"capacity": 200, "num_inducing": 16, "first_steps": 20})
    assert len({tuple(row) for row in rows}) == 1, "a table needs equal columns"
    everything, *outcomes = rows
    assert everything["decisions"] == 400 == sum(row["decisions"] for row in outcomes)
    assert {row["what"].strip() for row in outcomes} <= set(OUTCOMES)
    assert everything["longest_us"] >= everything["p99.9_us"] >= everything["p99_us"] >= everything["p50_us"] > 0
    assert everything["memory_mb"] > 0
    json.dumps(rows)


@needs_compiler
@pytest.mark.slow
def test_the_compiled_shield_is_measured_on_the_same_decisions() -> None:
    rows = measure(400, {"capacity": 200, "num_inducing": 16, "first_steps": 20}, compiled=True)
    assert len({tuple(row) for row in rows}) == 1, "a table needs equal columns"
    starts = [k for k, row in enumerate(rows) if not row["what"].startswith("  ")]
    python, in_c, shortest = (
        rows[start:stop] for start, stop in zip(starts, [*starts[1:], starts[2] + starts[1]], strict=True)
    )
    assert [row["decisions"] for row in python] == [row["decisions"] for row in in_c]
    assert [row["decisions"] for row in shortest] == [row["decisions"] for row in in_c], "all 400 questions differ"
    assert shortest[0]["what"] == "each different question, shortest of 7"
    assert all("a fixed loop as long as" in row["what"] for row in rows[starts[2] + starts[1] :])
    half = starts[1]
    assert rows[half]["cpu_p50_us"] < rows[0]["cpu_p50_us"]
    assert 1 < rows[half]["code_kb"] < 400
    assert 100 < rows[half]["stack_bytes"] < 20_000


def test_too_few_decisions_and_other_measurements_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "shield", "--decisions", "3"]) == 2
    assert "decisions=3 must be at least 10" in capsys.readouterr().err
    assert main(["bench", "tasks", "--decisions", "3"]) == 2
    assert "--decisions 3 is for `safexp bench shield`" in capsys.readouterr().err
