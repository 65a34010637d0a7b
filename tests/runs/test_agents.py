from pathlib import Path

import numpy as np
import pytest

import safexp
from safexp.cli import main
from safexp.core import files
from safexp.runs import agents
from safexp.runs.agents import LARGEST, agent_name, described, locate, shipped_agents, write_agent
from safexp.runs.config import RunConfig
from safexp.runs.evaluate import load_subject
from safexp.runs.exports import exported
from safexp.runs.folder import RunFolderError
from safexp.runs.run import run

SHIPPED = "point-button1-mase"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = {"n_steps": 64, "batch_size": 64, "n_epochs": 1}
    out = tmp_path_factory.mktemp("agents") / "first"
    return run(RunConfig(limit=2.0, num_envs=4, steps=256, learner_options=options, out=out, seed=3))


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in place of the agents that come with safexp."""
    monkeypatch.setattr(agents, "agents_folder", lambda: tmp_path / "shelf")
    return tmp_path / "shelf"


@pytest.mark.parametrize(
    ("task", "method", "name"),
    [
        ("safexp/PointButton1-v0", "mase", SHIPPED),
        ("safexp/CarGoalStatic-v0", "mase-fallback", "car-goal-static-mase-fallback"),
        ("package:Own-v12", "mase", "own-mase"),
    ],
)
def test_names_of_agents(task: str, method: str, name: str) -> None:
    assert agent_name(task, method) == name


def test_a_file_alone_is_loaded_as_its_run_folder(trained: Path, shelf: Path) -> None:
    file = shelf / "planar-robot-mase.safexp"
    write_agent(trained, file)
    assert described(file)[1].to_json() == described(trained)[1].to_json()
    by_name, by_task, by_folder = (
        safexp.load(name, num_envs=2) for name in ("planar-robot-mase", "safexp/PlanarRobot-v0", trained)
    )
    moves = []
    for agent in (by_name, by_task, by_folder):
        agent.envs.seed(11)
        moves.append(agent.learner.predict(agent.envs.reset(), deterministic=True)[0])
        agent.envs.close()
    np.testing.assert_array_equal(moves[0], moves[2])
    np.testing.assert_array_equal(moves[1], moves[2])
    assert load_subject(Path("planar-robot-mase"), 1).task == "safexp/PlanarRobot-v0"
    assert exported(Path("planar-robot-mase"), with_policy=True).policy is not None


def test_the_file_records_no_folder_and_no_command(trained: Path, tmp_path: Path) -> None:
    write_agent(trained, tmp_path / "agent")
    settings = files.read(tmp_path / "agent")[0]["run"]
    assert settings.keys() == {"config", "versions"}
    assert str(trained) not in str(settings)


def test_a_task_without_an_agent_says_how_to_train_one(shelf: Path) -> None:
    with pytest.raises(
        RunFolderError, match=r"no agent of safexp/PlanarRobot-v0 comes with safexp: train one, `safexp"
    ) as it:
        safexp.load("safexp/PlanarRobot-v0")
    assert "--out runs/planar-robot-mase" in str(it.value)
    assert f"There is none in {shelf}." in str(it.value)
    (shelf).mkdir()
    (shelf / "other-mase.safexp").write_bytes(b"")
    with pytest.raises(RunFolderError, match=r"nowhere does not exist, and no agent .* There are other-mase\."):
        locate("nowhere")


def test_a_file_without_settings_asks_for_the_folder(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "lost.safexp").write_bytes((trained / "agent.safexp").read_bytes())
    with pytest.raises(RunFolderError, match=r"lost\.safexp is an agent without its run folder"):
        safexp.load(tmp_path / "lost.safexp")


def test_large_agents_are_refused(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "LARGEST", 1000)
    with pytest.raises(ValueError, match=r"big would have [\d,]+ bytes, more than the 1,000"):
        write_agent(trained, tmp_path / "big")
    assert not (tmp_path / "big").exists()


def test_what_comes_with_safexp_loads_and_keeps_its_budget() -> None:
    assert SHIPPED in shipped_agents()
    for name, file in shipped_agents().items():
        assert file.stat().st_size < LARGEST
        config = described(file)[1]
        assert agent_name(config.task, "mase") == name
        agent = safexp.load(name)
        assert agent.shield is not None
        agent.envs.seed(1)
        agent.envs.step(agent.learner.predict(agent.envs.reset(), deterministic=True)[0])
        agent.envs.close()


def test_a_task_is_played_by_the_agent_that_comes_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", "safexp/PointButton1-v0", "--episodes", "2", "--json"]) == 0
    assert capsys.readouterr().out.count('"violated": false') == 2
