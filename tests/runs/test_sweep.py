"""Many runs: what is finished is kept, what is not goes on, and what fails or is killed does not stop the others."""

from __future__ import annotations

import io
import json
import multiprocessing
import subprocess
import sys
import time

import pytest
from rich.console import Console

from safexp.report.watch import Watch
from safexp.runs import folder as run_folder
from safexp.runs.config import RunConfig
from safexp.runs.evaluate import evaluate
from safexp.runs.run import run
from safexp.runs.sweep import RunOutcome, run_one, sweep


def tiny(folder, **options):
    learner = {"n_steps": 16, "batch_size": 32}
    return RunConfig(num_envs=4, learner_options=learner, **{"out": folder, "steps": 64, **options})


@pytest.mark.slow
def test_every_run_has_its_outcome_in_the_order_given(tmp_path):
    configs = [
        tiny(tmp_path / "good"),
        tiny(tmp_path / "bad", task_options={"colour": "red"}),
        tiny(tmp_path / "too", seed=1),
    ]
    seen = []
    outcomes = sweep(configs, workers=2, tell=seen.append)
    assert [outcome.folder.name for outcome in outcomes] == ["good", "bad", "too"]
    assert "does not take task_options={'colour': 'red'}" in outcomes[1].problem
    assert outcomes[0].problem is outcomes[2].problem is None
    assert sorted(outcome for outcome in seen if outcome) == sorted(outcomes)
    assert run_folder.read(tmp_path / "too").status == "finished"


def test_a_package_that_cannot_be_imported_is_named(tmp_path, monkeypatch):
    (tmp_path / "broken_task.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match=r"importing broken_task raised ZeroDivisionError"):
        sweep([tiny(tmp_path / "run", task="broken_task:Robot-v0")])


def test_an_unknown_task_is_named_before_anything_is_run(tmp_path):
    with pytest.raises(ValueError, match="unknown task 'safexp/Nowhere-v0'"):
        sweep([tiny(tmp_path / "good"), tiny(tmp_path / "bad", task="safexp/Nowhere-v0")])
    assert not (tmp_path / "good").exists()


def test_a_finished_run_is_kept_and_an_unfinished_one_done_again(tmp_path):
    config = tiny(tmp_path / "run")
    assert run_one(config) == RunOutcome(config.folder, None)
    timing = config.folder / run_folder.TIMING
    written, episodes = timing.stat().st_mtime_ns, (config.folder / run_folder.EPISODES).read_bytes()
    run_one(config)
    assert timing.stat().st_mtime_ns == written
    timing.unlink()
    (config.folder / run_folder.EPISODES).write_bytes(episodes[: len(episodes) // 2])
    assert run_one(config).problem is None
    assert (config.folder / run_folder.EPISODES).read_bytes() == episodes


def long(folder, **options):
    """A run of some seconds, with a checkpoint after every one of its many epochs."""
    return tiny(folder, **{"steps": 2_500, **options})


def wait_for(condition):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise TimeoutError


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_the_run_ends_the_same(tmp_path):
    whole, killed = long(tmp_path / "whole", method="bare"), long(tmp_path / "killed", method="bare")
    run(whole)
    victims = []

    def kill_once(outcome):
        if not victims and (killed.folder / run_folder.CHECKPOINT).exists():
            victims.extend(multiprocessing.active_children())
            for victim in victims:
                victim.kill()

    assert sweep([killed], workers=1, tell=kill_once) == [RunOutcome(killed.folder, None)]
    assert victims
    for name in (run_folder.EPISODES, run_folder.METRICS):
        assert (killed.folder / name).read_bytes() == (whole.folder / name).read_bytes()


SWEEP = """
import sys
from pathlib import Path
from safexp.runs.config import RunConfig
from safexp.runs.sweep import sweep
options = {"n_steps": 16, "batch_size": 32}
if __name__ == "__main__":
    config = RunConfig(num_envs=4, steps=10_000_000, learner_options=options, method="bare", out=Path(sys.argv[1]))
    sweep([config], workers=1)
"""


@pytest.mark.slow
def test_a_killed_sweep_leaves_no_process_behind(tmp_path):
    script = tmp_path / "many.py"
    script.write_text(SWEEP)
    parent = subprocess.Popen([sys.executable, str(script), str(tmp_path / "run")])
    try:
        wait_for((tmp_path / "run" / run_folder.CHECKPOINT).exists)
    finally:
        parent.kill()
        parent.wait()
    metrics = tmp_path / "run" / run_folder.METRICS

    def quiet():
        size = metrics.stat().st_size
        time.sleep(0.5)
        return metrics.stat().st_size == size

    wait_for(quiet)


def test_what_goes_on_is_shown(tmp_path):
    configs = [tiny(tmp_path / "good"), tiny(tmp_path / "bad", task="safexp/Nowhere-v0")]
    run(configs[0])
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with Watch(configs, console) as watch:
        watch.tell(RunOutcome(configs[1].folder, "[unknown] task"))
        console.print(watch.drawn())
        watch.tell(RunOutcome(configs[0].folder, None))
        console.print(watch.drawn())
    said = console.file.getvalue()
    assert "bad failed: [unknown] task" in said.replace("\n", "")
    assert "1 of 2 runs over · 1 failed" in said
    assert "2 of 2 runs over · 1 failed" in said
    assert "good" in said


def test_without_a_terminal_ends_are_told(tmp_path):
    config = tiny(tmp_path / "good")
    console = Console(file=io.StringIO(), width=200)
    with Watch([config], console) as watch:
        watch.tell(None)
        watch.tell(RunOutcome(config.folder, None))
    assert console.file.getvalue() == f"1/1 {config.folder} finished\n"


def test_the_folder_of_another_run_is_left_alone(tmp_path):
    run(tiny(tmp_path / "run"))
    outcome = run_one(tiny(tmp_path / "run", seed=5))
    assert "other settings" in outcome.problem
    assert json.loads((tmp_path / "run" / run_folder.CONFIG).read_text())["config"]["seed"] == 0


def test_two_runs_in_one_folder_are_refused(tmp_path):
    with pytest.raises(ValueError, match="same folder"):
        sweep([tiny(tmp_path / "run"), tiny(tmp_path / "run", seed=1)])
    with pytest.raises(ValueError, match="workers=0"):
        sweep([tiny(tmp_path / "run")], workers=0)


@pytest.mark.parametrize("method", ["mase", "saute"])
def test_an_agent_is_evaluated_without_exploration_one_episode_for_each_environment(tmp_path, method):
    folder = run(tiny(tmp_path / "run", method=method))
    episodes = evaluate(folder, 6)
    assert len(episodes) == 6
    assert episodes == evaluate(folder, 6)
    assert method == "saute" or not any(episode.violated for episode in episodes)


def test_without_an_agent_there_is_nothing_to_evaluate(tmp_path):
    folder = run(tiny(tmp_path / "run"))
    (folder / run_folder.AGENT).unlink()
    with pytest.raises(run_folder.RunFolderError, match="holds no agent"):
        evaluate(folder)


UNGUARDED = """
import pathlib, safexp
settings = safexp.RunConfig(steps=64, num_envs=4, learner_options={"n_steps": 16, "batch_size": 32})
safexp.sweep(safexp.variations(settings, {"penalty": [1.0]}, 1, pathlib.Path("runs")), workers=1)
"""


@pytest.mark.slow
def test_a_script_without_a_main_guard_is_told_what_to_do(tmp_path):
    (tmp_path / "script.py").write_text(UNGUARDED)
    words = [sys.executable, "script.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith('put the call under if __name__ == "__main__":')
    assert not (tmp_path / "runs").exists()
