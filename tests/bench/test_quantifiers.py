"""The measurements themselves: their rows, not their numbers."""

from __future__ import annotations

import json
import sys

import pytest

from safexp.bench.quantifiers import EMPTY, measure
from safexp.cli import main


@pytest.mark.slow
def test_one_row_for_each_quantifier_and_the_shield() -> None:
    quick = {"capacity": 50, "num_inducing": 8, "first_steps": 1, "steps": 1}
    rows = measure(epoch=100, rounds=1, decisions=5, settings=quick)
    names = ["ExactGP", *["SparseGP", "DeepGP", "FeatureRegression"] * 2, "Shield.filter"]
    assert sorted(row["what"].split(",")[0] for row in rows) == sorted(names)
    assert all(list(row) == list(EMPTY) for row in rows), "a table needs equal columns"
    assert all(row["us_1x64"] > 0 and row["refit_ms"] > 0 for row in rows[:-1])
    assert [row["ratio_1x64"] is not None for row in rows] == [False, *[True] * 4, False, False, False]
    assert [row["rmse"] is not None for row in rows] == [False, *[True] * 6, False]
    assert all(0 <= row[name] <= 1 for row in rows[1:-1] for name in ("coverage", "certified", "false_safe"))
    assert rows[-1]["filter_p99_us"] >= rows[-1]["filter_p50_us"] > 0
    json.dumps(rows)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for module in ("safexp.bench.quantifiers", "safexp.bench.references"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "gpytorch", None)
    assert main(["bench", "quantifiers"]) == 2
    assert "this measurement needs gpytorch: pip install gpytorch." in capsys.readouterr().err
