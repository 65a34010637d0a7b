"""Recorded transitions of Safety-Gymnasium, replayed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from safexp.tasks.navigation import NavigationVectorEnv
from safexp.tasks.navigation.recordings import Verification, verify
from safexp.tasks.navigation.robots import headings_to_quaternions

DATA = Path(__file__).parents[2] / "data"


@pytest.mark.parametrize("path", sorted(DATA.glob("*_[cp]*.npz")), ids=lambda path: path.stem)
def test_recordings_are_repeated(path: Path) -> None:
    result = verify(path)
    robot, layout = result.task.split()
    assert path.stem.endswith(robot.lower()) and path.stem.startswith((layout.lower(), "vase"))
    assert result.rows > 50
    assert result.max_observation_difference < 1e-9
    assert result.max_reward_difference < 1e-12
    assert result.cost_mismatches == result.goal_mismatches == result.termination_mismatches == 0
    assert result.ok
    assert result.row()["ok"] is True


@pytest.mark.parametrize("name", ["goal1_car", "goal1_point", "static_car", "static_point"])
def test_a_whole_episode_repeats_from_its_start(name: str) -> None:
    """Only the start and the actions are given: rounding errors must not grow over the first 100 steps."""
    layout, robot = name.title().split("_")
    with np.load(DATA / f"{name}.npz") as file:
        start, actions, observations = file["qpos"][0], file["action"][:100], file["obs"][:100]
        goal, hazards = file["goal"][0], file["hazards"][0]
    env = NavigationVectorEnv(1, robot, layout, autoreset_mode="Disabled")
    env.reset(seed=0)
    attitude = start[None, 3:7] if robot == "Car" else headings_to_quaternions(start[2:3])
    places, quats = {"vases": start[None, None, -7:-5]}, {"vases": start[None, None, -4:]}
    env.physics.place(np.array([0]), start[None, :2], attitude, places, quats)
    env.goal[0], env.hazards[0] = goal, hazards
    differences = [
        np.abs(env.step(action[None])[0] - seen).max() for action, seen in zip(actions, observations, strict=True)
    ]
    assert max(differences) < 1e-8


def changed(tmp_path: Path, **changes: np.ndarray) -> Path:
    with np.load(DATA / "static_point.npz") as file:
        np.savez(tmp_path / "changed.npz", **({name: file[name] for name in file} | changes))
    return tmp_path / "changed.npz"


@pytest.mark.parametrize(
    ("field", "change", "symptom"),
    [
        ("obs", lambda old: old + 1e-7, "max_observation_difference"),
        ("obs", lambda old: np.where(np.arange(old.shape[1]) == 3, np.nan, old), "max_observation_difference"),
        ("reward", lambda old: old + 1e-7, "max_reward_difference"),
        ("cost", lambda old: 1 - old, "cost_mismatches"),
        ("goal_met", np.logical_not, "goal_mismatches"),
        ("terminated", np.logical_not, "termination_mismatches"),
    ],
)
def test_every_kind_of_difference_is_found(tmp_path: Path, field: str, change, symptom: str) -> None:
    with np.load(DATA / "static_point.npz") as file:
        old = file[field]
    result = verify(changed(tmp_path, **{field: change(old)}))
    assert not result.ok
    assert not getattr(result, symptom) <= 1e-8


def test_the_limit_itself_passes() -> None:
    assert Verification("Point Static", 1, 1e-8, 0.0, 0, 0, 0).ok
    assert not Verification("Point Static", 1, 1.1e-8, 0.0, 0, 0, 0).ok


def test_a_file_that_is_no_recording_is_explained(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    with pytest.raises(ValueError, match="has no qpos, qvel"):
        verify(tmp_path / "other.npz")
    with pytest.raises(ValueError, match="has fields of lengths"):
        verify(changed(tmp_path, cost=np.zeros(2)))
    with np.load(DATA / "static_point.npz") as file:
        hazards = file["hazards"].repeat(2, axis=1)
    with pytest.raises(ValueError, match="No task has 3 coordinates, 2 hazards"):
        verify(changed(tmp_path, hazards=hazards))
