"""Finished runs of the study are kept, each once, with the commit that made them."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import pytest

from safexp.cli import main
from safexp.runs import folder as run_folder
from safexp.runs.config import RunConfig
from safexp.runs.load import load
from safexp.runs.run import run
from safexp.studies.safety_gym import export as exporting
from safexp.studies.safety_gym.export import commit_of, export, identify
from safexp.studies.safety_gym.results import read_results
from safexp.studies.safety_gym.study import SafetyGymStudy


@pytest.fixture
def runs(study_runs, tmp_path):
    """Copies of the short runs, which do not know who made them."""
    folder = shutil.copytree(study_runs, tmp_path / "runs")
    for name in ("point-trpo-1000", "point-mase-1000"):
        edit(folder / name, lambda document: document["versions"].pop("commit", None))
    return folder


def edit(folder, change):
    path = folder / run_folder.CONFIG
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.slow
def test_what_has_finished_is_kept_once(runs, tmp_path, capsys):
    (runs / "point-trpo-1000" / run_folder.TIMING).unlink()
    words = ["reproduce", "safety-gym-results", str(runs), "--into", str(tmp_path / "kept"), "--evaluation", "2"]
    words += ["--agents", str(tmp_path / "agents")]
    edit(runs / "point-mase-1000", lambda document: document["versions"].update(commit="abc"))
    assert main(words) == 0
    told = capsys.readouterr()
    assert "point-trpo-1000: unfinished, left out" in told.err
    assert told.out == f"1 new or longer runs in {tmp_path / 'kept'}\n"
    (result,) = read_results(tmp_path / "kept").values()
    assert (result.name, list(result.lines), result.lines[2].commit) == ("point-mase-1000", [2], "abc")
    assert result.lines[2].deterministic is not None
    files = [tmp_path / "kept" / "summary.csv", tmp_path / "agents" / "point-goal-static-mase.safexp"]
    before = [file.stat().st_mtime_ns for file in files]
    assert main(words) == 0
    assert "point-mase-1000: there already" in capsys.readouterr().err
    assert [file.stat().st_mtime_ns for file in files] == before
    files[1].unlink()
    assert main(words) == 0
    agent = load(files[1])
    assert (agent.envs.num_envs, agent.shield is not None) == (1, True)
    agent.envs.close()


def test_the_agent_of_the_first_seed_is_kept(tmp_path, monkeypatch):
    file, written = tmp_path / "agent.safexp", []

    def write(folder, path):
        written.append(folder.name)
        path.write_text(folder.name)

    monkeypatch.setattr(exporting, "write_agent", write)
    monkeypatch.setattr(exporting, "described", lambda path: (path, RunConfig(seed=int(path.read_text()))))
    for seed, longer in [(1001, True), (1002, True), (1000, True), (1000, False), (1001, True), (1000, True)]:
        run_of = SimpleNamespace(path=tmp_path / str(seed), config=RunConfig(seed=seed))
        exporting.export_agent(run_of, file, longer=longer)
    assert written == ["1001", "1000", "1000"]


@pytest.mark.slow
def test_an_extended_run_keeps_the_line_that_it_had(runs, tmp_path):
    kept = tmp_path / "kept"
    mase = runs / "point-mase-1000"
    export([mase], kept, commit="abc", evaluation=2, tell=lambda line: None)
    (short,) = read_results(kept).values()
    longer = SafetyGymStudy(epochs=4, budget=2.0, out=runs).config("point", "mase", 1000)
    run(longer, resume=True)
    assert export([mase], kept, commit="abc", evaluation=2, tell=lambda line: None) == 1
    (result,) = read_results(kept).values()
    assert list(result.lines) == [2, 4]
    assert result.lines[2] == short.lines[2]
    assert result.metrics[:2] == short.metrics
    assert len(result.metrics) == 4


@pytest.mark.slow
def test_another_run_in_its_place_replaces_all_of_it(runs, tmp_path):
    kept = tmp_path / "kept"
    mase = runs / "point-mase-1000"
    export([mase], kept, commit="abc", evaluation=2, tell=lambda line: None)
    lines = [json.loads(line) for line in (mase / run_folder.METRICS).read_text().splitlines()]
    lines[1]["mean_length"] += 1.0
    (mase / run_folder.METRICS).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert export([mase], kept, commit="def", evaluation=2, tell=lambda line: None) == 1
    (result,) = read_results(kept).values()
    assert [line.commit for line in result.lines.values()] == ["def"]


@pytest.mark.slow
def test_runs_of_other_settings_or_names_are_refused(runs):
    mase = runs / "point-mase-1000"
    assert identify(run_folder.read(mase)) == ("point", "mase")
    named = mase.rename(runs / "my-run")
    with pytest.raises(ValueError, match=r"is not named as the study names its runs, such as point-mase-1000"):
        identify(run_folder.read(named))
    mase = named.rename(mase)
    edit(mase, lambda document: document["config"].update(penalty=3.0))
    with pytest.raises(ValueError, match=r"called 'mase' and has other settings than the study's \(penalty 3.0, not 2"):
        identify(run_folder.read(mase))


@pytest.mark.slow
def test_tasks_by_their_ids_and_entries_of_ones_own_are_recognised(runs):
    def change(document):
        document["config"].update(task="safexp/CarGoal1-v0", limit=25.0, penalty=0.5)

    mase = runs / "point-mase-1000"
    edit(mase, change)
    folder = mase.rename(runs / "safexp-CarGoal1-v0-my_package-MINE-1000")
    assert identify(run_folder.read(folder)) == ("safexp/CarGoal1-v0", "my_package-MINE")


@pytest.mark.slow
def test_somebody_must_say_which_commit_it_was(runs):
    mase = runs / "point-mase-1000"

    def found(commits, given):
        edit(mase, lambda document: document["versions"].update(commit=commits))
        return commit_of(run_folder.read(mase), given)

    assert found("abc", None) == found("abc", "def") == "abc"
    assert found("unknown abc", "def") == "def abc"
    with pytest.raises(ValueError, match=r"does not say which commit made it: give --commit"):
        found("unknown abc", None)
    edit(mase, lambda document: document["versions"].pop("commit"))
    assert commit_of(run_folder.read(mase), "def") == "def"
    with pytest.raises(ValueError, match="give --commit"):
        commit_of(run_folder.read(mase), None)


def test_nothing_to_keep_is_said(capsys):
    assert main(["reproduce", "safety-gym-results"]) == 2
    assert "nothing to keep: give one or more run folders" in capsys.readouterr().err
