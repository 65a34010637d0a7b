"""The comparison in Markdown, and in the pages that quote it."""

from __future__ import annotations

import pytest

from safexp.studies.safety_gym.comparison import compare, select
from safexp.studies.safety_gym.study import SafetyGymStudy
from safexp.studies.safety_gym.tables import all_tables, fill


@pytest.fixture
def tables(make_result):
    results = [
        *(make_result(task, "trpo", seed, final_return=4.0, violated=11, stops=(0,) * 4) for task, seed in PLACES),
        *(make_result(task, "mase", seed, final_return=3.0 + seed % 2) for task, seed in PLACES),
        make_result("point", "mase-published", above=5),
    ]
    study = SafetyGymStudy(methods=("trpo", "mase-published", "mase"), seeds=2, epochs=4)
    selection, missing = select(study, {result.name: result for result in results}, 4)
    return all_tables(compare(selection, 4), missing)


PLACES = [("point", 1000), ("point", 1001), ("car", 1000)]


def cells(table):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_a_task_has_all_its_methods(tables):
    heading, _, trpo, published, mase = cells(tables["point"])
    assert heading[:4] == ["Point, 4 epochs", "seeds", "violated", "95% interval"]
    assert trpo == [
        *("TRPO", "2", "22 of 80", "18.1% to 38.6%", "4.000 ± 0.000", "", "2.500", "0.50, 20", "", ""),
    ]
    assert published[:3] == ["MASE as published", "1", "**0** of 40; 5 above the budget undiscounted"]
    assert mase[:3] == ["MASE", "2", "**0** of 80"]
    assert mase[4:] == ["3.500 ± 0.500", "87.5% (75.0 to 100.0)", "2.500", "0.50, 20", "2.5% (≤ 7.7%)", "1.0"]
    _, _, _, single = cells(tables["car"])
    assert single[4:6] == ["3.000", "75.0%"]


def test_stops_are_beside_the_papers(tables):
    assert cells(tables["table-2"])[2:] == [
        ["the paper", "154 of 500", "24 of 100", "397 of 500", "46 of 100"],
        ["MASE as published, episodes stopped", "4 of 40 (10%)", "2.5%", "", ""],
        ["MASE as published, epochs with a stop", "2.0 of 4", "2.0 of 4", "", ""],
        ["MASE, episodes stopped", "8 of 80 (10%)", "2.5%", "4 of 40 (10%)", "2.5%"],
        ["MASE, epochs with a stop", "2.0 of 4", "2.0 of 4", "2.0 of 4", "2.0 of 4"],
    ]


def test_the_short_table_has_the_tasks_beside_each_other(tables):
    caption, _, heading, _, trpo, published, mase = cells(tables["short"])
    assert caption[0].startswith("4 epochs of 10,000 steps, 1 to 2 seeds; violations over all of training")
    assert heading == ["", "Point: violated", "return", "Car: violated", "return"]
    assert trpo == ["TRPO", "22 of 80", "4.00", "11 of 40", "4.00"]
    assert published[-2:] == ["", ""]
    assert mase == ["MASE", "**0** of 80", "3.50", "**0** of 40", "3.00"]


def test_one_table_has_all_tasks(tables):
    heading, _, *lines = cells(tables["tasks"])
    assert heading[:3] == ["task", "method", "return"]
    assert [line[:2] for line in lines] == [
        *(["Point", "TRPO"], ["", "MASE as published"], ["", "MASE"]),
        *(["Car", "TRPO"], ["", "MASE"]),
    ]
    assert lines[2][2:] == ["3.50", "2.50", "**0** of 80", "0% to 4.51%", "0.50, 20", "8 (10%)"]
    assert lines[3][4:] == ["11 of 40", "14.6% to 43.9%", "0.50, 20", ""]


def test_what_is_missing_is_listed(tables):
    assert tables["missing"].splitlines()[0] == "- point mase-published: 1001 missing"


def test_a_page_gets_the_tables_that_it_marks(tmp_path, tables):
    page = tmp_path / "page.md"
    page.write_text(
        "before\n<!-- results: short -->\nold\n<!-- end of results -->\nbetween\n"
        "<!-- results: car -->\n<!-- end of results -->\n<!-- results: other -->\nkept\n<!-- end of results -->\n"
    )
    assert sorted(fill(page, tables)) == ["car", "short"]
    text = page.read_text()
    assert text == (
        f"before\n<!-- results: short -->\n\n{tables['short']}\n<!-- end of results -->\nbetween\n"
        f"<!-- results: car -->\n\n{tables['car']}\n<!-- end of results -->\n"
        "<!-- results: other -->\nkept\n<!-- end of results -->\n"
    )
    fill(page, tables)
    assert page.read_text() == text
    page.write_text("nothing")
    with pytest.raises(ValueError, match=r"page.md has no place for a table: mark one with <!-- results: point -->"):
        fill(page, tables)
