"""Latency and memory of a deployed shield over many decisions.

A sparse Gaussian process with 128 inducing points learns the margins of `PointGoalStatic` from a log of robots that
drive straight ahead, also through the hazard; decisions for other drives are made one at a time, with 64 candidates.
"""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path
from typing import Any, Final

import gymnasium as gym
import numpy as np
import torch as th
from numpy.typing import NDArray

from safexp.bench.compiled import as_long, footprint
from safexp.quantifiers import SparseGP
from safexp.shield.compiled_shield import CompiledShield
from safexp.shield.logs import Log
from safexp.shield.shield import Shield

TASK: Final = "safexp/PointGoalStatic-v0"
ROBOTS: Final = 50
STEPS: Final = 200
SEED: Final = 1000
THRESHOLD: Final = 0.5
"""Threshold of the shield: below 1, so that the quantifier decides."""

OUTCOMES: Final = ("as proposed", "replaced", "nothing safe")
BLOCKS: Final = 10
"""Number of times memory is measured."""

REPEATS: Final = 7
"""Times that a question is asked for the shortest time of its decision, which no interrupt lengthened."""


def measure(
    decisions: int = 1_000_000, settings: dict[str, Any] | None = None, *, compiled: bool = False
) -> list[dict[str, Any]]:
    """A row for all decisions, and one for each outcome; with `compiled`, the same rows for the shield in C.

    `p50_us` and so on are wall times, which include the load of the machine; `cpu_p50_us` are the processor times of
    the same decisions. `memory_mb` is the resident memory of the process after set-up, and `grown_kb` its growth from
    the first measurement, after a tenth of the decisions, to the last. In the rows of the compiled shield, which takes
    the same decisions in turn, `code_kb` and so on are the size of its code with its tables, of the struct that the
    caller owns, and the stack that a decision uses.

    The times of a decision in C vary with interrupts, which may be longer than the decision, and with its question. Two
    further kinds of rows tell these apart: a loop that does the same every time varies with interrupts alone; the
    shortest time of every different question, asked several times, varies with the question alone.
    """
    if decisions < BLOCKS:
        raise ValueError(f"decisions={decisions} must be at least {BLOCKS}.")
    threads = th.get_num_threads()
    th.set_num_threads(1)
    try:
        shield, questions = set_up(settings or {})
    finally:
        th.set_num_threads(threads)
    times, in_c = np.ones((2, 2, decisions), dtype=np.int64)  # written, so that they are in memory from the start
    outcomes, outcomes_in_c = np.ones((2, decisions), dtype=np.int8)
    fast = CompiledShield(shield) if compiled else None
    gc.collect()
    begin, memory = resident(), []
    for block in np.array_split(np.arange(decisions), BLOCKS):
        _decide(shield, questions, int(block[0]), int(block[-1]) + 1, times[0], times[1], outcomes)
        memory.append(resident())
        if fast is not None:
            outcomes_in_c[block], in_c[:, block] = _timed(fast, questions, block % len(questions.actions))
    what = {"memory_mb": round(begin / 2**20, 1), "grown_kb": round((memory[-1] - memory[0]) / 2**10, 1)}
    rows = _rows("Shield.filter, SparseGP, 64 candidates", times, outcomes, what)
    if fast is None:
        return rows
    if (outcomes != outcomes_in_c).any():
        raise RuntimeError(f"the compiled shield decided differently {(outcomes != outcomes_in_c).sum()} times.")
    size = footprint(shield, questions, THRESHOLD)
    rows = [row | dict.fromkeys(size) for row in rows]
    rows += _rows("the same in C", in_c, outcomes_in_c, dict.fromkeys(what) | size)
    different = np.arange(min(decisions, len(questions.actions)))
    again = [_timed(fast, questions, different) for _ in range(REPEATS)]
    shortest = np.min([times for _, times in again], axis=0)
    name = f"each different question, shortest of {REPEATS}"
    rows += _rows(name, shortest, again[0][0], dict.fromkeys(what) | dict.fromkeys(size))
    for code, name in enumerate(OUTCOMES):
        if (chosen := outcomes_in_c == code).any():
            wall, cpu = as_long(fast, float(np.median(in_c[0, chosen])), int(chosen.sum()))
            rows.append(
                _row(f"  a fixed loop as long as {name}", wall, cpu) | dict.fromkeys(what) | dict.fromkeys(size)
            )
    return rows


def _rows(
    what: str, times: NDArray[np.int64], outcomes: NDArray[np.int8], more: dict[str, Any]
) -> list[dict[str, Any]]:
    """A row for all decisions, with further columns, and one for each outcome."""
    rows = [_row(what, times[0], times[1]) | more]
    for code, name in enumerate(OUTCOMES):
        if (chosen := outcomes == code).any():
            rows.append(_row(f"  {name}", times[0, chosen], times[1, chosen]) | dict.fromkeys(more))
    return rows


def set_up(settings: dict[str, Any]) -> tuple[Shield, Log]:
    """A fitted shield, and questions that it has not learned from."""
    envs = gym.make_vec(TASK, num_envs=ROBOTS)
    shield = Shield(SparseGP("margin", **settings), envs.single_observation_space, envs.single_action_space)
    shield.fit(_drives(envs, SEED))
    questions = _drives(envs, SEED + 1)
    envs.close()
    return shield, questions


def _drives(envs: Any, seed: int) -> Log:
    """Log of robots that drive ahead with a little noise, each with its own speed and curvature."""
    rng = np.random.default_rng(seed)
    lead = np.stack([rng.uniform(0.2, 1.0, ROBOTS), rng.uniform(-0.3, 0.3, ROBOTS)], axis=1)
    states, _ = envs.reset(seed=seed)
    rows = []
    for _ in range(STEPS):
        actions = np.clip(lead + 0.3 * rng.standard_normal(lead.shape), -1.0, 1.0).astype(np.float32)
        following, _, _, _, infos = envs.step(actions)
        rows.append((states, actions, infos["cost"], infos["margin"]))
        states = following
    states, actions, costs, margins = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    return Log(states, actions, costs, margins=margins)


def _decide(
    shield: Shield,
    questions: Log,
    begin: int,
    end: int,
    wall: NDArray[np.int64],
    cpu: NDArray[np.int64],
    outcomes: NDArray[np.int8],
) -> None:
    """Time decisions number `begin` to `end`, in nanoseconds."""
    states, actions = questions.observations, questions.actions
    for k in range(begin, end):
        state, action = states[k % len(states)], actions[k % len(states)]
        busy, start = time.thread_time_ns(), time.perf_counter_ns()
        decision = shield.filter(state, action, THRESHOLD)
        wall[k], cpu[k] = time.perf_counter_ns() - start, time.thread_time_ns() - busy
        outcomes[k] = 2 if decision.stopped else int(decision.intervened)


def _timed(
    fast: CompiledShield, questions: Log, asked: NDArray[np.int64]
) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """Outcomes (n,) of these questions in C, and their wall and processor times (2, n) in nanoseconds."""
    limits = np.full(len(asked), THRESHOLD)
    found, wall, cpu = fast.timed(questions.observations[asked], questions.actions[asked], limits)
    return np.minimum(found, 2).astype(np.int8), np.stack([wall, cpu])


def _row(what: str, wall: NDArray[np.int64], cpu: NDArray[np.int64]) -> dict[str, Any]:
    cells: dict[str, Any] = {"what": what, "decisions": len(wall)}
    for prefix, times in [("", wall), ("cpu_", cpu)]:
        for name, q in [("p50", 50), ("p99", 99), ("p99.9", 99.9)]:
            cells[f"{prefix}{name}_us"] = _digits(float(np.percentile(times, q)) / 1e3)
    return cells | {"longest_us": _digits(float(wall.max()) / 1e3)}


def _digits(microseconds: float) -> float:
    """A time with three digits."""
    return float(f"{microseconds:.3g}") if microseconds < 100 else round(microseconds)


def resident() -> int:
    """Resident memory of this process in bytes; 0 on systems other than Linux."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0
