import csv
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from safexp.report.curves import CURVES, MAX_COST, RETURN, spread
from safexp.report.figures import FORMATS, Look, converged, draw_converged, draw_curves, write_figures
from safexp.report.groups import by_task, group_runs
from safexp.report.plots import styles
from safexp.report.tables import write_tables
from safexp.runs.folder import Run
from support.run_folders import MakeRun


@pytest.fixture
def runs(make_run: MakeRun) -> list[Run]:
    other = "safexp/PlanarRobotDiscrete-v0"
    return [
        *(make_run(f"a{seed}", seed=seed, paid=float(seed)) for seed in range(3)),
        make_run("bare", method="bare", violate=3),
        make_run("elsewhere", task=other, status=""),
        make_run("empty", task=other, method="bare", episodes=0, status=""),
    ]


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.mark.slow
def test_figures_are_written_alike_in_every_format(runs: list[Run], tmp_path: Path) -> None:
    paths = write_figures(tmp_path / "first", runs[-2:])
    assert [path.name for path in paths] == [f"{name}.{kind}" for name in ("curves", "converged") for kind in FORMATS]
    again = write_figures(tmp_path / "again", runs[-2:])
    assert all(one.read_bytes() == other.read_bytes() for one, other in zip(paths, again, strict=True))
    picture = Image.open(paths[0]).convert("L")
    assert min(picture.size) > 500
    assert len(set(picture.resize((200, 200)).tobytes())) > 20, "not blank"


def test_curves_are_the_paper_s_rows_by_tasks(runs: list[Run]) -> None:
    tasks = by_task(group_runs(runs))
    figure = draw_curves(tasks, styles(group_runs(runs)))
    returns, elsewhere, costs, *_ = figure.axes
    assert len(figure.axes) == 3 * 2
    assert [" ".join(axes.get_ylabel().split()) for axes in figure.axes[::2]] == [
        *("Average episode return", "Average episode cost", "Maximum episode cost")
    ]
    mase, bare = returns.lines
    assert list(mase.get_ydata()) == spread(tasks[runs[0].config.task][0], RETURN).mean.tolist()
    assert mase.get_linestyle() != bare.get_linestyle()
    assert len(returns.collections) == 1, "one seed has no band"
    assert [list(line.get_ydata()) for line in costs.lines if line.get_label() == "limit 3"] == [[3.0, 3.0]]
    assert len(elsewhere.lines) == 1, "a run without an episode has no curve"
    assert [text.get_text() for text in figure.legends[0].texts] == ["mase", "bare", "limit 3"]


def test_each_cost_is_drawn_of_the_groups_that_limit_it(make_run: MakeRun) -> None:
    every_step = {"constraint": "instantaneous", "limit": 0.3, "quantifier": "known"}
    groups = group_runs([make_run("a", method="bare"), make_run("b", violate=3, **every_step)])
    tasks = by_task(groups)
    curves, boxes = draw_curves(tasks, styles(groups)), draw_converged(tasks, styles(groups))
    assert [" ".join(axes.get_ylabel().split()) for axes in curves.axes] == [
        *("Average episode return", "Average episode cost", "Maximum episode cost"),
        *("Average largest step cost", "Maximum step cost"),
    ]
    assert [[line.get_label() for line in axes.lines] for axes in curves.axes[2::2]] == [
        ["bare", "limit 3"],
        ["mase", "limit 0.3"],
    ]
    medians = [[list(line.get_ydata()) for line in axes.lines] for axes in boxes.axes[2::2]]
    assert [1.0, 1.0] in medians[0] and [2.0, 2.0] not in medians[0]
    assert [2.0, 2.0] in medians[1] and [0.3, 0.3] in medians[1]
    (alone,) = by_task(groups[1:]).values()
    assert len(draw_curves({"a task": alone}, styles(groups)).axes) == 3


@pytest.mark.slow
def test_a_name_is_no_formula(make_run: MakeRun, tmp_path: Path) -> None:
    runs = [make_run("a", task_options={"x": "$\\frac"}), make_run("b", task_options={"x": "$\\frac"}, limit=7.0)]
    runs = [replace(run, config=replace(run.config, learner_options={"y": "$_{$"})) for run in runs]
    assert all(path.stat().st_size for path in write_figures(tmp_path / "figures", runs))


def test_converged_is_the_last_tenth_of_the_epochs_of_finished_runs(make_run: MakeRun) -> None:
    runs = [make_run("a", seed=0, episodes=300, violate=299), make_run("b", seed=1, episodes=20, paid=9.0, status="")]
    (group,) = group_runs(runs)
    assert converged(group, RETURN) == [2.0, 2.0], "two of fifteen epochs"
    assert converged(group, MAX_COST) == [1.0, 4.0]
    costs = draw_converged({"a task": [group]}, {"mase": 0}).axes[2]
    assert [2.5, 2.5] in [list(line.get_ydata()) for line in costs.lines], "the median"
    assert [3.0, 3.0] in [list(line.get_ydata()) for line in costs.lines], "the limit"


def test_tables_have_a_row_for_every_run_group_and_epoch(runs: list[Run], tmp_path: Path) -> None:
    each, groups, curves = map(rows_of, write_tables(tmp_path / "tables", runs))
    assert [row["run"] for row in each] == ["a0", "a1", "a2", "bare", "elsewhere", "empty"]
    assert [(row["seed"], row["final_return"], row["seconds_in_physics"]) for row in each[:2]] == [
        ("0", "0.0", "2.0"),
        ("1", "1.0", "2.0"),
    ]
    assert [row["status"] for row in each[-2:]] == ["unfinished", "unfinished"]
    assert [(row["group"], row["runs"], row["violations"]) for row in groups[:2]] == [
        ("mase", "3", "0"),
        ("bare", "1", "40"),
    ]
    assert groups[1]["reference"] == "mase"
    assert float(groups[1]["better"]) == pytest.approx(2.5 / 3), "2 against 0, 1 and a tie"
    assert groups[1]["better_interval_low"] == "", "one run has no interval"
    returns = [row for row in curves if row["metric"] == "mean_return" and row["group"] == "mase"]
    assert [row["steps"] for row in returns[:6]] == ["1000", "2000", "3000", "4000", "5000", "6000"]
    assert returns[0]["mean"] == "1.0"
    assert {row["metric"] for row in curves} == {curve.key for curve in CURVES}


def texts_of(figure):
    """All texts of a figure that are drawn, with their boxes in pixels; ticks beyond the ends of an axis are not."""
    figure.canvas.draw()
    texts = [*figure.texts, *(text for legend in figure.legends for text in legend.texts)]
    for axes in figure.axes:
        texts += [axes.title, axes.xaxis.label, axes.yaxis.label]
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            texts += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    shown = [text for text in texts if text.get_visible() and text.get_text().strip()]
    return [(text.get_text(), text.get_window_extent()) for text in shown]


@pytest.mark.slow
@pytest.mark.parametrize(("width", "font", "tasks"), [(3.3, 7.0, 1), (3.3, 10.0, 2), (6.75, 9.0, 2)])
def test_labels_do_not_overlap_at_any_width(make_run: MakeRun, width, font, tasks) -> None:
    names = ["PPO alone", "ours, with a backup controller and a long name", "TRPO-Lagrangian", "MASE"]
    options = [{"task": "safexp/PlanarRobot-v0"}, {"task": "safexp/PlanarRobotDiscrete-v0"}][:tasks]
    runs = [make_run(f"{i}{k}", name=name, **task) for i, name in enumerate(names) for k, task in enumerate(options)]
    groups = group_runs(runs)
    look = Look(width, font)
    for figure in (
        draw_curves(by_task(groups), styles(groups), look=look),
        draw_converged(by_task(groups), styles(groups), look=look),
    ):
        if width is not None:
            assert figure.get_figwidth() == width
        FigureCanvasAgg(figure)
        boxes = texts_of(figure)
        inner = [(text, box.padded(-1)) for text, box in boxes]
        pairs = [(a, b) for i, (a, x) in enumerate(inner) for b, y in inner[i + 1 :] if x.overlaps(y)]
        assert pairs == []
        outside = [text for text, box in boxes if box.x0 < -1 or box.x1 > figure.bbox.width + 1]
        assert outside == []


def test_panels_are_chosen_by_name(make_run: MakeRun) -> None:
    groups = group_runs([make_run("a"), make_run("b", method="bare")])
    figure = draw_curves(by_task(groups), styles(groups), look=Look(panels=("violations", "return")))
    assert [axes.get_ylabel().replace("\n", " ") for axes in figure.axes] == [
        "Violations so far",
        "Average episode return",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"panels": ("speed",)}, "there is no panel 'speed': use return, cost"),
        ({"width": 0.0}, "width=0 must be a width in inches"),
        ({"font": 0.5}, "font=0.5 must be a font size"),
    ],
)
def test_a_look_that_is_impossible_is_refused(options, message) -> None:
    with pytest.raises(ValueError, match=message):
        Look(**options)
