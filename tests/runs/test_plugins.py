"""What users add by name, from a module in the directory where they stand."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from safexp import MASE, SparseGP
from safexp.cli import main
from safexp.core.costs import Step
from safexp.learners import TRPO
from safexp.mase.baseline import Baseline
from safexp.runs import folder as run_folder
from safexp.runs.build import build, make_constraint
from safexp.runs.config import RunConfig
from safexp.runs.evaluate import evaluate
from safexp.runs.plugins import find
from safexp.runs.run import run
from safexp.studies.safety_gym.study import SafetyGymStudy

MODULE = """
import numpy as np
from safexp import SparseGP
from safexp.mase.baseline import Baseline
from safexp.learners import TRPO
from safexp.tasks.planar_robot import hill_height
from safexp.envs.vector import as_vec_env
from safexp.envs.recording import Recorded

number = 3
calls = []

def cost(observations, actions, following):
    calls.append(len(following))
    return hill_height(following[:, :2])

def column(observations, actions, following):
    return hill_height(following[:, :2])[:, None]

def nothing(observations, actions, following):
    return np.full(len(following), np.nan)

def large(observations, actions, following):
    return np.full(len(following), 7.0)

class Wide(SparseGP):
    pass

class Mine(TRPO):
    pass

def alone(config, envs, constraint, learner, options):
    assert config.method_options == {"colour": "blue"}
    return Baseline(Recorded(as_vec_env(envs), constraint), learner, learner_options=options, seed=config.seed)

def confused(config, envs, constraint, learner, options):
    return learner

CAREFUL = {"method": "mase", "learner": "TRPO", "penalty": 9.0}
WRONG = {"method": "mase", "steps": 5}
"""

TINY: dict[str, Any] = {"num_envs": 2, "steps": 128, "learner": "TRPO", "learner_options": {"n_steps": 64}}


@pytest.fixture(autouse=True)
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of the user's in the current directory, as the command line finds it."""
    (tmp_path / "mine.py").write_text(MODULE)
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "needy.py").write_text("import no_such_thing")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "mine", raising=False)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent:cost", "cost='absent:cost': there is no module 'absent', neither installed nor in the current"),
        ("needy:cost", "there is no module 'no_such_thing'"),
        ("broken:cost", "importing broken raised ZeroDivisionError: division by zero"),
        ("mine:price", "mine has no 'price'"),
        (":cost", "expected package:name, such as my_package:cost"),
        ("mine:", "expected package:name"),
    ],
)
def test_names_that_lead_nowhere(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find(name, "cost")


def test_a_cost_of_one_s_own_is_asked_once_a_vector_step() -> None:
    with_function, without = (
        run_folder.read(run(RunConfig(**TINY, limit=2.0, cost=cost, out=Path(cost.replace(":", "-")))))
        for cost in ("mine:cost", "cost")
    )
    assert with_function.episodes == without.episodes  # the same costs, from another source
    assert "--cost mine:cost" in with_function.command
    assert json.loads((with_function.path / "config.json").read_text())["config"]["cost"] == "mine:cost"
    assert sys.modules["mine"].calls == [2] * 64
    assert len(evaluate(with_function.path, 3)) == 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mine:column", r"the cost function returned shape \(2, 1\), expected \(2,\)"),
        ("mine:nothing", r"environment 0 gave nan: the cost function must be a finite number"),
        ("mine:large", r"environment 0 gave .*7\.0.*: the cost function must lie in \[0, 1\]; give .*cost_max"),
    ],
)
def test_costs_that_cannot_be(name: str, message: str) -> None:
    with pytest.raises(run_folder.RunFailedError, match=message):
        run(RunConfig(**TINY, cost=name, out=Path("a")))


def test_a_cost_that_is_no_function_and_one_for_a_margin() -> None:
    with pytest.raises(ValueError, match=r"cost='mine:number' is 3; expected a function of \(observations, actions"):
        make_constraint(RunConfig(cost="mine:number", limit=1.0))
    with pytest.raises(ValueError, match=r"a margin is read from info\['margin'\]"):
        RunConfig(constraint="margin", cost="mine:cost", quantifier="known")


def test_a_cost_under_another_key_of_the_info() -> None:
    import numpy as np

    constraint = make_constraint(RunConfig(cost="heat", limit=1.0))
    nothing = np.zeros((2, 1))
    found = constraint.read(Step(nothing, nothing, nothing, lambda key: {"heat": np.array([0.1, 0.2])}[key]))
    assert found.tolist() == [0.1, 0.2]


@pytest.mark.slow
def test_a_quantifier_and_a_learner_of_one_s_own() -> None:
    config = RunConfig(**{**TINY, "learner": "mine:Mine"}, quantifier="mine:Wide", seed=7, out=Path("a"))
    folder = run(config)
    agent = build(run_folder.read(folder).config, to_use=True)
    assert isinstance(agent, MASE)
    assert isinstance(agent.quantifier, SparseGP)
    assert (type(agent.quantifier).__name__, agent.quantifier.seed) == ("Wide", 7)
    assert (type(agent.learner).__name__, isinstance(agent.learner, TRPO)) == ("Mine", True)
    agent.restore(folder / "agent.safexp")
    assert agent.quantifier.model is not None
    with pytest.raises(ValueError, match="Wide has no option 'colour'"):
        build(RunConfig(**TINY, quantifier="mine:Wide", quantifier_options={"colour": 1}).settled())
    with pytest.raises(ValueError, match=r"quantifier='mine:cost' is .* expected a subclass of safexp\.Quantifier"):
        build(RunConfig(**TINY, quantifier="mine:cost").settled())
    with pytest.raises(ValueError, match=r"learner='mine:cost' is .* expected a Stable-Baselines3 algorithm class"):
        build(RunConfig(learner="mine:cost").settled())


def test_a_method_of_one_s_own(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--num-envs", "2", "--steps", "128", "--learner", "TRPO", "--learner-options", '{"n_steps": 64}']
    assert main(["train", "--method", "mine:alone", "--method-options", '{"colour": "blue"}', *words]) == 0
    folder = Path(capsys.readouterr().out.splitlines()[-1].removeprefix("run folder: "))
    assert folder == Path("runs/safexp-PlanarRobot-v0-mine-alone-0")
    assert len(evaluate(folder, 3)) == 3
    assert main(["play", str(folder), "--episodes", "1"]) == 0
    with pytest.raises(ValueError, match="returned a ABCMeta; expected an agent such as MASE"):
        build(RunConfig(**TINY, method="mine:confused").settled())


@pytest.mark.slow
def test_reading_a_run_imports_nothing_of_the_user_s() -> None:
    folder = run(RunConfig(**TINY, cost="mine:cost", quantifier="mine:Wide", out=Path("a")))
    del sys.modules["mine"]
    assert run_folder.read(folder).config.cost == "mine:cost"
    assert main(["report", str(folder)]) == 0
    assert "mine" not in sys.modules


def test_an_entry_of_one_s_own_stands_beside_ours() -> None:
    study = SafetyGymStudy(tasks=("point", "safexp/CarGoal1-v0"), methods=("mase", "mine:CAREFUL"), seeds=1, epochs=1)
    groups = study.configs()
    (config,) = groups["safexp/CarGoal1-v0", "mine:CAREFUL"]
    assert (config.task, config.penalty, config.limit) == ("safexp/CarGoal1-v0", 9.0, 20.0)
    assert config.folder.name == "safexp-CarGoal1-v0-mine-CAREFUL-1000"
    with pytest.raises(ValueError, match=r"methods: 'mazy' is not one of trpo, .*, nor one of your own"):
        SafetyGymStudy(methods=("mazy",)).configs()
    with pytest.raises(ValueError, match="without what the study sets itself: task, limit, num_envs, steps"):
        SafetyGymStudy(methods=("mine:WRONG",)).configs()


def test_a_baseline_is_restored_from_its_own_file_alone() -> None:
    folder = run(RunConfig(**TINY, out=Path("shielded")))
    agent = build(RunConfig(**TINY, method="bare").settled())
    assert isinstance(agent, Baseline)
    with pytest.raises(ValueError, match="agent of another kind"):
        agent.restore(folder / "agent.safexp")
