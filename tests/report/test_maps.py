import json
from dataclasses import replace

import numpy as np

from safexp.report.html import render
from safexp.report.maps import PANELS, maps
from safexp.runs.trajectories import Ending, Trajectories, Trajectory
from safexp.tasks.scene import Floor
from support.html import Elements
from support.run_folders import MakeRun

FLOOR = Floor(extent=1.5, goal=(1.1, 1.1), goal_radius=0.3, hazards=((0.0, 0.0),), hazard_radius=0.7)


def way(number: int, ending: Ending = "kept", floor: Floor = FLOOR, reach: float = 1.0) -> Trajectory:
    return Trajectory(number, ending, floor, np.linspace([-1, -1], [reach, -1], 5))


EARLY = (way(0, "violated"), way(1, "stopped"), way(2, "stopped"), way(3))


def test_a_run_has_a_map_early_and_one_late(make_run: MakeRun) -> None:
    early, late = maps(make_run("a", ways=Trajectories(EARLY, (way(50),))), "a")
    assert (early.title, late.title) == ("a, early", "a, late")
    assert early.caption == (
        "The first 4 recorded episodes: 1 kept the constraint, 2 stopped in time, 1 broke the constraint."
    )
    assert late.summary == ("Map of the robot's paths, a, late. The last recorded episode: 1 kept the constraint.")
    assert [shape.name for shape in early.figure.layout.shapes] == ["hazard", "goal"]
    hazard = early.figure.layout.shapes[0]
    assert (hazard.x0, hazard.x1, hazard.y0, hazard.y1) == (-0.7, 0.7, -0.7, 0.7)
    assert early.figure.layout.yaxis.scaleanchor == "x"


def test_paths_are_drawn_by_how_they_ended(make_run: MakeRun) -> None:
    figure = maps(make_run("a", ways=Trajectories(EARLY)), "a")[0].figure
    drawn = {trace.legendgroup: trace for trace in figure.data if trace.mode == "lines"}
    assert set(drawn) == {"kept", "stopped", "violated"}
    assert len({trace.line.dash for trace in drawn.values()}) == 3, "told apart without colour"
    assert drawn["kept"].x == (-1.0, -0.5, 0.0, 0.5, 1.0, None)
    assert drawn["stopped"].y == (*[-1.0] * 5, None) * 2
    starts = [trace for trace in figure.data if trace.legendgroup == "start" and not trace.showlegend]
    assert starts[0].x == (-1.0, None) * 4


def test_the_legend_names_everything_once(make_run: MakeRun) -> None:
    floors = [replace(FLOOR, goal=(1.0, 0.1 * i)) for i in range(3)]
    figure = maps(make_run("a", ways=Trajectories(tuple(way(i, floor=floors[i]) for i in range(3)))), "a")[0].figure
    entries = [part.name for part in (*figure.data, *figure.layout.shapes) if part.showlegend]
    assert entries == ["kept", "stopped", "violated", "start", "hazard", "goal"]


def test_episodes_with_maps_of_their_own_are_drawn_apart(make_run: MakeRun) -> None:
    ways = tuple(way(i, floor=replace(FLOOR, goal=(1.0, 0.1 * i))) for i in range(6))
    early, late = maps(make_run("a", ways=Trajectories(ways, ways)), "a")
    assert "The first 4 recorded episodes" in early.caption
    assert "Each on its own map" in early.caption
    assert len(early.figure.layout.shapes) == 2 * PANELS
    goals = [shape for shape in late.figure.layout.shapes if shape.name == "goal"]
    assert [round((shape.y0 + shape.y1) / 2, 3) for shape in goals] == [0.2, 0.3, 0.4, 0.5]
    assert {shape.xref for shape in goals} == {"x", "x2", "x3", "x4"}


def test_a_map_reaches_as_far_as_its_paths_within_reason(make_run: MakeRun) -> None:
    for reach, expected in [(0.0, 1.68), (2.0, 2.24), (90.0, 3.0)]:
        figure = maps(make_run(f"{reach}", ways=Trajectories((way(0, reach=reach),))), "a")[0].figure
        assert np.allclose(figure.layout.xaxis.range, (-expected, expected))


def test_the_report_shows_the_maps(make_run: MakeRun) -> None:
    page = render([make_run("b"), make_run("a", seed=1, ways=Trajectories(EARLY, EARLY)), make_run("c", seed=2)])
    elements = Elements(page)
    assert len(elements.data) == 7 + 2 + 1
    assert all(json.loads(data)["data"] for data in elements.data)
    spoken = [attributes["aria-label"] for _, attributes in elements.found if attributes.get("role") == "img"]
    seen = [label for label in spoken if label and label.startswith("Map of the robot's paths, mase, seed 1,")]
    assert seen == spoken[7:9], "of the first run of a group that has one"


def test_without_trajectories_there_is_no_map(make_run: MakeRun) -> None:
    assert maps(make_run("a"), "a") == []
    assert "Trajectories" not in render([make_run("b")])
