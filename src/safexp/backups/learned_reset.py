"""Learned reset: a second policy that learns to return to where nothing costs (the paper's future work)."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3 import TD3
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv

from safexp.backups.recovery import Driven, Recovery, short_of
from safexp.constraints import Constraint
from safexp.core.arrays import Array, Flags, Observations, as_batch
from safexp.core.encoding import encode_observations
from safexp.core.files import CheckpointError
from safexp.core.no_environments import NoEnvironments

NEGLIGIBLE = 0.5
"""Expected cost, in units of the largest cost of a step, below which a state counts as out of danger."""


NEARBY = 25
"""Number of steps around a costly one that count as near it."""


class LearnedReset(Recovery):
    """Policy that takes over when the calibrated bound on its own way out reaches the remaining budget.

    Policy and critics are those of TD3 with the reward −cost, trained off-policy on all executed steps, whoever
    drove: their value C(s) is the discounted cost-to-go of returning. The certificate of a state is C(s) + `offset`. A
    takeover *misses* if a human had to end it, or if it cost more from the learner's last step on than the certificate
    of the state before. Every takeover moves the offset (adaptive conformal inference): a miss by rate·(1 − δ), any
    other by −rate·δ, so that in the long run a share δ of them misses, even though the policies change meanwhile. The
    offset starts at half of the constraint's initial threshold and never exceeds that half, so δ is a target and
    not a guarantee: of `takeovers`, `misses` missed and `failures` were stopped.

    If many takeovers fail, train longer before relying on it; a controller that comes to rest (`Backup`) is better
    where there is one.

    Args:
        delta: target share of takeovers that miss.
        rate: step size of the offset.
        gradient_steps: TD3 updates at the end of an epoch.
        capacity: number of transitions in the replay buffer.
        learner_options: options of TD3 that override the defaults here.
        seed: seed of TD3.
        spare: additional remaining budget required before it hands back on the way.
        braking: see `Recovery`.
        penalty: see `Recovery`.

    Example:
        >>> from stable_baselines3 import PPO
        >>> envs = gym.make_vec("safexp/PlanarRobot-v0", num_envs=4)
        >>> options = {"n_steps": 32, "batch_size": 64, "n_epochs": 1}
        >>> backup = safexp.LearnedReset(gradient_steps=2)
        >>> agent = safexp.MASE(
        ...     envs, safexp.Budget(3.0), safexp.Unknown(), PPO, learner_options=options, backup=backup, seed=0
        ... )
        >>> agent.learn(128).violations
        0
    """

    def __init__(
        self,
        *,
        delta: float = 0.01,
        rate: float = 2.0,
        gradient_steps: int = 200,
        capacity: int = 100_000,
        learner_options: dict[str, Any] | None = None,
        seed: int = 0,
        spare: float = 2.0,
        braking: float = 0.0,
        penalty: float = 0.0,
    ) -> None:
        super().__init__(braking, penalty)
        if not (0 < delta < 1 and 0 < rate < math.inf):
            raise ValueError(f"LearnedReset(delta={delta}, rate={rate}) needs 0 < delta < 1 and a rate above 0.")
        self.delta = delta
        self.rate = rate
        self.gradient_steps = gradient_steps
        self.capacity = capacity
        self.learner_options = dict(learner_options or {})
        self.seed = seed
        self.spare = spare
        self.takeovers = self.misses = self.failures = 0

    def check(self, constraint: Constraint, venv: VecEnv) -> None:
        super().check(constraint, venv)
        if float(np.min(constraint.largest_threshold)) <= 1 + self.braking:
            raise ValueError(
                f"{type(constraint).__name__} leaves no budget for a way out, which LearnedReset needs: where every "
                "single cost is limited, give a controller as safe_action=."
            )
        if not isinstance(venv.action_space, spaces.Box) or np.ndim(constraint.largest_threshold):
            raise ValueError(
                f"LearnedReset drives with bounded real actions under a single constraint, not {venv.action_space} "
                f"under {type(constraint).__name__}: use Fallback."
            )
        self._space = venv.observation_space
        example = encode_observations(self._space, as_batch(self._space.sample()))
        states = spaces.Box(-np.inf, np.inf, example.shape[1:], np.float32)
        ours: dict[str, Any] = {
            "gamma": 0.97,
            "tau": 0.02,
            "policy_kwargs": {"net_arch": [64, 64]},
            "buffer_size": self.capacity,
            "device": "cpu",
        }
        options = ours | self.learner_options
        self.learner = TD3("MlpPolicy", NoEnvironments(states, venv.action_space), seed=self.seed, **options)
        self.learner.set_logger(Logger(None, []))
        self._largest = self.offset = float(constraint.largest_threshold) / 2
        n = venv.num_envs
        self._buffer = ReplayBuffer(self.capacity, states, venv.action_space)
        self.learner.replay_buffer = self._buffer
        self._recent: deque[tuple[NDArray[Any], ...]] = deque(maxlen=max(self.capacity // n, 1))
        self._rng = np.random.default_rng(self.seed)
        self._spent = np.zeros(n)
        self._promised = np.zeros(n)
        self._followed = np.zeros(n, dtype=bool)

    def takes_over(self, observations: Observations, remaining: Array, driving: Flags) -> Flags:
        expected = self.cost_to_go(self._encoded(observations))
        needed = np.where(expected > NEGLIGIBLE, expected + self.offset, 0.0)
        return short_of(needed, remaining, np.where(driving, self.spare, 0.0))

    def act(self, observations: Observations) -> NDArray[Any]:
        return self.learner.predict(self._encoded(observations), deterministic=True)[0]

    def cost_to_go(self, states: Array) -> Array:
        """C(s) (n,): the larger of two critics' discounted costs of returning from these encoded states."""
        with th.no_grad():
            tensor = th.as_tensor(states, dtype=th.float32)
            values = self.learner.critic(tensor, self.learner.actor(tensor))
        return -th.cat(values, dim=1).min(dim=1).values.numpy().astype(np.float64)

    def note(self, step: Driven) -> None:
        """Store the transitions, and add up the cost of each takeover from the learner's last step on."""
        if not self.learning:
            return
        before, after = self._encoded(step.step.observations), self._encoded(step.step.next_observations)
        self._recent.append((before, after, self.learner.policy.scale_action(step.step.actions), -step.costs))
        begins = step.driving_on & ~step.driving
        if begins.any():
            self._promised[begins] = np.maximum(self.cost_to_go(before[begins]), 0.0) + self.offset
            self._spent[begins] = 0.0
        self._spent += step.costs
        over = self._followed & ~step.driving_on
        self._followed = (self._followed & ~over) | begins
        for row in np.flatnonzero(over & (step.stopped | ~step.ended)).tolist():
            self._judge(row, bool(step.stopped[row]))

    def end(self, rows: Flags, stopped: bool) -> None:
        """Judge the takeovers that a human ended, and discard the others."""
        if stopped:
            for row in np.flatnonzero(self._followed & rows).tolist():
                self._judge(row, stopped)
        self._followed &= ~rows

    def _judge(self, row: int, stopped: bool) -> None:
        missed = bool(stopped or self._spent[row] > self._promised[row])
        self.takeovers += 1
        self.misses += missed
        self.failures += stopped
        self.offset = float(np.clip(self.offset + self.rate * (missed - self.delta), 0.0, self._largest))

    def learn(self) -> None:
        """Update TD3."""
        self._store()
        if self._buffer.size() > self.learner.batch_size:
            self.learner.train(self.gradient_steps, self.learner.batch_size)

    def metrics(self) -> dict[str, float]:
        """Numbers of takeovers that were judged, cost more than certified, and were stopped; the offset."""
        counts = {"judged": self.takeovers, "missed": self.misses, "failed": self.failures}
        return {f"reset_{name}": count for name, count in counts.items()} | {"reset_offset": self.offset}

    def _store(self) -> None:
        """Keep the steps of an epoch that were near a cost in time, and as many of the others.

        None of them is terminal: time limits and stops end an episode, but not the cost of continuing.
        """
        parts = [np.stack(column) for column in zip(*self._recent, strict=True)]
        self._recent.clear()
        if not parts:
            return
        near = near_in_time(parts[3] < 0)
        others = ~near & (self._rng.random(near.shape) < near.mean() / max(1.0 - near.mean(), 1e-9))
        kept = [part[near | others] for part in parts]
        buffer, count = self._buffer, len(kept[3])
        places = (buffer.pos + np.arange(count)) % buffer.buffer_size
        for stored, part in zip(
            (buffer.observations, buffer.next_observations, buffer.actions, buffer.rewards), kept, strict=True
        ):
            stored[places, 0] = part
        buffer.full |= buffer.pos + count >= buffer.buffer_size
        buffer.pos = (buffer.pos + count) % buffer.buffer_size

    def state(self) -> dict[str, NDArray[Any]]:
        weights = {name: part.cpu().numpy() for name, part in self.learner.policy.state_dict().items()}
        return {**weights, "offset": np.array(self.offset)}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        if "offset" not in state:
            raise CheckpointError("the file holds no learned reset: it was saved with another backup.")
        weights = {name: th.as_tensor(part) for name, part in state.items() if name != "offset"}
        self.learner.policy.load_state_dict(weights)
        self.offset = state["offset"].item()

    def _encoded(self, observations: Observations) -> Array:
        return encode_observations(self._space, observations)


def near_in_time(costly: Flags) -> Flags:
    """Steps (t, n) that are at most `NEARBY` before or after a costly one (t, n) of the same environment."""
    counts = np.concatenate([np.zeros((1, costly.shape[1])), np.cumsum(costly, axis=0)])
    steps = np.arange(len(costly))
    first, last = np.maximum(steps - NEARBY, 0), np.minimum(steps + NEARBY + 1, len(costly))
    return np.asarray(counts[last] > counts[first])
