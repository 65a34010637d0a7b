import json

import pytest

from safexp.report.terminal import print_rows


def test_a_table_has_an_empty_cell_for_what_is_not_there_and_json_a_null(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"name": "a", "ratio": None, "count": 1000}, {"name": "b", "ratio": 0.5, "count": 2}]
    print_rows(rows, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [["name", "ratio", "count"], ["a", "1,000"], ["b", "0.5", "2"]]
    print_rows(rows, as_json=True)
    assert json.loads(capsys.readouterr().out) == rows
