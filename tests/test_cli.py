import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from safexp.cli import main

TINY = ["--num-envs", "4", "--steps", "256", "--learner-options", '{"n_steps": 64, "batch_size": 64, "n_epochs": 1}']

OWN_TASK = """
import gymnasium as gym
from safexp.tasks.planar_robot import PlanarRobot
gym.register("Mine-v0", entry_point=PlanarRobot)
gym.register("Free-v0", entry_point=lambda: gym.wrappers.TransformReward(gym.make("Pendulum-v1"), float))
"""


def typed(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """What a user gets who types this."""
    command = Path(sys.executable).with_name("safexp")
    return subprocess.run([command, *words], cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
def test_train_and_report_as_a_user_types_them(tmp_path: Path) -> None:
    (tmp_path / "my_package.py").write_text(OWN_TASK)
    trained = typed("train", "--task", "my_package:Mine-v0", "--budget", "2", *TINY, "--out", "runs/a", cwd=tmp_path)
    assert (trained.returncode, trained.stderr) == (0, "")
    assert trained.stdout.splitlines()[0] == "mase · my_package:Mine-v0 · PPO · budget ≤ 2 · costs unknown · seed 0"
    assert trained.stdout.splitlines()[-1] == "run folder: runs/a"
    assert "\x1b" not in trained.stdout
    reported = typed("report", "runs/a", cwd=tmp_path)
    assert (reported.returncode, reported.stderr) == (0, "")
    assert reported.stdout.splitlines()[-1] == "report: report.html"
    assert (tmp_path / "report.html").stat().st_size > 1_000_000


def test_help_and_tasks_do_without_torch(tmp_path: Path) -> None:
    program = "import sys; from safexp.cli import main; main(['tasks']); assert 'torch' not in sys.modules"
    listed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    _, first, second, *_ = listed.stdout.splitlines()
    assert first.split()[:5] == ["safexp/PlanarRobot-v0", "4", "reals", "2", "reals"]
    assert second.split()[:5] == ["safexp/PlanarRobotDiscrete-v0", "4", "reals", "9", "choices"]
    assert "goal between two hills" in first
    assert "safexp/CarGoal1-v0" in listed.stdout
    assert not listed.stderr


def test_the_help_of_training_names_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["train", "--help"])
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for setting in ("--task", "--method {mase,bare,", "PACKAGE:NAME}", "--cost STR", "--track-options"):
        assert setting in text


def test_recordings_are_verified(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    recording = Path(__file__).parent / "data" / "static_point.npz"
    assert main(["tasks", "verify", str(recording), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["ok"] is True
    assert row["max_observation_difference"] <= 1e-8
    changed = dict(np.load(recording))
    changed["cost"] = 1 - changed["cost"]
    np.savez(tmp_path / "changed.npz", **changed)
    assert main(["tasks", "verify", str(tmp_path / "changed.npz")]) == 1
    assert main(["tasks", "verify"]) == 2
    assert "nothing to verify" in capsys.readouterr().err


def test_speed_is_measured(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from safexp.bench import tasks

    few = tasks.measure(robots=["Point"], layouts=["Static"], batches=[2], threads=[1], rounds=1)
    monkeypatch.setattr(tasks, "measure", lambda: few)
    assert main(["bench", "tasks", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == few


IMPATIENT = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Finder())
import safexp_command
sys.exit(safexp_command.main())
"""


def test_ctrl_c_before_anything_has_begun() -> None:
    done = subprocess.run([sys.executable, "-c", IMPATIENT], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted.\n")


@pytest.mark.parametrize("wanted", [None, "2"])
def test_matrices_are_multiplied_by_one_thread_unless_more_are_wanted(wanted: str | None) -> None:
    look = """
import sys
sys.argv = ["safexp", "tasks"]
import safexp_command
safexp_command.main()
import threadpoolctl
print({pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"}, file=sys.stderr)
"""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    if wanted:
        environment["OMP_NUM_THREADS"] = wanted
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True, env=environment)
    assert done.stderr == f"{ {min(2, os.cpu_count() or 1) if wanted else 1} }\n"


@pytest.mark.slow
def test_ctrl_c_says_what_is_on_disk(tmp_path: Path) -> None:
    command = [Path(sys.executable).with_name("safexp"), "train", "--steps", "10000000", "--out", "a"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        ),  # tests in the background inherit its being ignored
    )
    metrics = tmp_path / "a" / "metrics.jsonl"
    deadline = time.monotonic() + 100
    while not (metrics.exists() and metrics.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted. a holds " in errors
    assert "Traceback" not in errors
    assert json.loads((tmp_path / "a" / "timing.json").read_text())["status"] == "interrupted"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--task", "safexp/PlanarRobt-v0"], "safexp: unknown task 'safexp/PlanarRobt-v0'"),
        (
            ["--task", "no_such_module:Robot-v0"],
            "safexp: task='no_such_module:Robot-v0': there is no module 'no_such_module'",
        ),
        (["--budget", "-1"], "safexp: limit=-1.0 (--budget, --limit) must be finite and at least 0"),
        (["--learner", "PPOO"], "safexp: unknown learner 'PPOO'"),
        (["--learner-options", '{"n_step": 1}'], "safexp: PPO has no option 'n_step': did you mean n_steps?"),
        (["--imitation", "-1"], "safexp: imitation=-1.0 must be a KL divergence above 0, such as 0.01, or 0 for none."),
        (["--imitation", "0.01", "--learner", "SAC"], "SAC learns from the executed actions anyway; leave it out."),
        (
            ["--warm-start"],
            "safexp: warm_start=True imitates the actions of a log: give seed_data=..., or leave it out.",
        ),
        (["--replacement", "critic"], "safexp: replacement='critic' needs a learner with values of actions"),
        (["--method", "bare", "--warm-start"], "safexp: warm_start=True is an option of method 'mase', not of 'bare'"),
        (["--penalty", "-1"], "penalties are given as positive numbers"),
    ],
)
def test_mistakes_end_in_a_line_and_write_nothing(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *words, "--out", str(tmp_path / "a")]) == 2
    output = capsys.readouterr()
    assert message in output.err
    assert output.err.count("\n") == 1
    assert not (tmp_path / "a").exists()


def test_an_existing_run_folder_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--out", str(tmp_path)]) == 2
    assert (
        capsys.readouterr().err == f"safexp: {tmp_path} exists already and is not a run folder: give another --out.\n"
    )
    (tmp_path / "config.json").touch()
    assert main(["train", "--out", str(tmp_path)]) == 2
    remedy = "continue it with --resume, remove it, or give another --out."
    expected = f"safexp: run folder {tmp_path} exists already: {remedy}\n"
    assert capsys.readouterr().err == expected


def test_a_run_that_fails_says_where_its_traceback_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("costless.py").write_text(OWN_TASK)
    assert main(["train", "--task", "costless:Free-v0", *TINY, "--out", "a"]) == 2
    message = capsys.readouterr().err
    assert "safexp: the run failed: KeyError: environment 0 gave no info['cost']" in message
    assert "the traceback is in a/error.txt" in message
    assert "Traceback" in Path("a/error.txt").read_text()


def test_options_that_are_no_json_object_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["train", "--learner-options", "[1]"])
    assert ended.value.code == 2
    assert "expected a JSON object" in capsys.readouterr().err


@pytest.mark.slow
def test_a_folder_that_is_no_run_is_named_and_the_rest_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, foreign, out = tmp_path / "good", tmp_path / "foreign", tmp_path / "report.html"
    foreign.mkdir()
    assert main(["train", "--method", "bare", *TINY, "--out", str(good)]) == 0
    figures = tmp_path / "figures"
    folders = [str(good), str(foreign), str(tmp_path / "gone"), str(good)]
    assert main(["report", *folders, "--out", str(out), "--figures", str(figures)]) == 1
    output = capsys.readouterr()
    assert f"left out: {foreign} has no config.json: it is not a run folder" in output.err
    assert f"left out: {tmp_path / 'gone'} does not exist." in output.err
    *_, heading, row, _, drawn, path = output.out.splitlines()
    assert heading.split() == [
        *("run", "true", "return", "violations", "episodes", "95", "%", "interval", "stops", "interventions"),
        *("own", "actions"),
    ]
    assert row.startswith("good ")
    assert drawn == f"figures and tables: {figures}"
    assert {"curves.svg", "converged.png", "runs.csv"} <= {file.name for file in figures.iterdir()}
    assert path == f"report: {out}"
    assert out.exists()
    assert main(["report", str(good), "--out", str(tmp_path / "r.html"), "--reference", "cpo"]) == 2
    assert "--reference cpo: there is no such method; expected one of bare." in capsys.readouterr().err
    assert not (tmp_path / "r.html").exists()


def test_nothing_to_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report"]) == 2
    assert "nothing to report: give one or more run folders" in capsys.readouterr().err
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "r.html")]) == 2
    assert "none of these is a run folder" in capsys.readouterr().err
    assert not (tmp_path / "r.html").exists()


def test_the_paper_s_table_and_theorems_are_reproduced(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "grid-world", "--worlds", "1", "--steps", "20", "--betas", "4", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["method"] for row in rows} == {"SNO-MDP", "MASE"}
    assert (tmp_path / "runs" / "grid-world.png").stat().st_size > 10_000
    assert main(["reproduce", "glm", "--episodes", "40", "--seeds", "1"]) == 0
    assert "figure: runs/glm-mase.png" in capsys.readouterr().out
    assert main(["reproduce"]) == 2
    assert "name a study to reproduce" in capsys.readouterr().err
