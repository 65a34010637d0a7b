"""Gymnasium's InvertedPendulum-v5 on a cart that follows a jumping set point, within limits on position and angle."""

from __future__ import annotations

import gymnasium as gym

from safexp.constraints import Within
from safexp.studies.field.system import System
from safexp.tasks.pendulum import ANGLE, HORIZON, POSITION, follow_cautiously, regulate

PENDULUM = System(
    make=lambda: gym.make("safexp/PendulumReach-v0"),
    limits=Within((0, 1), low=[-POSITION, -ANGLE], high=[POSITION, ANGLE]),
    reading=lambda env: [
        (-limit, float(q), limit) for limit, q in zip((POSITION, ANGLE), env.unwrapped.inner.data.qpos, strict=True)
    ],
    cautious=follow_cautiously,
    backup=regulate,
    horizon=HORIZON,
    noise=0.07,
    steps=100_000,
)
