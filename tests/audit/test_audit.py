"""Audits: what they count, that every episode can be played again, and what they say of themselves."""

from __future__ import annotations

import dataclasses
import json
import shutil

import numpy as np
import pytest

from safexp.audit.audit import WIDTH, audit, replay
from safexp.audit.results import Drilled, assumptions, risk_of
from safexp.cli import main
from safexp.quantifiers import Known, Transitions, Unknown
from safexp.records.coverage import FACTORS, Calibration, calibration
from safexp.records.episodes import Episode
from safexp.report.audit import numbers, render, verdict
from safexp.runs.config import RunConfig
from safexp.runs.evaluate import FirstEpisodes
from safexp.runs.run import run
from support import trolley

FIRST, EPISODES = 2 * WIDTH - 30, 50


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Run folders of tiny trainings: MASE under a budget that the bare policy breaks, and a bare learner."""
    folder = tmp_path_factory.mktemp("runs")
    tiny = {"num_envs": 4, "steps": 64, "learner_options": {"n_steps": 16, "batch_size": 32}}
    for method, task in [("mase", "PlanarRobot"), ("bare", "PlanarRobot"), ("mase", "PointGoalStatic")]:
        task = f"safexp/{task}-v0"
        limit = 20.0 if "Goal" in task else 1.5
        name = method if limit == 1.5 else "goal"
        run(RunConfig(out=folder / name, method=method, task=task, limit=limit, **tiny))
    return folder


@pytest.fixture(scope="module")
def found(trained):
    return audit(trained / "mase", EPISODES, FIRST, max_risk=0.06)


def test_the_risk_is_that_of_the_episodes(found, trained):
    assert (found.risk.episodes, found.risk.violations) == (EPISODES, 0)
    assert found.risk.upper == pytest.approx(1 - 0.05 ** (1 / EPISODES))
    assert found.passed
    assert not dataclasses.replace(found, max_risk=0.05).passed
    bare = audit(trained / "mase", EPISODES, FIRST, shielded=False)
    assert not bare.shielded
    assert bare.stops == bare.interventions == bare.takeovers == 0
    assert bare.risk.violations > 0
    assert bare.risk.two_sided[0] < bare.risk.violations / EPISODES < bare.risk.two_sided[1]
    assert bare.risk.lower <= bare.risk.violations / EPISODES <= bare.risk.upper
    assert bare.worst[0].episode.violated
    assert bare.worst[0].episode.cost == bare.max_cost


def test_the_risk_without_the_shield_is_beside_the_one_with_it(trained, found, tmp_path, capsys):
    words = ["audit", str(trained / "mase"), "--episodes", str(EPISODES), "--seed", str(FIRST), "--max-risk", "0.06"]
    page = tmp_path / "page.html"
    assert main([*words, "--unshielded", "--json", "--out", str(page)]) == 0
    told = json.loads(capsys.readouterr().out)
    bare = audit(trained / "mase", EPISODES, FIRST, shielded=False)
    assert told["risk"]["violations"] == 0
    assert told["unshielded"]["risk"]["violations"] == bare.risk.violations > 0
    assert told["unshielded"]["mean_return"] == bare.mean_return
    assert f"{bare.risk.violations} of {EPISODES} episodes violated, risk" in page.read_text()
    assert found.unshielded is None
    assert found.own_actions == bare.own_actions == 1.0, "Unknown certifies all or nothing"
    with pytest.raises(ValueError, match="--no-shield plays without the shield, and --unshielded adds that"):
        audit(trained / "mase", 1, shielded=False, unshielded=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mase", "bare", "goal"])
def test_every_episode_can_be_played_again_by_its_seed(trained, name):
    told = []
    found = audit(trained / name, EPISODES, FIRST, tell=told.append)  # from two blocks, neither of them whole
    assert {one.seed // WIDTH for one in found.worst} <= {FIRST // WIDTH, FIRST // WIDTH + 1}
    assert all(FIRST <= one.seed < FIRST + EPISODES for one in found.worst)
    latest = max(found.worst)
    again = replay(trained / name, latest.seed)
    unnumbered = {"episode": 0, "end_step": 0}
    assert again.episode._replace(**unnumbered) == latest.episode._replace(**unnumbered)
    assert [line.split(",")[0] for line in told] == ["30 of 50 episodes", "50 of 50 episodes"]


def test_audits_with_common_seeds_share_their_episodes(trained, found):
    wider = audit(trained / "mase", EPISODES + 10, FIRST - 5)
    assert wider.max_cost >= found.max_cost
    one = found.worst[0]
    assert replay(trained / "mase", one.seed).episode.cost == one.episode.cost


def test_an_agent_file_needs_a_task_and_a_policy_without_a_shield_its_folder(trained, found, tmp_path):
    for name in ("mase", "bare"):
        shutil.copy(trained / name / "agent.safexp", tmp_path / f"{name}.safexp")
    with pytest.raises(ValueError, match="does not record the task it was trained on: give --task"):
        audit(tmp_path / "mase.safexp")
    same = audit(tmp_path / "mase.safexp", EPISODES, FIRST, task="safexp/PlanarRobot-v0")
    assert (same.risk, same.worst, same.shift) == (found.risk, found.worst, found.shift)
    assert audit(trained / "mase" / "agent.safexp", 1, FIRST).task == "safexp/PlanarRobot-v0"
    with pytest.raises(ValueError, match="holds a policy without its constraint"):
        audit(tmp_path / "bare.safexp", task="safexp/PlanarRobot-v0")
    for name in ("mase", "bare"):
        with pytest.raises(ValueError, match="was saved for"):
            audit(trained / name, 1, task="safexp/PointGoalStatic-v0")


@pytest.mark.parametrize("wrong", [{"episodes": 0}, {"first_seed": -1}, {"max_risk": 1.5}])
def test_wrong_numbers_are_named(trained, wrong):
    with pytest.raises(ValueError, match=f"{wrong.get('max_risk', next(iter(wrong.values())))}"):
        audit(trained / "mase", **wrong)


def test_what_is_known_of_the_quantifier_and_the_inputs(found, trained):
    assert found.accuracy.counts.rows == found.accuracy.counts.vacuous > 0, "Unknown says nothing"
    assert found.accuracy.calibration.rows == 0
    assert found.shift.trained == 64
    assert 0 <= found.shift.outside <= 1
    distances = [one.distance for one in found.shift.most]
    assert distances == sorted(distances, reverse=True)
    assert found.latency.p99_us >= found.latency.p50_us > 0
    bare = audit(trained / "bare", 1, FIRST)
    assert bare.accuracy is bare.shift is None


@pytest.mark.slow
@pytest.mark.parametrize("hold", [[0], [0, 3]])
def test_a_certificate_that_looks_ahead_is_audited_on_a_signal_of_the_info(hold, tmp_path):
    options = {"hold": hold, "drills": 0.4}
    ahead = audit(trolley.trained(tmp_path / "run", steps=512, backup_options=options), 20, FIRST)
    assert ahead.risk.episodes == 20
    assert ahead.latency.decisions > 0
    assert {one.name for one in ahead.shift.most} == {"s0", "s1", "reach", "a0"}
    assert ahead.accuracy is None
    assert ahead.drills.judged > 0
    assert [one.clearance for one in ahead.worst] == sorted(one.clearance for one in ahead.worst)
    assert 0 <= ahead.worst[0].clearance < 2


def test_drills_stand_for_coverage_and_a_backup_for_stops(found):
    held = dataclasses.replace(found, drills=Drilled(12, 3), stops=0)
    assert "not single steps; in training 3 of 12 missed it" in numbers(held)["coverage"]
    assert "in training none was held" in numbers(dataclasses.replace(held, drills=Drilled(0, 0)))["coverage"]
    assert any("the backup drove, and its steps were judged" in line for line in assumptions(held))
    assert not any("A stop was taken to be free" in line for line in assumptions(held))
    stopped = dataclasses.replace(held, stops=1)
    assert any("A stop was taken to be free" in line for line in assumptions(stopped))


def test_calibration_counts_only_widths_that_say_something():
    costs = np.array([0.5, 0.52, 0.56, 0.61, 0.75])
    data = Transitions(np.zeros((5, 1)), np.zeros((5, 1)), costs)
    assert FACTORS == (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
    says = Known(lambda states, actions: np.full(len(states), 0.5), 0.1)
    assert calibration(says, data) == Calibration(5, (2, 2, 3, 3, 4, 4))
    assert calibration(Unknown(), data) == Calibration(0, (0,) * 6)


def test_a_path_that_is_watched_ends_at_the_anytime_interval():
    risk = risk_of([False] * 20 + [True] + [False] * 19)
    assert len(risk.path) == 40
    assert risk.path[-1] == risk.anytime[1] > risk.upper
    assert risk.path[20] > risk.path[19]


def test_an_episode_counts_from_its_beginning_and_once():
    first, rows = FirstEpisodes(2), np.array([True, False])
    cut, ended, next_one = (Episode(k, 0, 0, 0.0, 0.0, 0.0, 0.0, False, False, 0) for k in range(3))
    first.end(0, cut)  # a reset ends what was running before
    first.begin(rows)
    first.end(0, ended)
    first.end(0, next_one)
    assert first.episodes == {0: ended}


def test_the_page_escapes_and_says_under_what_it_holds(found):
    page = render(dataclasses.replace(found, checkpoint="<script>alert(1)</script>", task="a & b"))
    assert "<script>" not in page
    assert "a &amp; b" in page
    assert verdict(found) in page
    assert "Episodes are independent draws" in page
    assert page.count("<polyline") == 1
    assert f"--replay {found.worst[0].seed}" in page


def test_the_command_prints_writes_and_ends_with_the_verdict(trained, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [str(trained / "mase"), "--episodes", "40", "--seed", "1000"]
    assert main(["audit", *words, "--max-risk", "0.1"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("0 of 40 episodes violated the constraint: the risk is shown to be at most 10 %")
    assert "this holds if:" in printed.out
    assert "40 of 40 episodes, 0 violations" in printed.err
    assert "Violation rate" in (tmp_path / "audit.html").read_text()
    assert main(["audit", *words]) == 1, "40 episodes cannot show a risk of 1 %"
    assert capsys.readouterr().out.splitlines()[-1] == "page: audit-2.html"
    assert "at most 10 %" in (tmp_path / "audit.html").read_text()
    assert "at most 1 %" in (tmp_path / "audit-2.html").read_text()
    assert main(["audit", *words, "--no-shield", "--json", "--out", "bare.html"]) == 1
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert printed.err.splitlines()[-1] == "page: bare.html"
    assert document["shielded"] is document["passed"] is False
    assert document["risk"]["violations"] > 0
    assert "0 violations" not in (tmp_path / "bare.html").read_text()
    before = (tmp_path / "bare.html").read_bytes()
    assert main(["audit", *words, "--out", "bare.html"]) == 2
    printed = capsys.readouterr().err
    assert "bare.html exists already" in printed
    assert "episodes" not in printed, "nothing was played in vain"
    assert (tmp_path / "bare.html").read_bytes() == before
    worst = document["worst"][0]
    assert main(["audit", *words, "--no-shield", "--json", "--replay", str(worst["seed"])]) == 0
    (again,) = json.loads(capsys.readouterr().out)
    assert again["cost"] == worst["cost"]
    assert main(["audit", str(tmp_path)]) == 2
    assert "has no config.json" in capsys.readouterr().err
