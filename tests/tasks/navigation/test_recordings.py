"""Recorded transitions of Safety-Gymnasium, replayed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from safexp.tasks.navigation import NavigationVectorEnv
from safexp.tasks.navigation.recordings import Verification, put, verify
from safexp.tasks.navigation.robots import headings_to_quaternions
from safexp.tasks.navigation.suite import SUITE, layout_named

DATA = Path(__file__).parents[2] / "data"
SUITE_RECORDINGS = [
    DATA / f"{layout.name.lower()}_{robot}.npz"
    for layout in SUITE
    for robot in ("point", "car")
    if layout.name != "Goal1"  # whose recordings are older
]


@pytest.mark.parametrize("path", sorted(DATA.glob("*_[cp]*.npz")), ids=lambda path: path.stem)
def test_recordings_are_repeated(path: Path) -> None:
    result = verify(path)
    robot, layout = result.task.split()
    assert path.stem.endswith(robot.lower()) and path.stem.startswith((layout.lower(), "vase"))
    assert result.rows > 50
    assert result.max_observation_difference < 1e-9
    assert result.max_reward_difference < 1e-11
    assert result.cost_mismatches == result.goal_mismatches == result.termination_mismatches == 0
    assert result.ok
    assert result.row()["ok"] is True
    with np.load(path) as file:
        has_state = "qpos_after" in file
    if has_state and not layout_named(layout).sleep:
        assert result.max_state_difference == 0.0, "the same model from the same state"
    elif has_state:
        assert result.max_state_difference < 1e-7, "what has just fallen asleep lost no more than it is at rest by"
    else:
        assert np.isnan(result.max_state_difference)


def test_the_recordings_hold_what_can_happen() -> None:
    for path in SUITE_RECORDINGS:
        with np.load(path) as file:
            for name in file:
                if name.startswith("cost_"):
                    assert 5 <= np.count_nonzero(file[name]) <= len(file[name]) - 5, (path.stem, name)
            if "goal" in file:
                assert np.count_nonzero(file["goal_met"]) >= 5, path.stem


@pytest.mark.parametrize("path", SUITE_RECORDINGS, ids=lambda path: path.stem)
def test_the_suite_repeats_from_its_starts(path: Path) -> None:
    """Only the start and the actions are given, for 30 steps; goals that move are put where the recording has them."""
    with np.load(path) as file:
        rows = {name: file[name] if name == "task" else file[name][:30] for name in file}
    name = str(rows["task"]).removeprefix("Safety").removesuffix("-v0")
    robot = "Point" if name.startswith("Point") else "Car"
    env = NavigationVectorEnv(1, robot, name.removeprefix(robot), autoreset_mode="Disabled")
    env.reset(seed=0)
    put(env, {field: values[:1] for field, values in rows.items() if field != "task"})
    differences = []
    for step in range(30):
        env.step(rows["action"][step : step + 1])
        for field in ("goal", "goal_button"):
            if field in rows:
                getattr(env, field)[:] = rows[f"{field}_after"][step]
        differences.append(np.abs(env.observe(slice(None))[0] - rows["obs"][step]).max())
    assert max(differences) < (1e-8 if env.layout.sleep else 1e-13)


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


@pytest.mark.parametrize("part", ["cost_buttons", "cost_hazards", "cost_gremlins"])
def test_every_part_of_the_cost_is_compared(tmp_path: Path, part: str) -> None:
    with np.load(DATA / "button1_point.npz") as file:
        rows = {name: file[name] for name in file}
    rows[part][7] = 1 - rows[part][7]
    np.savez(tmp_path / "changed.npz", **rows)
    assert verify(tmp_path / "changed.npz").cost_mismatches == 1


def test_a_recording_of_another_task_is_explained(tmp_path: Path) -> None:
    with np.load(DATA / "run0_point.npz") as file:
        rows = {name: file[name] for name in file} | {"task": np.array("SafetyDoggoRun0-v0")}
    np.savez(tmp_path / "doggo.npz", **rows)
    with pytest.raises(ValueError, match="The recording is of 'SafetyDoggoRun0-v0'; expected SafetyPoint"):
        verify(tmp_path / "doggo.npz")
    del rows["frame_pos"]
    np.savez(tmp_path / "less.npz", **rows)
    with pytest.raises(ValueError, match="has no frame_pos; expected a recording with"):
        verify(tmp_path / "less.npz")


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
