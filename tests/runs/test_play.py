from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from safexp.cli import main
from safexp.core.files import CheckpointError
from safexp.runs.config import RunConfig
from safexp.runs.folder import RunFolderError
from safexp.runs.load import load_with_settings
from safexp.runs.play import CELLS, Player
from safexp.runs.run import run
from safexp.tasks.planar_robot import PlanarRobot, cost_of
from safexp.tasks.scene import Scene

LIMIT = 0.01
"""Far enough from the hills for an agent that has hardly learned to reach it."""


def trained(out: Path, **settings: Any) -> Path:
    options = {"n_steps": 64, "batch_size": 64, "n_epochs": 1}
    return run(RunConfig(**{"num_envs": 4, "steps": 256, "learner_options": options, "out": out, **settings}))


@pytest.fixture(scope="module")
def budget(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("play") / "budget", limit=2.0)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("play") / "known"
    return trained(out, constraint="instantaneous", limit=LIMIT, quantifier="known")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("play") / "bare", method="bare", limit=2.0)


def test_moments_add_up_to_the_episode(budget: Path) -> None:
    moments = list(Player.load(budget).play(3, deterministic=False))
    ends = [moment for moment in moments if moment.outcome]
    assert [end.episode for end in ends] == [0, 1, 2]
    for end in ends:
        outcome = end.outcome
        assert outcome is not None
        assert (end.step, end.total_return) == (outcome.length, outcome.true_return)
        assert end.total_cost == pytest.approx(outcome.cost)
    for moment in moments:
        assert moment.threshold == pytest.approx(2.0 - moment.total_cost)
        assert moment.view is moment.choices is None
    assert len(moments) == sum(end.step + 1 for end in ends)


def test_filming_changes_nothing(budget: Path) -> None:
    plain, filmed = (list(Player.load(budget, filmed=on).play(1, seed=5, deterministic=False)) for on in (False, True))
    assert [moment.total_cost for moment in plain] == [moment.total_cost for moment in filmed]
    np.testing.assert_array_equal([m.proposed for m in plain[:-1]], [m.proposed for m in filmed[:-1]])
    last = filmed[-1].view
    assert isinstance(last, Scene)
    assert len(last.trail) == len(filmed)
    np.testing.assert_array_equal(last.trail[-1], last.position)


def test_the_shown_set_is_the_safe_set(known: Path) -> None:
    moments = list(Player.load(known, filmed=True).play(2, deterministic=False))
    axis = np.linspace(-1.0, 1.0, CELLS, dtype=np.float32).astype(float)
    actions = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    mixed = 0
    for before, after in pairwise(moments):
        if before.outcome or after.outcome:
            continue
        scene, following = before.view, after.view
        assert before.choices is not None
        assert isinstance(scene, Scene)
        assert isinstance(following, Scene)
        velocity = (following.position - scene.position) / 0.1  # v', of which v = (v' − 0.4·a) / 0.6
        state = np.concatenate([scene.position, (velocity - 0.4 * np.clip(before.executed, -1, 1)) / 0.6])
        costs = cost_of(np.tile(state, (len(actions), 1)), actions).reshape(CELLS, CELLS)
        clear = np.abs(costs - LIMIT) > 1e-6
        np.testing.assert_array_equal(before.choices.safe[clear], (costs <= LIMIT)[clear])
        mixed += 0 < before.choices.safe.mean() < 1
        assert before.intervened == (not np.array_equal(before.proposed, before.executed))
    assert mixed > 0


def test_the_shown_set_leaves_out_what_is_kept_for_braking(tmp_path: Path) -> None:
    run_folder = trained(tmp_path / "braking", limit=3.0, backup_options={"braking": 1.5})
    player = Player.load(run_folder, filmed=True)
    moments = list(player.play(3, deterministic=False))
    refused = [moment for moment in moments if moment.choices is not None and moment.threshold < 2.5]
    assert not any(moment.choices.safe.any() for moment in refused if moment.choices)
    allowed = [moment for moment in moments if moment.choices is not None and moment.threshold >= 2.5]
    assert all(moment.choices.safe.all() for moment in allowed if moment.choices)
    assert allowed


def test_without_its_shield_an_agent_does_as_it_likes(known: Path, bare: Path) -> None:
    for shielding in (True, False):
        moments = list(Player.load(known, shielding).play(5, deterministic=False))
        ends = [moment.outcome for moment in moments if moment.outcome]
        assert any(end.interventions or end.stopped for end in ends) == shielding
    with pytest.raises(ValueError, match="method 'bare' has no shield; leave --no-shield out"):
        Player.load(bare, shielding=False)
    assert all(moment.choices is None for moment in Player.load(bare, filmed=True).play(1))


def test_discrete_actions_are_all_shown(tmp_path: Path) -> None:
    settings = {"constraint": "instantaneous", "limit": 0.3, "quantifier": "known", "learner": "MaskablePPO"}
    path = trained(tmp_path / "run", task="safexp/PlanarRobotDiscrete-v0", **settings)
    for moment in Player.load(path, filmed=True).play(1):
        if moment.choices:
            assert moment.choices.safe.shape == (9,)
            assert moment.choices.safe[moment.executed]
            assert not moment.intervened  # a masked policy proposes what is safe


def test_an_agent_is_found_by_its_file_and_missed_by_name(budget: Path, bare: Path, tmp_path: Path) -> None:
    config, agent = load_with_settings(budget / "agent.safexp", 2)
    assert (config.num_envs, agent.envs.num_envs) == (4, 2)
    agent.envs.close()
    with pytest.raises(CheckpointError, match="agent of another kind"):
        agent.restore(bare / "agent.safexp")
    (tmp_path / "config.json").write_bytes((budget / "config.json").read_bytes())
    with pytest.raises(RunFolderError, match="holds no agent: its run is unfinished"):
        load_with_settings(tmp_path, 1)


class Rendered(PlanarRobot):
    """Draws itself, and tells no scene."""

    scene = None
    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None, broken: bool = False) -> None:
        super().__init__()
        self.render_mode = render_mode
        self.broken = broken

    def render(self) -> Any:
        return None if self.broken else np.full((30, 60, 3), 7, np.uint8)

    def __getattribute__(self, name: str) -> Any:
        if name == "scene":
            raise AttributeError(name)
        return super().__getattribute__(name)


class Unseen(Rendered):
    """Does not even draw itself."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012


def test_a_task_without_a_scene_draws_itself_or_says_that_it_cannot(tmp_path: Path) -> None:
    gym.register("Rendered-v0", entry_point=Rendered, disable_env_checker=True)
    gym.register("Unseen-v0", entry_point=Unseen)
    drawn = trained(tmp_path / "drawn", task="Rendered-v0")
    first = next(iter(Player.load(drawn, filmed=True).play(1)))
    np.testing.assert_array_equal(first.view, np.full((30, 60, 3), 7, np.uint8))
    broken = trained(tmp_path / "broken", task="Rendered-v0", task_options={"broken": True})
    with pytest.raises(ValueError, match=r"its render\(\) returned None. Leave --video out"):
        next(iter(Player.load(broken, filmed=True).play(1)))
    unseen = trained(tmp_path / "unseen", task="Unseen-v0")
    with pytest.raises(ValueError, match=r"it has no scene\(\) and no render mode rgb_array\. Leave --video out"):
        Player.load(unseen, filmed=True)


def test_the_table_of_episodes(budget: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", str(budget), "--episodes", "2"]) == 0
    heading, first, second = capsys.readouterr().out.splitlines()
    assert heading.split()[:2] == ["episode", "length"]
    assert (first.split()[0], second.split()[0]) == ("1", "2")
    assert main(["play", str(budget), "--episodes", "0"]) == 2
    assert "episodes=0 must be at least 1" in capsys.readouterr().err
