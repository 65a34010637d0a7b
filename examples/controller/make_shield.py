"""Learn a current limiter for a motor from a log, and export it as C: shield.c and shield.h.

    python examples/controller/make_shield.py [folder]

The log comes from a cautious speed controller on a simulated motor; `controller.c` drives the same motor boldly.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from gymnasium import spaces

import safexp

LIMIT = 10.0  # A
VOLTS = 24.0
RESISTANCE, INDUCTANCE, CONSTANT, INERTIA, STEP = 0.5, 5e-3, 0.1, 1e-3, 1e-3


def motor(state: np.ndarray, volts: float, load: float) -> np.ndarray:
    """Current (A) and speed (rad/s) a millisecond later; the same as in controller.c."""
    current, speed = state
    change = (volts - RESISTANCE * current - CONSTANT * speed) / INDUCTANCE
    torque = CONSTANT * current - load - 1e-3 * speed
    return np.array([current + STEP * change, speed + STEP * torque / INERTIA])


def log(episodes: int = 80, steps: int = 120, seed: int = 0) -> safexp.Log:
    """Log of a cautious controller, with some noise on its voltage."""
    rng, rows = np.random.default_rng(seed), []
    for episode in range(episodes):
        state, aim = np.array([0.0, rng.uniform(-80, 80)]), rng.uniform(-120, 120)
        for _ in range(steps):
            wanted = np.clip(0.15 * (aim - state[1]), -7, 7)
            ideal = CONSTANT * state[1] + RESISTANCE * state[0] + 0.35 * (wanted - state[0]) * INDUCTANCE / STEP
            volts = float(np.clip(ideal + 3.0 * rng.normal(), -VOLTS, VOLTS))
            after = motor(state, volts, 0.1 * np.sign(state[1]))
            rows.append((state, [volts], after, episode))
            state = after
    states, actions, following, numbers = map(np.array, zip(*rows, strict=True))
    return safexp.Log(states, actions, episodes=numbers, next_observations=following)


def main(folder: Path) -> None:
    """Fit the shield and export it."""
    shield = safexp.Shield(
        safexp.Calibrated(safexp.FeatureRegression(num_features=64)),
        spaces.Box(np.array([-50.0, -400.0]), np.array([50.0, 400.0]), dtype=np.float64),
        spaces.Box(-VOLTS, VOLTS, (1,), np.float64),
        constraint=safexp.Within(0, low=-LIMIT, high=LIMIT),
    )
    shield.fit(log())
    shield.export_c(folder / "shield.c")
    print(f"{folder / 'shield.c'}, {folder / 'shield.h'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
