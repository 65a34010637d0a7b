"""Script that measures steps per CPU-second of Safety-Gymnasium's tasks, for an interpreter that has it.

It reads the id of a task from every line of its input and writes one line with the rate over the next steps. A module
`safety_gymnasium_shim`, if there is one, is imported first. safexp is not needed.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from typing import Any

import numpy as np

STRETCH = 50
"""Steps of one measurement."""


def main() -> None:
    """Measure one task per line until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keeps the package's own output apart from the results
    if importlib.util.find_spec("safety_gymnasium_shim"):
        os.environ.setdefault("SHIMS", "color,compat,wrappers,spec,jnt")
        importlib.import_module("safety_gymnasium_shim")
    make = importlib.import_module("safety_gymnasium").make
    envs: dict[str, Any] = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in envs:
            envs[name] = make(name).unwrapped
            envs[name].reset(seed=0)
        print(_rate(envs[name]), file=answers, flush=True)


def _rate(env: Any) -> float:
    """Steps per second of processor time; a reset in between is not counted."""
    actions = np.random.default_rng(env.steps).uniform(-1.0, 1.0, (STRETCH // 10, 2)).repeat(10, axis=0)
    if env.done or env.steps + STRETCH > env.task.num_steps:
        env.reset()
    begin, steps = time.process_time(), 0
    for action in actions:
        env.step(action)
        steps += 1
        if env.done:
            break
    return steps / (time.process_time() - begin)


if __name__ == "__main__":
    main()
