"""Trajectories: recorded places are the environment's, episodes are the first and the last, and files stay small."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO

from safexp import MASE, Budget, Unknown
from safexp.records.episodes import Episode
from safexp.runs import folder as run_folder
from safexp.runs.config import RunConfig
from safexp.runs.run import follow, run
from safexp.runs.trajectories import FOLLOWED, KEPT, LONGEST, Follower, Trajectories
from safexp.tasks.planar_robot import FLOOR, PlanarRobot, hill_height
from support.line import Line


def tiny(out: Path, **settings: Any) -> RunConfig:
    options = {"n_steps": 100, "batch_size": 300, "n_epochs": 1}
    defaults = {"task": "safexp/PlanarRobot-v0", "num_envs": 6, "steps": 3600, "learner_options": options}
    return RunConfig(**{**defaults, "out": out, **settings})


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tiny(tmp_path_factory.mktemp("runs") / "first"))


@pytest.mark.parametrize(
    "task", ["safexp/PointGoalStatic-v0", "safexp/CarGoalDynamic-v0", "safexp/PlanarRobot-v0", "Copied-v0"]
)
def test_recorded_places_are_the_environments(task: str, own_tasks: None) -> None:
    envs = gym.make_vec(task, num_envs=3)
    agent = MASE(envs, Budget(2.0), Unknown(), PPO, learner_options={"n_steps": 8, "batch_size": 24}, seed=0)
    guard = agent.guard
    guard.recorder.witness = follower = follow(agent)
    assert follower is not None
    guard.reset()
    scene_of = (lambda i: envs.envs[i].unwrapped.scene()) if task == "Copied-v0" else envs.unwrapped.scene
    running = [[scene_of(i)] for i in range(3)]
    expected = []
    rng = np.random.default_rng(0)
    while len(expected) < 5:
        guard.step_async(rng.uniform(-1, 1, (3, 2)).astype(np.float32))
        _, _, dones, infos = guard.step_wait()
        for i in range(3):
            running[i].append(infos[i]["position"])
            if dones[i]:
                expected.append(running[i])
                running[i] = [scene_of(i)]
    found = follower.trajectories.early[:5]
    for way, (first, *places) in zip(found, expected, strict=False):
        assert way.floor == first.floor
        np.testing.assert_array_equal(way.path, [first.position, *places])


def test_the_first_and_the_last_episodes_are_kept(finished: Path) -> None:
    found = run_folder.read(finished)
    early, late = found.trajectories.early, found.trajectories.late
    assert len(early) == len(late) == KEPT
    numbers = [way.episode for way in (*early, *late)]
    assert numbers == sorted(set(numbers))
    assert numbers[0] < 6
    assert numbers[-1] >= len(found.episodes) - 6
    endings = set()
    for way in (*early, *late):
        episode = found.episodes[way.episode]
        assert len(way.path) == episode.length + 1
        assert way.ending == ("stopped" if episode.stopped else "kept")
        endings.add(way.ending)
        assert hill_height(way.path[1:]).sum() == pytest.approx(episode.cost, abs=0.02), "places are rounded"
    assert endings == {"stopped", "kept"}


def test_violations_are_marked(tmp_path: Path) -> None:
    found = run_folder.read(run(tiny(tmp_path / "bare", method="bare", limit=1.0)))
    ways = (*found.trajectories.early, *found.trajectories.late)
    for way in ways:
        assert way.ending == ("violated" if found.episodes[way.episode].violated else "kept")
    assert {way.ending for way in ways} == {"violated", "kept"}


def test_the_same_description_gives_the_same_bytes(finished: Path, tmp_path: Path) -> None:
    again = run(tiny(tmp_path / "again"))
    assert (again / "trajectories.json").read_bytes() == (finished / "trajectories.json").read_bytes()


def test_what_is_written_is_read(finished: Path) -> None:
    found = run_folder.read(finished).trajectories
    document = json.loads((finished / "trajectories.json").read_text())
    assert json.loads(json.dumps(found.to_json())) == document


def test_a_long_run_of_long_episodes_keeps_little() -> None:
    env = PlanarRobot()
    env.reset(seed=0)
    follower = Follower(50, lambda index: env.scene(), lambda: np.full((50, 2), 1.0))
    everywhere = np.ones(50, dtype=bool)
    for number in range(10):
        follower.begin(everywhere)
        for _ in range(LONGEST + 50):
            follower.step()
        for i in range(50):
            follower.end(i, _episode(50 * number + i))
    kept = follower.trajectories
    assert [len(kept.early), len(kept.late)] == [KEPT, KEPT]
    assert {way.episode % 50 for way in (*kept.early, *kept.late)} == set(range(FOLLOWED))
    assert {way.path.shape for way in kept.late} == {(LONGEST + 1, 2)}
    assert kept.late[0].floor == FLOOR


@pytest.mark.parametrize("task", ["Blind-v0", "Silent-v0"])
def test_a_task_that_does_not_show_its_robots_has_no_trajectories(tmp_path: Path, task: str, own_tasks: None) -> None:
    options = {"n_steps": 16, "batch_size": 32, "n_epochs": 1}
    folder = run(tiny(tmp_path / "run", task=task, num_envs=2, steps=64, learner_options=options))
    assert not (folder / "trajectories.json").exists()
    assert run_folder.read(folder).trajectories == Trajectories()


def test_a_damaged_file_is_named(finished: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "config.json").write_bytes((finished / "config.json").read_bytes())
    (copy / "trajectories.json").write_text('{"early": [{}]}')
    with pytest.raises(run_folder.RunFolderError, match=r"trajectories\.json is damaged"):
        run_folder.read(copy)


class Silent(Line):
    """A task that has scenes and does not tell positions."""

    def scene(self) -> Any:
        robot = PlanarRobot()
        robot.reset(seed=0)
        return robot.scene()


@pytest.fixture
def own_tasks() -> Iterator[None]:
    entries = {"Copied-v0": PlanarRobot, "Blind-v0": Line, "Silent-v0": Silent}
    for name, entry in entries.items():
        gym.register(name, entry_point=entry)
    yield
    for name in entries:
        del gym.registry[name]


def _episode(number: int) -> Episode:
    return Episode(number, 0, 1, 0.0, 0.0, 0.0, 0.0, False, False, 0)
