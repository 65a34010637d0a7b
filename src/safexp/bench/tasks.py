"""How fast the Goal tasks step and reset, beside the bare physics of the same model in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Final

import numpy as np
from gymnasium.vector import AutoresetMode

from safexp.tasks.navigation import NavigationVectorEnv
from safexp.tasks.navigation.layouts import DYNAMIC, MOVING, STATIC
from safexp.tasks.navigation.physics import FRESH, SUBSTEPS
from safexp.tasks.navigation.robots import CAR, POINT
from safexp.tasks.navigation.suite import GOAL1

SLICE: Final = 0.02
"""Seconds for one look at one rate."""


def measure(
    robots: Sequence[str] = (POINT.name, CAR.name),
    layouts: Sequence[str] = (STATIC.name, DYNAMIC.name, GOAL1.name, MOVING.name),
    batches: Sequence[int] = (1, 16, 64),
    threads: Sequence[int] = (1, 2),
    rounds: int = 10,
) -> list[dict[str, Any]]:
    """One row per task, batch and number of threads; a rate counts environment steps per second.

    `physics_steps_per_second` is `Batch.step` alone (ten substeps and a forward pass) on the same model from the same
    kind of starts under the same kind of actions. `steps_per_cpu_second` divides by the processor time of all threads
    instead, which tells more on a busy machine, and `share` compares it with the same of the physics; it can exceed 1,
    since a task reads its sensors once and `Batch.step` computes them at every substep.
    `reset_microseconds` is the cost of one environment when the whole batch is reset, `lone_reset_microseconds` when
    one of the batch is.

    All cases take turns, `rounds` times, so that all meet the same machine; the fastest look counts.
    """
    cases = [_Case(*case) for case in product(robots, layouts, batches, threads)]
    for _ in range(rounds):
        for case in cases:
            case.look()
    return [case.row() for case in cases]


class _Case:
    """One task, batch and number of threads, and the best rates seen so far."""

    def __init__(self, robot: str, layout: str, batch: int, threads: int) -> None:
        self._names = {"task": f"{robot} {layout}", "batch": batch, "threads": threads}
        self._batch = batch
        self._task = NavigationVectorEnv(batch, robot, layout, threads=threads, autoreset_mode=AutoresetMode.SAME_STEP)
        self._task.reset(seed=0)
        twin = NavigationVectorEnv(batch, robot, layout, threads=threads)
        twin.reset(seed=0)
        self._physics = twin.physics.batch
        self._ctrl = self._physics.bind("ctrl")
        # A fresh action every ten steps drives the robots about; one at every step would only make them tremble.
        self._actions = np.random.default_rng(0).uniform(-1.0, 1.0, (50, batch, 2)).repeat(10, axis=0)
        self._one = np.arange(batch) == 0
        self._calls = 0
        self._best = np.zeros(6)

    def look(self) -> None:
        """Measure every rate once more."""
        task, task_cpu = _rates(lambda: self._task.step(self._action()))
        physics, physics_cpu = _rates(self._step_physics)
        lone_reset, _ = _rates(lambda: self._task.reset(options={"reset_mask": self._one}))
        reset, _ = _rates(self._task.reset)
        self._best = np.maximum(self._best, [task, task_cpu, physics, physics_cpu, reset, lone_reset])

    def row(self) -> dict[str, Any]:
        """The best rates, for a table or JSON."""
        task, task_cpu, physics, physics_cpu, reset, lone_reset = self._best.tolist()
        return self._names | {
            "steps_per_second": round(self._batch * task),
            "physics_steps_per_second": round(self._batch * physics),
            "steps_per_cpu_second": round(self._batch * task_cpu),
            "share": round(task_cpu / physics_cpu, 3),
            "reset_microseconds": round(1e6 / (self._batch * reset), 1),
            "lone_reset_microseconds": round(1e6 / lone_reset, 1),
        }

    def _step_physics(self) -> None:
        self._ctrl[:] = self._action()
        self._physics.step(nstep=SUBSTEPS, stage=FRESH)

    def _action(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        self._calls += 1
        return self._actions[self._calls % len(self._actions)]


def _rates(call: Callable[[], object]) -> tuple[float, float]:
    """Calls per second of wall time and of processor time, over one slice and at least two calls."""
    calls, begin, cpu_begin = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - begin < SLICE or calls < 2:
        call()
        calls += 1
    return calls / (time.perf_counter() - begin), calls / (time.process_time() - cpu_begin)
