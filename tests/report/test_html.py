import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from safexp.report.html import render, write_report
from support.html import Elements
from support.run_folders import MakeRun


def test_the_report_holds_table_curves_command_and_versions(make_run: MakeRun) -> None:
    page = render([make_run("bare", violate=2, method="bare"), make_run("mase")])
    for text in ("bare", "mase", "PPO", "safexp/PlanarRobot-v0", "40.7 to 59.3 %", "0 to 3.03 %", "1,234", "torch"):
        assert text in page
    assert "safexp train --out &#39;mase&#39;" in page
    elements = Elements(page)
    assert len(elements.data) == 7 + 1
    assert all(json.loads(data)["data"] for data in elements.data)


def test_every_chart_says_what_it_shows(make_run: MakeRun) -> None:
    elements = Elements(render([make_run("mase")]))
    spoken = [attributes["aria-label"] for _, attributes in elements.found if attributes.get("role") == "img"]
    assert len(spoken) == 7 + 1
    assert "Line chart of average episode return against environment steps: mase ends at 2." in spoken


def test_the_report_needs_no_network(make_run: MakeRun) -> None:
    elements = Elements(render([make_run("mase")]))
    assert not [tag for tag, attributes in elements.found if "src" in attributes or "href" in attributes]


def test_every_string_is_escaped(make_run: MakeRun) -> None:
    evil = "<script>alert(1)</script>"
    run = make_run("a")
    run = replace(
        run,
        path=run.path.parent / "<b>&</b>",
        config=replace(run.config, task=evil, task_options={evil: evil}, learner_options={"x": evil}),
        command=evil,
        versions={evil: evil},
    )
    other = replace(run, path=Path(evil), config=replace(run.config, learner_options={"x": f"{evil}, again"}))
    page = render([run, other], [evil])
    assert "alert(1)</script>" not in page
    assert "<b>" not in re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert all(json.loads(data) for data in Elements(page).data)


def test_what_was_left_out_and_what_did_not_finish_is_said(make_run: MakeRun) -> None:
    page = render([make_run("a", status="interrupted"), make_run("b", episodes=0, status="")], ["c does not exist."])
    for text in ("a (interrupted)", "b (unfinished)", "c does not exist."):
        assert text in page


def test_violations_in_unfinished_episodes_are_said(make_run: MakeRun) -> None:
    run = replace(make_run("a"), metrics=[{"steps": 6000, "violations": 2}])
    page = render([run, make_run("b", method="bare")])
    assert "Violations in episodes that had not ended, which the interval excludes: 2." in page
    assert "that had not ended" not in render([make_run("c")])


def test_seeds_are_one_row_and_listed_one_by_one(make_run: MakeRun) -> None:
    runs = [make_run(f"a{seed}", seed=seed, paid=float(seed), violate=40 * (seed == 0)) for seed in range(3)]
    page = render([*runs, make_run("bare", method="bare", violate=1)])
    (summary, single) = re.findall(r"<table>.*?</table>", page, flags=re.DOTALL)
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row, flags=re.DOTALL) for row in summary.split("<tr>")[2:]]
    assert [row[:2] for row in rows] == [["3", "1.00 ± 0.82"], ["1", "2.00"]]
    assert rows[0][4] == "3 of 360\n(0.172 to 2.42 %)", "violations of all seeds together"
    assert rows[1][3] == "0.83", "better than mase, without an interval of one run"
    assert len(single.split("<tr>")[2:]) == 4
    assert 'name="view"' in page
    assert 'name="view"' not in render([make_run("b", method="bare")]), "one run has no band"


def test_the_table_shows_the_cost_that_is_limited(make_run: MakeRun) -> None:
    every_step = make_run("a", constraint="instantaneous", limit=0.3, quantifier="known", violate=3)
    page = render([every_step])
    headings = re.findall(r'<th scope="col">(.*?)</th>', page)
    assert "Max step cost" in headings and "Max cost" not in headings
    assert '<td data-label="Max step cost">2</td>' in page
    assert "for a margin, how far it fell below 0" in page
    both = render([every_step, make_run("b", method="bare")])
    assert re.findall(r'<td data-label="Max cost">(.*?)</td>', both) == ["-", "1"]
    assert re.findall(r'<td data-label="Max step cost">(.*?)</td>', both) == ["2", "-"]
    assert "for a margin" not in render([make_run("c")])


def test_runs_without_an_episode_are_reported(make_run: MakeRun) -> None:
    page = render([make_run("a", episodes=0), make_run("b", episodes=0, status="", method="bare")])
    assert "mase has no finished episode; bare has no finished episode" in page
    headings = re.findall(r'<th scope="col">(.*?)</th>', page)
    assert "Return" in headings
    assert not {"IQM", "Better", "Coverage"} & set(headings), "nobody has these"


def test_tasks_are_apart(make_run: MakeRun) -> None:
    page = render([make_run("a"), make_run("b", task="safexp/PlanarRobotDiscrete-v0")])
    assert len(Elements(page).data) == 2 * (7 + 1)
    assert page.count('<h3 class="task">') == 2 * 2


def test_a_reference_that_is_not_there_is_refused(make_run: MakeRun) -> None:
    with pytest.raises(ValueError, match="--reference ppo: there is no such method; expected one of mase"):
        render([make_run("a")], reference="ppo")


def test_the_file_is_written_whole(make_run: MakeRun, tmp_path: Path) -> None:
    write_report(tmp_path / "deep" / "report.html", [make_run("a")])
    assert (tmp_path / "deep" / "report.html").read_text().rstrip().endswith("</html>")
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["report.html"]


def test_violations_after_stops_have_a_column_of_their_own(make_run: MakeRun) -> None:
    page = render([make_run("a", after_stops=3), make_run("b", seed=1, after_stops=0)])
    assert "3 of 40 stops" in page
    assert "and after 3 of 40 stops" in page
    assert "After stops: episodes that kept the constraint until they were stopped" in page
    assert "taken to be free" not in page


def test_stops_that_nobody_judged_are_said_to_be_taken_as_free(make_run: MakeRun) -> None:
    page = render([make_run("a")])
    assert "20 stops were taken to be free: what the machine did afterwards was not judged" in page
    assert "After stops" not in page
    assert "taken to be free" not in render([make_run("b", episodes=0)])
