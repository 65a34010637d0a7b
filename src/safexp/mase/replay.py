"""Replay buffers that rewrite their penalties as the quantifier improves (Algorithm 1, line 15).

The penalty of a stop, and whether it was needed at all, is a pure function of stored values that are never overwritten:
the raw reward, the next state and the *next* threshold. So rewriting twice gives the same result as rewriting once.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer

from safexp.core.arrays import take
from safexp.envs.guard import Guard
from safexp.envs.infos import Info

CHUNK = 4096
"""Number of stored stops in one query of the quantifier."""


class StopHistory:
    """Data of each transition (size, n) that is needed to rewrite its penalty."""

    def __init__(self, size: int, guard: Guard) -> None:
        self.guard = guard
        self.filled = 0
        shape = (size, guard.num_envs)
        space = guard.action_space
        self.executed = np.zeros((*shape, *(space.shape or ())), dtype=space.dtype)
        self.rewards = np.zeros(shape, dtype=np.float32)
        self.thresholds = np.zeros(shape + np.shape(guard.constraint.largest_threshold))
        self.stopped = np.zeros(shape, dtype=bool)
        self.measured = np.zeros((*shape, len(guard.constraint.sources)))

    def remember(self, position: int) -> NDArray[Any]:
        """Record the guard's last step; returns the executed actions as SB3 stores them, boxes scaled to [−1, 1]."""
        last, space = self.guard.last, self.guard.action_space
        self.filled = max(self.filled, position + 1)
        self.executed[position] = last.executed
        self.rewards[position] = last.rewards
        self.thresholds[position] = last.next_thresholds
        self.stopped[position] = last.stopped
        self.measured[position] = last.measured
        if isinstance(space, spaces.Box):
            return 2.0 * (last.executed - space.low) / (space.high - space.low) - 1.0
        return last.executed - self.guard.first_action

    def rewrite(self, buffer: ReplayBuffer) -> None:
        """Update the penalty of every stored stop with the current quantifier, and undo stops that it now certifies."""
        guard = self.guard
        steps, environments = np.nonzero(self.stopped)
        for start in range(0, len(steps), CHUNK):
            rows = steps[start : start + CHUNK], environments[start : start + CHUNK]
            states = guard.raw(take(buffer.next_observations, rows))
            last_safe = self.executed[rows] if isinstance(guard.action_space, spaces.Box) else None
            limits, measured = self.thresholds[rows] - guard.account.braking, self.measured[rows]
            with guard.span("shield"):
                outlook = guard.shield.outlook(states, limits, measured=measured, last_safe=last_safe)
            raw = self.rewards[rows]
            paid = raw if guard.penalty is None else guard.penalty(outlook.least_width)
            buffer.rewards[rows] = np.where(outlook.viable, raw, paid)
            buffer.dones[rows] = ~outlook.viable


class Rewriting:
    """Mixin for SB3's replay buffers: stores executed instead of proposed actions, and rewrites penalties."""

    pos: int
    buffer_size: int
    dones: NDArray[np.float32]

    def __init__(self, *args: Any, guard: Guard, **named: Any) -> None:
        super().__init__(*args, **named)
        self.history = StopHistory(self.buffer_size, guard)

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: list[Info]) -> None:
        """Store the guard's last step; `action` is the proposal, which the environment never saw."""
        super().add(obs, next_obs, self.history.remember(self.pos), reward, done, infos)  # type: ignore[misc]

    def stop_last(self, stopped: NDArray[np.bool_]) -> None:
        """Mark the newest transition of these environments as leading to a stop, if its episode had not ended."""
        newest = self.pos - 1
        self.history.stopped[newest] |= stopped & (self.dones[newest] == 0)

    def rewrite(self) -> None:
        """Line 15: rewrite the stored penalties."""
        self.history.rewrite(cast(ReplayBuffer, self))


class RewritingReplayBuffer(Rewriting, ReplayBuffer):
    """SB3's replay buffer with rewriting of penalties."""


class RewritingDictReplayBuffer(Rewriting, DictReplayBuffer):
    """SB3's replay buffer for Dict observations with rewriting of penalties."""
