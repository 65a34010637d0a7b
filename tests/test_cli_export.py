"""`safexp export`."""

from __future__ import annotations

import subprocess

import gymnasium as gym
import pytest
from stable_baselines3 import PPO

from safexp import MASE, Budget, Unknown
from safexp.cli import main
from support.c_loop import WARNINGS, needs_compiler


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
