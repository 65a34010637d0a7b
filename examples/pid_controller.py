"""A shield around a PID controller, learned from a log of the plant alone: no reinforcement learning, no environment.

A tank is filled through a valve and a slow pipe. The PID controller was tuned for speed: it winds up while the tank
fills and lets it overflow. The operators' log, a CSV file, holds levels, flows, valve openings and how far the tank
was from overflowing, the water in the pipe included. Run it:

    python examples/pid_controller.py
"""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path

import numpy as np
from gymnasium import spaces

import safexp

LIMIT, WANTED, LEAK = 1.0, 0.9, 0.3
STATES = spaces.Box(np.array([0.0, 0.0]), np.array([2.0, 1.0]), dtype=np.float64)  # level, flow in the pipe
VALVE = spaces.Box(0.0, 1.0, (1,), np.float64)
SHUT = np.array([0.0])


def plant(state: np.ndarray, valve: float) -> tuple[np.ndarray, float]:
    """The next state, and the margin: the room left in the tank once the pipe has run empty."""
    flow = state[1] + 0.5 * (valve - state[1])
    level = max(state[0] + 0.1 * (flow - LEAK), 0.0)
    return np.array([level, flow]), LIMIT - level - 0.1 * flow


def write_log(path: Path, rng: np.random.Generator, steps: int = 3000) -> None:
    """What cautious operators did: any valve opening while there is room, shut when there is little."""
    state = np.array([0.3, 0.0])
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["s0", "s1", "a0", "margin"])
        valve = 0.5
        for step in range(steps):
            if step % 20 == 0:
                valve = float(rng.choice([rng.uniform(0.0, 0.3), rng.uniform(0.3, 1.0)]))
            opening = 0.0 if state[0] + 0.1 * state[1] > LIMIT - 0.08 else valve
            following, margin = plant(state, opening)
            writer.writerow([*state, opening, margin])
            state = following


class PID:
    """An ordinary controller of the level."""

    def __init__(self, proportional: float = 3.0, integral: float = 0.4, derivative: float = 2.0) -> None:
        self.gains = proportional, integral, derivative
        self.sum = 0.0
        self.last = 0.0

    def __call__(self, state: np.ndarray) -> np.ndarray:
        error = WANTED - state[0]
        self.sum, change, self.last = self.sum + error, error - self.last, error
        return np.array([np.dot(self.gains, (error, self.sum, change))])  # the shield clips it to what the valve can do


def run(shield: safexp.Shield | None, steps: int = 200) -> tuple[float, float, dict[str, int]]:
    """The highest level, the mean distance from the wanted one in the second half, and what the shield did."""
    controller, state, levels = PID(), np.array([0.3, 0.0]), []
    policy = None
    if shield is not None:
        policy = safexp.ShieldedPolicy(controller, shield, safexp.Margin(), fallback=SHUT, deadline=0.05)
        policy.reset(state)
    for _ in range(steps):
        action = controller(state) if policy is None else policy.act(state).action
        state, margin = plant(state, float(np.clip(action[0], 0.0, 1.0)))
        if policy is not None:
            policy.observe(margin)
        levels.append(state[0])
    error = float(np.abs(np.array(levels[steps // 2 :]) - WANTED).mean())
    return max(levels), error, {} if policy is None else {kind: n for kind, n in policy.counts.items() if n}


def main() -> None:
    """Learn from the log, then control the tank with and without the shield."""
    quantifier = safexp.SparseGP("margin", num_inducing=48, first_steps=400)
    shield = safexp.Shield(quantifier, STATES, VALVE)
    with tempfile.TemporaryDirectory() as folder:
        write_log(Path(folder) / "log.csv", np.random.default_rng(0))
        shield.fit(Path(folder) / "log.csv")
    for name, around in [("PID alone", None), ("PID with a shield", shield)]:
        highest, error, counts = run(around)
        verdict = "overflows" if highest > LIMIT else "does not overflow"
        print(f"{name}: highest level {highest:.3f} ({verdict}), mean error {error:.3f} {counts or ''}")


if __name__ == "__main__":
    main()
