"""Speed of the navigation tasks' steps and resets, compared with the physics of the same model in the same run."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from gymnasium.vector import AutoresetMode

from safexp.bench import safety_gymnasium_steps
from safexp.tasks.navigation import NavigationVectorEnv
from safexp.tasks.navigation.physics import FRESH, SUBSTEPS
from safexp.tasks.navigation.robots import CAR, POINT
from safexp.tasks.navigation.suite import LAYOUTS, SUITE

SLICE: Final = 0.02
"""Seconds of one measurement of one rate."""
SETTLING: Final = 60
"""Steps until objects that MuJoCo may put to sleep are asleep."""


def measure(
    robots: Sequence[str] = (POINT.name, CAR.name),
    layouts: Sequence[str] = tuple(LAYOUTS),
    batches: Sequence[int] = (1, 16, 64),
    threads: Sequence[int] = (1, 2),
    *,
    rounds: int = 10,
    peer: Path | None = None,
) -> list[dict[str, Any]]:
    """One row per task, batch and number of threads; a rate counts environment steps per second.

    `physics_steps_per_second` is `Batch.step` alone (ten substeps and a forward pass) on the same model from the same
    kind of starts under the same kind of actions. `steps_per_cpu_second` divides by the processor time of all threads
    instead, which is more reliable on a busy machine, and `share` compares it with that of the physics; it can exceed
    1, since a task reads its sensors once and `Batch.step` computes them at every substep.
    `reset_microseconds` is the cost of one environment when the whole batch is reset, `lone_reset_microseconds` when
    one of the batch is.

    `peer` is a Python interpreter with Safety-Gymnasium: `peer_steps_per_cpu_second` is the rate of its own task in the
    same run, without resets, and `times_peer` how many times as fast ours is.

    All cases take turns, `rounds` times, under the same load of the machine; the fastest measurement counts.
    """
    cases = [_TaskCase(*case) for case in product(robots, layouts, batches, threads)]
    with _Peer(peer) as original:
        for _ in range(rounds):
            for case in cases:
                case.measure_round()
                original.measure_round(case.task)
        return [case.row() | original.row(case) for case in cases]


class _TaskCase:
    """One task, batch size and number of threads, and the best rates so far."""

    def __init__(self, robot: str, layout: str, batch: int, threads: int) -> None:
        self.task = f"{robot} {layout}"
        self._names = {"task": self.task, "batch": batch, "threads": threads}
        self._batch = batch
        self._task, self._twin, self._fresh = (
            NavigationVectorEnv(batch, robot, layout, threads=threads, autoreset_mode=AutoresetMode.SAME_STEP)
            for _ in range(3)
        )
        self._physics = self._twin.physics.batch
        self._ctrl = self._physics.bind("ctrl")
        # A new action every ten steps moves the robots around; one at every step would only make them tremble.
        self._actions = np.random.default_rng(0).uniform(-1.0, 1.0, (50, batch, 2)).repeat(10, axis=0)
        self._one = np.arange(batch) == 0
        self._calls = 0
        self._best = np.zeros(6)
        for envs in (self._task, self._twin, self._fresh):
            envs.reset(seed=0)
        for envs in (self._task, self._twin) if self._task.layout.sleep else ():
            for _ in range(SETTLING):
                envs.step(self._action())

    @property
    def steps_per_cpu_second(self) -> float:
        """The best rate of the task so far."""
        return float(self._batch * self._best[1])

    def measure_round(self) -> None:
        """Measure every rate once more."""
        task, task_cpu = _rates(lambda: self._task.step(self._action()))
        physics, physics_cpu = _rates(self._step_physics)
        lone_reset, _ = _rates(lambda: self._fresh.reset(options={"reset_mask": self._one}))
        reset, _ = _rates(self._fresh.reset)
        self._best = np.maximum(self._best, [task, task_cpu, physics, physics_cpu, reset, lone_reset])

    def row(self) -> dict[str, Any]:
        """The best rates as a row of a table."""
        task, _, physics, physics_cpu, reset, lone_reset = self._best.tolist()
        return self._names | {
            "steps_per_second": round(self._batch * task),
            "physics_steps_per_second": round(self._batch * physics),
            "steps_per_cpu_second": round(self.steps_per_cpu_second),
            "share": round(self.steps_per_cpu_second / (self._batch * physics_cpu), 3),
            "reset_microseconds": round(1e6 / (self._batch * reset), 1),
            "lone_reset_microseconds": round(1e6 / lone_reset, 1),
        }

    def _step_physics(self) -> None:
        if self._twin.layout.gremlins:
            self._twin.physics.advance(self._action())  # applied at every substep
            return
        self._ctrl[:] = self._action()
        self._physics.step(nstep=SUBSTEPS, stage=FRESH)

    def _action(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        self._calls += 1
        return self._actions[self._calls % len(self._actions)]


class _Peer:
    """Safety-Gymnasium in another interpreter, if there is one, and the best rates of its tasks so far."""

    def __init__(self, python: Path | None) -> None:
        self._python = python
        self._process: subprocess.Popen[str] | None = None
        self._best: dict[str, float] = {}
        self._ids = {
            f"{robot.name} {layout.name}": f"Safety{robot.name}{layout.name}-v0"
            for robot in (POINT, CAR)
            for layout in SUITE
        }

    def __enter__(self) -> Self:
        if self._python is not None:
            script = [str(self._python), "-W", "ignore", safety_gymnasium_steps.__file__]
            self._process = subprocess.Popen(
                script, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def measure_round(self, task: str) -> None:
        """Measure the rate of a task once more."""
        if self._process is None or task not in self._ids:
            return
        assert self._process.stdin is not None and self._process.stdout is not None and self._process.stderr is not None
        try:
            print(self._ids[task], file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            last = self._process.stderr.read().strip().rpartition("\n")[2]
            raise ValueError(f"{self._python} could not step {self._ids[task]}: {last}")
        self._best[task] = max(self._best.get(task, 0.0), float(answer))

    def row(self, case: _TaskCase) -> dict[str, Any]:
        """Its best rate on the task of a case, and how many times as fast ours is."""
        if case.task not in self._best:
            return {}
        rate = self._best[case.task]
        return {
            "peer_steps_per_cpu_second": round(rate),
            "times_peer": round(case.steps_per_cpu_second / rate, 2),
        }


def _rates(call: Callable[[], object]) -> tuple[float, float]:
    """Calls per second of wall time and of processor time, over one measurement and at least two calls."""
    calls, begin, cpu_begin = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - begin < SLICE or calls < 2:
        call()
        calls += 1
    return calls / (time.perf_counter() - begin), calls / (time.process_time() - cpu_begin)
