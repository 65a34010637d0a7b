"""How fast the Goal tasks step and reset, beside the bare physics of the same model in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Final

import numpy as np
from gymnasium.vector import AutoresetMode

from safexp.tasks.goal import GoalVectorEnv
from safexp.tasks.layouts import DYNAMIC, GOAL1, MOVING, STATIC
from safexp.tasks.robots import CAR, POINT

ROUNDS: Final = 10
"""Task and physics take turns this often, so that both meet the same machine; the fastest round counts."""


def measure(
    robots: Sequence[str] = (POINT.name, CAR.name),
    layouts: Sequence[str] = (STATIC.name, DYNAMIC.name, GOAL1.name, MOVING.name),
    batches: Sequence[int] = (1, 16, 64),
    threads: Sequence[int] = (1, 2),
    seconds: float = 0.2,
) -> list[dict[str, Any]]:
    """One row per task, batch and number of threads; a rate counts environment steps per second.

    `physics_steps_per_second` is `Batch.step` alone (ten substeps and a forward pass) on the same model from the same
    kind of starts under the same kind of actions; `share` is the task's rate over it. `steps_per_cpu_second` divides
    by the processor time of all threads instead, which tells more on a busy machine. `reset_microseconds` is the cost
    of one environment when the whole batch is reset, `lone_reset_microseconds` when one of the batch is.
    """
    return [_measure_task(*case, seconds) for case in product(robots, layouts, batches, threads)]


def _measure_task(robot: str, layout: str, batch: int, threads: int, seconds: float) -> dict[str, Any]:
    env = GoalVectorEnv(batch, robot, layout, threads=threads, autoreset_mode=AutoresetMode.SAME_STEP)
    env.reset(seed=0)
    bare = GoalVectorEnv(batch, robot, layout, threads=threads)
    bare.reset(seed=0)
    rng = np.random.default_rng(0)
    # A fresh action every ten steps drives the robots about; one at every step would only make them tremble.
    actions = np.repeat(rng.uniform(-1.0, 1.0, (50, batch, 2)), 10, axis=0)

    def task(step: int) -> None:
        env.step(actions[step % len(actions)])

    def physics(step: int) -> None:
        bare.physics.advance(actions[step % len(actions)])

    one = np.zeros(batch, dtype=np.bool_)
    one[0] = True
    rounds = [_rates(task, seconds / ROUNDS) + _rates(physics, seconds / ROUNDS) for _ in range(ROUNDS)]
    task_rate, task_cpu_rate, physics_rate, _ = (batch * float(best) for best in np.max(rounds, axis=0))
    resets, _ = _rates(lambda _: env.reset(), seconds / ROUNDS)
    lone_resets, _ = _rates(lambda _: env.reset(options={"reset_mask": one}), seconds / ROUNDS)
    return {
        "task": f"{robot} {layout}",
        "batch": batch,
        "threads": threads,
        "steps_per_second": round(task_rate),
        "physics_steps_per_second": round(physics_rate),
        "share": round(task_rate / physics_rate, 3),
        "steps_per_cpu_second": round(task_cpu_rate),
        "reset_microseconds": round(1e6 / (batch * resets), 1),
        "lone_reset_microseconds": round(1e6 / lone_resets, 1),
    }


def _rates(call: Callable[[int], object], seconds: float) -> tuple[float, float]:
    """Calls per second of wall time and of processor time, over at least `seconds` and two calls."""
    calls, begin, cpu_begin = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - begin < seconds or calls < 2:
        call(calls)
        calls += 1
    return calls / (time.perf_counter() - begin), calls / (time.process_time() - cpu_begin)
