"""Record transitions of Safety-Gymnasium's navigation tasks, for `safexp tasks verify`.

Run it in a separate environment with safety-gymnasium 1.0.0; safexp is not needed there:

    python tools/record_safety_gymnasium.py SafetyPointButton1-v0 button1_point.npz --rows 300 --seed 0

A module `safety_gymnasium_shim` on the path, if there is one, is imported first: it can make the package start on
newer versions of its dependencies. The fields of the file are described in `safexp.tasks.navigation.recordings`.

The driver alternates between random actions, the goal, and collisions with objects. Steps with an event (a cost, a
goal, a contact of the robot or the box) fill up to two thirds of the rows; the first steps of the first episode and an
even sample of the others fill the rest.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np

KINDS = ("hazards", "pillars", "buttons", "vases", "gremlins")
"""Kinds of objects."""
FIXED = {"pillars": "pillar", "buttons": "button"}
"""Objects whose pose belongs to the model and not to the state, and the prefix of their bodies' names."""
STRETCH = 60
"""Steps for which the driver keeps one plan."""
HEAD = 60
"""Consecutive steps kept from the first start, to be replayed as a trajectory."""


def main() -> None:
    """Drive, choose rows, write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", help="an id of Safety-Gymnasium, such as SafetyCarPush2-v0")
    parser.add_argument("out", type=Path, help="the .npz file to write")
    parser.add_argument("--rows", type=int, default=300, help="transitions to keep")
    parser.add_argument("--steps", type=int, default=3000, help="transitions to drive")
    parser.add_argument("--episode", type=int, default=500, help="steps after which a new episode is started")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    rows = drive(args.task, args.steps, args.episode, np.random.default_rng(args.seed))
    chosen = choose(rows, args.rows, np.random.default_rng(args.seed))
    arrays = {name: np.array([rows[k][name] for k in chosen]) for name in rows[0] if name != "eventful"}
    np.savez_compressed(args.out, task=np.array(args.task), **arrays)
    costs = {name: int(np.sum(arrays[name] > 0)) for name in arrays if name.startswith("cost")}
    print(f"{args.out}: {len(chosen)} of {len(rows)} steps; {int(arrays['goal_met'].sum())} goals; {costs}")


def make(task: str) -> Any:
    """The original environment."""
    if importlib.util.find_spec("safety_gymnasium_shim"):
        os.environ.setdefault("SHIMS", "color,compat,wrappers,spec,jnt")
        import safety_gymnasium_shim  # noqa: F401
    import safety_gymnasium

    return safety_gymnasium.make(task).unwrapped


def drive(name: str, steps: int, episode_steps: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Drive for `steps` transitions, each with the state before it, the action, and the outcome."""
    env = make(name)
    rows: list[dict[str, Any]] = []
    for episode in range(-(-steps // episode_steps)):
        env.reset(seed=int(rng.integers(2**31)))
        target, hold = None, np.zeros(2)
        for step in range(min(episode_steps, steps - len(rows))):
            if step % STRETCH == 0:
                target = pick_target(env.task, rng)
            if step % 10 == 0:
                hold = rng.uniform(-1.2, 1.2, 2)
            action = hold if target is None else seek(env.task, target, rng)
            before = state(env.task)
            observation, reward, cost, terminated, truncated, info = env.step(action)
            after = outcome(env.task, info)
            rows.append(
                {"episode": episode, "step": step, **before, "action": action}
                | {"obs": observation, "reward": reward, "cost": cost, "terminated": terminated, **after}
            )
            if terminated or truncated:
                break
    parts = {part for row in rows for part in row if part.startswith("cost_")}
    return [dict.fromkeys(sorted(parts), 0.0) | row for row in rows]  # a part can be missing while it is suspended


def state(task: Any) -> dict[str, Any]:
    """Everything that the next step depends on, in MuJoCo's own coordinates."""
    model, data = task.model, task.data
    found: dict[str, Any] = {
        "frame_pos": model.body("agent").pos.copy(),
        "frame_quat": model.body("agent").quat.copy(),
        "qpos0": model.qpos0.copy(),
        "time": data.time,
        "qpos": data.qpos.copy(),
        "qvel": data.qvel.copy(),
        "qacc_warmstart": data.qacc_warmstart.copy(),
    }
    if model.nmocap:
        found["mocap_pos"] = data.mocap_pos.copy()
        found["mocap_quat"] = data.mocap_quat.copy()
        found["weld_anchors"] = model.eq_data[:, 3:10].copy()
    if hasattr(task, "goal"):
        found["goal"] = task.goal.pos[:2].copy()
    for kind in ("hazards", *FIXED):
        if hasattr(task, kind):
            found[kind] = np.array([position[:2] for position in getattr(task, kind).pos])
    for kind, prefix in FIXED.items():
        if hasattr(task, kind):
            names = [f"{prefix}{k}" for k in range(getattr(task, kind).num)]
            found[f"{kind}_quat"] = np.array([model.body(name).quat for name in names])
    if hasattr(task, "push_box"):
        found["last_distance"] = task.last_dist_box + task.last_box_goal
    elif hasattr(task, "last_dist_goal"):
        found["last_distance"] = task.last_dist_goal
    elif hasattr(task, "old_potential"):
        found["last_distance"] = -float(task.old_potential)
    if hasattr(task, "buttons"):
        found["goal_button"], found["timer"] = int(task.buttons.goal_button), int(task.buttons.timer)
    return found


def outcome(task: Any, info: dict[str, Any]) -> dict[str, Any]:
    """Outcome of a step, beyond what it returned."""
    model, data = task.model, task.data
    found = {name: float(value) for name, value in info.items() if name.startswith("cost_") and name != "cost_sum"}
    found |= {"goal_met": bool(info.get("goal_met", False))}
    found |= {"qpos_after": data.qpos.copy(), "qvel_after": data.qvel.copy()}
    if hasattr(task, "goal"):
        found["goal_after"] = task.goal.pos[:2].copy()
    if hasattr(task, "buttons"):
        found["goal_button_after"] = int(task.buttons.goal_button)
    own = set(task.agent.body_info.geom_names)
    pairs = [{model.geom(contact.geom1).name, model.geom(contact.geom2).name} for contact in data.contact[: data.ncon]]
    touching = any("floor" not in pair and (pair & own or "push_box" in pair) for pair in pairs)
    found["eventful"] = touching or found["goal_met"] or info.get("cost_sum", 0) > 0
    return found


def pick_target(task: Any, rng: np.random.Generator) -> Any:
    """Function that returns the current target of the driver, or None for random actions."""
    options: list[Any] = [None]
    if hasattr(task, "push_box"):
        options += [lambda: behind_box(task)] * 4
        if rng.random() < 0.5:
            aim(task)
    elif hasattr(task, "goal"):
        options += [lambda: task.goal.pos[:2]] * 4
    for kind in KINDS:
        if hasattr(task, kind):
            thing = int(rng.integers(getattr(task, kind).num))
            options.append(lambda kind=kind, thing=thing: getattr(task, kind).pos[thing][:2])
    if not hasattr(task, "goal"):
        angle = rng.uniform(0, 2 * np.pi)
        place = task.agent.pos[:2] + 3 * np.array([np.cos(angle), np.sin(angle)])
        options += [lambda: place] * 2
        if hasattr(task, "circle"):
            options += [lambda: circling(task)] * 2
    return options[rng.integers(len(options))]


def aim(task: Any) -> None:
    """Put the goal where the robot would push the box if it drove straight on: few pushes reach it otherwise."""
    import mujoco

    box, robot = task.push_box.pos[:2], task.agent.pos[:2]
    task._set_goal(box + 0.5 * (box - robot) / (np.linalg.norm(box - robot) + 1e-9))
    mujoco.mj_forward(task.model, task.data)
    task.last_dist_goal, task.last_dist_box = task.dist_goal(), task.dist_box()
    task.last_box_goal = task.dist_box_goal()


def behind_box(task: Any) -> np.ndarray:
    """Position of the box if the robot stands behind it as seen from the goal, otherwise a position behind it."""
    box, goal, robot = task.push_box.pos[:2], task.goal.pos[:2], task.agent.pos[:2]
    ahead = (goal - box) / (np.linalg.norm(goal - box) + 1e-9)
    offset = robot - box
    along, aside = offset @ ahead, abs(offset[0] * ahead[1] - offset[1] * ahead[0])
    if along < -0.1 and aside < 0.15:
        return box + ahead
    side = np.array([-ahead[1], ahead[0]]) * np.sign(offset[0] * -ahead[1] + offset[1] * ahead[0] or 1.0)
    return box - 0.6 * ahead + (0.6 * side if along > -0.3 else 0.0)


def circling(task: Any) -> np.ndarray:
    """Position ahead on the circle, counter-clockwise."""
    x, y = task.agent.pos[:2]
    angle = np.arctan2(y, x) + 0.5
    return task.circle.radius * np.array([np.cos(angle), np.sin(angle)])


def seek(task: Any, target: Any, rng: np.random.Generator) -> np.ndarray:
    """Action that steers towards the position `target()`, with noise."""
    point = task.agent_name == "Point"
    offset = (np.append(target(), 0.0) - task.agent.pos) @ task.agent.mat
    ahead, left = (offset[0], offset[1]) if point else (-offset[1], offset[0])
    turn = np.arctan2(left, ahead)
    if point:
        action = np.array([max(np.cos(turn), 0.0), 1.5 * turn]) + 0.1 * rng.standard_normal(2)
    else:  # the wheels saturate at 0.02
        action = 0.02 * (np.cos(turn) + np.array([turn, -turn]) + 0.2 * rng.standard_normal(2))
    return np.clip(action, -1.0, 1.0)


def choose(rows: list[dict[str, Any]], count: int, rng: np.random.Generator) -> np.ndarray:
    """Indices of the rows to keep, in order."""
    eventful = np.array([row["eventful"] for row in rows])
    rare = np.zeros(len(rows))
    for name in ("goal_met", *(name for name in rows[0] if name.startswith("cost_"))):
        happened = np.array([row[name] > 0 for row in rows])
        rare = np.maximum(rare, happened / max(1, happened.sum()))
    head = np.arange(min(HEAD, len(rows)))
    order = np.lexsort((rng.random(len(rows)), -rare, ~eventful))
    events = [k for k in order if eventful[k] and k >= len(head)][: max(0, 2 * (count - len(head)) // 3)]
    others = [k for k in rng.permutation(len(rows)) if k >= len(head) and k not in set(events)]
    return np.sort(np.concatenate([head, events, others[: max(0, count - len(head) - len(events))]]).astype(int))


if __name__ == "__main__":
    main()
