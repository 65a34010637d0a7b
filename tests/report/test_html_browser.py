"""The report in a browser; Debian's package `chromium` is enough."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser

from safexp.report.html import write_report
from safexp.runs.folder import Run
from safexp.runs.trajectories import Trajectories, Trajectory
from safexp.tasks.scene import Floor
from support import browser
from support.browser import Window, window
from support.run_folders import maker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(browser.PROGRAM is None, reason="no chromium here: apt-get install chromium"),
]

FLOOR = Floor(extent=1.5, goal=(1.1, 1.1), goal_radius=0.3, hazards=((0.0, 0.0),), hazard_radius=0.7)
WAY = Trajectory(0, "stopped", FLOOR, np.linspace([-1, -1], [1, -1], 5))
FIGURES = 2 * 7 + 2 + 2
"""Curves on two tasks, a pair of maps, and the bars of the time on both."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.chromium() as opened:
        yield opened


@pytest.fixture
def page(chromium: Browser) -> Iterator[Window]:
    with window(chromium) as opened:
        yield opened


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("report")
    make_run = maker(place)
    other = "safexp/PlanarRobotDiscrete-v0"
    runs: list[Run] = [
        *(make_run(f"a{seed}", seed=seed, paid=float(seed), ways=Trajectories((WAY,), (WAY,))) for seed in range(3)),
        *(make_run(f"b{seed}", seed=seed, method="bare", violate=2) for seed in range(2)),
        make_run("<i>a rather long name of a run & its folder</i>", task=other),
        make_run("bare", method="bare", task=other, violate=1),
    ]
    write_report(place / "report.html", runs, ["c does not exist."])
    return place / "report.html"


def shown(page: Window, name: str) -> list[int]:
    """How many lines of this name are drawn in each of the curves."""
    count = f"plot._fullData.filter(trace => trace.name === '{name}' && trace.visible === true).length"
    return list(page.value(f"[...document.querySelectorAll('.curve .plot')].map(plot => {count})"))


def click_legend(page: Window, name: str) -> None:
    """Click on a name in the first legend, and wait as long as Plotly waits for a second click."""
    page.click(page.find(".curve .plot").first.locator(".legend .traces", has_text=name).locator(".legendtoggle"))
    page.value("new Promise(done => setTimeout(done, 600))")


def test_every_figure_is_drawn_and_nothing_complains(page: Window, report: Path) -> None:
    page.open(report)
    assert page.value("document.querySelectorAll('.plot').length") == FIGURES
    sizes = page.value(
        "[...document.querySelectorAll('.plot .main-svg:first-child')].map(svg => svg.getBoundingClientRect().width)"
    )
    assert len(sizes) == FIGURES
    assert min(sizes) > 300
    assert page.value("document.querySelectorAll('.plot .scatterlayer .trace').length") > 2 * FIGURES
    assert page.value("document.querySelectorAll('.barlayer .point path').length") > 0
    assert page.problems == []


def test_a_click_on_a_legend_hides_a_method_everywhere_and_shows_it_again(page: Window, report: Path) -> None:
    page.open(report)
    assert shown(page, "bare") == [1] * 14
    for expected in (0, 1):
        click_legend(page, "bare")
        assert shown(page, "bare") == [expected] * 14
        assert shown(page, "mase") == [1] * 14
    assert page.problems == []


def test_axes_and_bands_can_be_chosen(page: Window, report: Path) -> None:
    page.open(report)
    returns, costs = (f"[...document.querySelectorAll('.curve .plot')][{index}]" for index in (0, 1))
    mean = page.value(f"{returns}._fullData.find(trace => trace.name === 'mase').y[0]")
    page.click(page.find("input[value=middle]").first)
    page.click(page.find("input[name=values]").first)
    page.settle()
    assert page.value(f"{returns}._fullLayout.yaxis.type") == "linear", "returns can be negative"
    assert page.value(f"{costs}._fullLayout.yaxis.type") == "log"
    band = f"{returns}._fullData.find(trace => trace.fill === 'toself')"
    assert page.value(f"{band}.y[0] === {band}.meta.middle[0] && {band}.y[0] !== {band}.meta.mean[0]")
    stops = "[...document.querySelectorAll('.curve .plot')][3]"
    assert page.value(f"Math.min(...{stops}._fullData[0].y)") == 0.001, "drawn at the floor, not left out"
    page.click(page.find("input[value=mean]").first)
    page.click(page.find("input[name=values]").first)
    page.click(page.find("input[name=steps]").first)
    assert page.value(f"{costs}._fullLayout.yaxis.type") == "linear"
    assert page.value(f"{costs}._fullLayout.xaxis.type") == "log"
    assert page.value(f"{returns}._fullData.find(trace => trace.name === 'mase').y[0]") == mean
    assert page.problems == []


def test_what_is_never_negative_begins_at_0(page: Window, report: Path) -> None:
    page.open(report)
    violations = "[...document.querySelectorAll('.curve .plot')][4]"
    low, high = page.value(f"{violations}._fullLayout.yaxis.range")
    assert -0.06 * high < low < 0 and high > 50
    click_legend(page, "bare")
    assert page.value(f"{violations}._fullLayout.yaxis.range") == [-0.04, 1], "mase has nothing but zeros"
    assert page.problems == []


def test_names_fit_into_their_panels(chromium: Browser, report: Path) -> None:
    make_run = maker(report.parent / "long")
    runs = [make_run(f"{k}", learner_options={"a setting with a rather long name": f"number {k}"}) for k in range(2)]
    write_report(report.parent / "long.html", runs)
    with window(chromium, 390) as page:
        page.open(report.parent / "long.html")
        over = page.value(
            "[...document.querySelectorAll('.curve .plot')].map(plot => plot.getBoundingClientRect().right - "
            "Math.max(...[...plot.querySelectorAll('.legendtext')].map(text => text.getBoundingClientRect().right)))"
        )
    assert len(over) == 7 and min(over) >= 0


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_window(chromium: Browser, report: Path, width: int) -> None:
    with window(chromium, width) as page:
        page.open(report)
        page.value("document.querySelectorAll('details').forEach(one => one.open = true)")
        page.settle()
        assert page.value("document.documentElement.scrollWidth") <= width
        wide = page.value(
            "[...document.querySelectorAll('.plot')].filter(plot => plot.scrollWidth > plot.clientWidth + 1).length"
        )
        assert wide == 0
        assert page.problems == []


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("nothing.here", "raised nothing is not defined"),
        ("console.error('bad')", "error: bad"),
        ("fetch('http://127.0.0.1:9').catch(() => 0)", "asked for http://127.0.0.1:9/"),
    ],
    ids=["exception", "message", "request"],
)
def test_what_a_page_does_wrong_is_seen(page: Window, tmp_path: Path, script: str, problem: str) -> None:
    (tmp_path / "page.html").write_text(f"<!doctype html><script>{script}</script>")
    page.open(tmp_path / "page.html")
    assert page.problems[0] == problem
