from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from safexp.report.groups import group_runs, names
from safexp.runs.config import RunConfig
from support.run_folders import MakeRun


def test_runs_that_differ_in_their_seeds_alone_belong_together(make_run: MakeRun) -> None:
    other = {"task": "safexp/PlanarRobotDiscrete-v0"}
    runs = [
        make_run("a", seed=0),
        make_run("b", seed=0, method="bare"),
        make_run("c", seed=0, **other),
        make_run("d", seed=1),
    ]
    groups = group_runs(runs)
    assert [(group.task, group.name, [run.path.name for run in group.runs]) for group in groups] == [
        ("safexp/PlanarRobot-v0", "mase", ["a", "d"]),
        ("safexp/PlanarRobot-v0", "bare", ["b"]),
        ("safexp/PlanarRobotDiscrete-v0", "mase", ["c"]),
    ]


def test_a_seed_that_was_run_twice_is_not_counted_twice(make_run: MakeRun) -> None:
    runs = [make_run("a", seed=0), make_run("b", seed=1), make_run("again", seed=0)]
    assert [(group.name, [run.path.name for run in group.runs]) for group in group_runs(runs)] == [
        ("mase", ["a", "b"]),
        ("mase, run 2", ["again"]),
    ]


def test_options_of_a_task_make_another_task(make_run: MakeRun) -> None:
    groups = group_runs([make_run("a"), make_run("b", task_options={"cost": "margin"})])
    assert [group.task for group in groups] == ["safexp/PlanarRobot-v0", 'safexp/PlanarRobot-v0 {"cost": "margin"}']


def test_a_method_is_told_from_itself_by_what_differs() -> None:
    def config(**settings: Any) -> RunConfig:
        return RunConfig(**settings).settled()

    assert names([config(), config(method="bare", limit=5.0)]) == ["mase", "bare"]
    other = config(limit=5.0, seed=7)
    assert names([config(), other]) == ["mase (limit 3)", "mase (limit 5)"]
    assert names([config(), other, config(limit=5.0, penalty=2.5)]) == ["mase (limit 3)", "mase", "mase (penalty 2.5)"]
    with_kl = config(learner_options={"target_kl": 0.02})
    assert names([config(), with_kl]) == ["mase", "mase (target_kl 0.02)"]
    assert names([config(), config(), config()]) == ["mase", "mase, run 2", "mase, run 3"]


SETTINGS = st.fixed_dictionaries(
    {"limit": st.sampled_from([1.0, 2.0, 3.0]), "penalty": st.sampled_from([0.5, 2.0]), "steps": st.integers(1, 2)},
    optional={"learner_options": st.sampled_from([{"gamma": 0.9}, {"gamma": 0.8, "gae_lambda": 0.5}])},
)


@given(st.lists(SETTINGS, min_size=1, max_size=6))
def test_no_two_groups_have_the_same_name(each: list[dict[str, Any]]) -> None:
    found = names([RunConfig(**settings) for settings in each])
    assert len(set(found)) == len(each)


def test_only_finished_runs_are_trained_unless_there_are_none(make_run: MakeRun) -> None:
    finished, killed = make_run("a", seed=0), make_run("b", seed=1, status="")
    (both,), (alone,) = group_runs([finished, killed]), group_runs([killed])
    assert both.trained == (finished,)
    assert alone.trained == (killed,)


def test_a_setting_that_is_not_given_is_not_in_a_name(make_run: MakeRun) -> None:
    every_step = {"quantifier": "known", "constraint": "instantaneous", "limit": 0.5}
    runs = [make_run("a", **every_step), make_run("b", quantifier="known", constraint="margin")]
    assert [group.name for group in group_runs(runs)] == [
        "mase (constraint instantaneous, limit 0.5)",
        "mase (constraint margin)",
    ]


def test_a_name_of_ones_own_names_the_group(make_run: MakeRun) -> None:
    runs = [
        make_run("a", method="bare", name="PPO alone"),
        make_run("b", penalty=2.0, name="ours"),
        make_run("c", penalty=2.0, name="ours", seed=1),
        make_run("d", penalty=3.0),
    ]
    assert [(group.name, len(group.runs)) for group in group_runs(runs)] == [("PPO alone", 1), ("ours", 2), ("mase", 1)]
    twice = [make_run("e", penalty=2.0, name="one"), make_run("f", penalty=3.0, name="one")]
    assert [group.name for group in group_runs(twice)] == ["one (penalty 2)", "one (penalty 3)"]
