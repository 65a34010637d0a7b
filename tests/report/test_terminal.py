import json

import pytest

from safexp.report.terminal import print_rows, print_summary
from support.run_folders import MakeRun


def test_a_table_has_an_empty_cell_for_what_is_not_there_and_json_a_null(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"name": "a", "ratio": None, "count": 1000}, {"name": "b", "ratio": 0.5, "count": 2}]
    print_rows(rows, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [["name", "ratio", "count"], ["a", "1,000"], ["b", "0.5", "2"]]
    print_rows(rows, as_json=True)
    assert json.loads(capsys.readouterr().out) == rows


def test_violations_after_stops_have_a_column_where_stops_are_judged(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    print_summary([make_run("a")])
    free = capsys.readouterr().out
    assert "after stops" not in free
    assert "20 stops were taken to be free" in free
    print_summary([make_run("b", after_stops=3), make_run("c", seed=1)])
    heading, judged, other, *rest = capsys.readouterr().out.splitlines()
    assert "after stops" in heading
    assert "3 of 20 stops" in judged
    assert " - " in other
    assert "20 stops were taken to be free" in " ".join(rest)
