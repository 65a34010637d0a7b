"""`safexp export`."""

from __future__ import annotations

import subprocess

import gymnasium as gym
import pytest
from stable_baselines3 import PPO

from safexp import MASE, Backup, Budget, Shield, Unknown
from safexp.cli import main
from support.c_loop import WARNINGS, needs_compiler
from support.trolley import BRAKE, HORIZON, trained


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory):
    envs = gym.make_vec("safexp/PlanarRobot-v0", num_envs=2)
    made = MASE(envs, Budget(3.0), Unknown(), PPO, learner_options={"n_steps": 16, "batch_size": 16}, seed=0)
    path = tmp_path_factory.mktemp("agent") / "agent.safexp"
    made.save(path)
    return path


@needs_compiler
@pytest.mark.slow
def test_an_agent_becomes_a_c_file_with_its_policy(agent, tmp_path, capsys):
    target = tmp_path / "robot.c"
    assert main(["export", str(agent), "--c", "--out", str(target), "--policy", "--precision", "float"]) == 0
    assert f"shield: {target} and {target.with_suffix('.h')}" in capsys.readouterr().out
    header = target.with_suffix(".h").read_text()
    assert "void robot_policy(robot_t *s" in header
    assert "typedef float robot_real" in header
    subprocess.run(["gcc", *WARNINGS, "-O2", "-c", target.name], cwd=tmp_path, check=True)


@pytest.mark.slow
def test_the_certificate_becomes_onnx(agent, tmp_path):
    pytest.importorskip("onnx")
    target = tmp_path / "robot.onnx"
    assert main(["export", str(agent), "--onnx", "--out", str(target)]) == 0
    assert target.stat().st_size > 100


@pytest.fixture(scope="module")
def trolley(tmp_path_factory: pytest.TempPathFactory):
    """Run folder of an agent whose certificates look ahead to the task's linear brake."""
    return trained(tmp_path_factory.mktemp("runs") / "trolley")


@needs_compiler
def test_a_run_that_looks_ahead_is_exported_with_the_backup_of_its_task(trolley, tmp_path):
    target = tmp_path / "trolley.c"
    assert main(["export", str(trolley), "--c", "--out", str(target), "--policy"]) == 0
    assert "void trolley_policy(trolley_t *s" in target.with_suffix(".h").read_text()
    subprocess.run(["gcc", *WARNINGS, "-O2", "-c", target.name], cwd=tmp_path, check=True)
    twin = tmp_path / "python" / target.name
    twin.parent.mkdir()
    Shield.load(trolley / "agent.safexp", backup=Backup(BRAKE, HORIZON)).export_c(twin)
    alone = tmp_path / "alone" / target.name
    alone.parent.mkdir()
    assert main(["export", str(trolley / "agent.safexp"), "--c", "--out", str(alone)]) == 0
    assert alone.read_text() == twin.read_text()


def test_a_file_that_looks_ahead_needs_its_run_folder(trolley, tmp_path, capsys):
    alone = tmp_path / "shield.safexp"
    alone.write_bytes((trolley / "agent.safexp").read_bytes())
    assert main(["export", str(alone), "--c", "--out", str(tmp_path / "shield.c")]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert f"looks {HORIZON} steps ahead to a backup controller, which a file cannot hold: give its run folder" in told


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "give --c to export C code, or --onnx to export the certificate"),
        (["--onnx", "--policy"], "--policy and --precision are for --c: leave them out"),
    ],
)
def test_options_that_do_not_fit_are_refused(agent, words, reason, capsys):
    assert main(["export", str(agent), *words]) == 2
    assert reason in capsys.readouterr().err
