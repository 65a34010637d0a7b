"""Common interface of agents, with or without a shield: training, recording, evaluation and saving."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Self

from numpy.typing import ArrayLike, NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, CallbackList
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.type_aliases import MaybeCallback

from safexp.backups.drills import Drills
from safexp.core.arrays import Array, Observations
from safexp.core.spans import Spans, untimed
from safexp.envs.recording import Recording
from safexp.mase.copies import copied_agent
from safexp.mase.progress import ProgressBar
from safexp.quantifiers.base import Quantifier
from safexp.records.episodes import Episode
from safexp.records.input_shift import InputSample
from safexp.shield.decisions import Decision
from safexp.shield.shield import Shield

Watcher = Callable[[bool], None]
"""Callback at the end of an epoch; its argument says whether it was the last."""


class Agent(ABC):
    """Learner on recorded environments.

    An epoch is one rollout of an on-policy learner, or `epoch_steps` steps of an off-policy one. At its end the agent
    learns from it (`update`) and then calls its watchers (`on_epoch`), in the order in which they were added.

    `envs` are the environments and `learner` is the learner on them; an agent with a shield has a `shield`, and
    `inputs`, a sample of the states and actions that its quantifier saw.

    Args:
        envs: the environments.
        epoch_steps: number of steps of an off-policy learner in an epoch.

    Example:
        >>> from stable_baselines3 import PPO
        >>> envs = gym.make_vec("safexp/PlanarRobot-v0", num_envs=2)
        >>> options = {"n_steps": 32, "batch_size": 64, "n_epochs": 1}
        >>> agent = safexp.MASE(envs, safexp.Budget(3.0), safexp.Unknown(), PPO, learner_options=options, seed=0)
        >>> isinstance(agent, safexp.Agent)
        True
        >>> agent.on_epoch(lambda epoch: print(agent.learner.num_timesteps, "steps"))
        >>> _ = agent.learn(128)
        64 steps
        128 steps
    """

    learner: BaseAlgorithm
    shield: Shield | None = None
    inputs: InputSample | None = None

    def __init__(self, envs: Recording, epoch_steps: int) -> None:
        if epoch_steps < 1:
            raise ValueError(f"epoch_steps={epoch_steps} must be at least 1.")
        self.envs = envs
        self.epoch_steps = epoch_steps
        self.epochs = 0
        self._epoch_began = 0
        self._watchers: list[Watcher] = []
        self._span: Spans = untimed

    @property
    def quantifier(self) -> Quantifier | None:
        """Quantifier that predicts the costs, if there is a shield."""
        return None if self.shield is None else self.shield.quantifier

    @property
    def episodes(self) -> list[Episode]:
        """Episodes that ended during training."""
        return self.envs.recorder.episodes

    @property
    def violations(self) -> int:
        """Number of training episodes that broke the constraint, finished or still running."""
        return self.envs.recorder.violations

    @property
    def drills(self) -> Drills | None:
        """Drills of the backup and their results, if certificates look ahead to one."""
        return None

    # Learning

    def learn(self, total_timesteps: int, callback: MaybeCallback = None, progress_bar: bool = False) -> Self:
        """Train for (at least) this many further environment steps."""
        if not total_timesteps >= 1:
            raise ValueError(f"total_timesteps={total_timesteps} must be at least 1.")
        if self.envs.mid_step:
            self.learner._last_obs = None  # an exception interrupted a step: start new episodes
        self.prepare()
        callbacks: list[BaseCallback] = [_EndOfEpoch(self)]
        if callback is not None:
            callbacks.append(self.learner._init_callback(callback))
        shown = ProgressBar(total_timesteps, self.envs.recorder, drills=self.drills) if progress_bar else nullcontext()
        with shown as bar:
            if bar is not None:
                callbacks.append(bar)
            self.learner.learn(total_timesteps, CallbackList(callbacks), reset_num_timesteps=False)
        return self

    def on_epoch(self, watcher: Watcher) -> None:
        """Add a function to call at the end of every epoch, after the agent has learned from it."""
        self._watchers.append(watcher)

    def begin_epoch(self) -> None:
        """Begin a new epoch with the next step."""
        self._epoch_began = self.learner.num_timesteps

    def rollout_begins(self) -> None:
        """End the epoch if it was long enough; called after optimisation, when the learner begins to collect."""
        steps = self.learner.num_timesteps - self._epoch_began
        if steps >= (1 if isinstance(self.learner, OnPolicyAlgorithm) else self.epoch_steps):
            self.end_epoch(last=False)

    def end_epoch(self, last: bool) -> None:
        """Learn from an epoch, and call the watchers."""
        with self._span("update"):
            self.epochs += 1
            self.update()
            self.begin_epoch()
            for watcher in self._watchers:
                watcher(last)

    def prepare(self) -> None:  # noqa: B027
        """Prepare for further steps; does nothing by default."""

    def update(self) -> None:  # noqa: B027
        """Learn from an epoch in addition to the learner; does nothing by default."""

    def metrics(self) -> dict[str, Any]:
        """Metrics of the last epoch beyond those of its episodes, by name."""
        return {}

    def measure(self, span: Spans) -> None:
        """Report activities in these spans from now on."""
        self._span = self.envs.span = span
        if self.shield is not None:
            self.shield.span = span

    # Acting

    @property
    def shielded(self) -> bool:
        """Whether the learner's proposals are checked before they are executed."""
        return False

    def evaluate(self, shielded: bool = True) -> None:  # noqa: B027
        """Switch to evaluation: nothing learns any more, and without `shielded` every proposal is executed."""

    def observed(self, observations: Observations) -> Observations:
        """Observations (n, ...) of the environments in the form that `predict` and `propose` take, one at a time."""
        return observations

    def masks(self) -> dict[str, Any]:
        """Arguments of the policy in the current states besides the observations."""
        return {}

    @abstractmethod
    def propose(
        self,
        observation: Observations,
        threshold: float | Array | None = None,
        deterministic: bool = True,
        *,
        state: Any = None,
        episode_start: ArrayLike = False,
    ) -> tuple[NDArray[Any], Any]:
        """Action of the policy alone, and its memory if it is recurrent."""

    @abstractmethod
    def predict(
        self,
        observation: Observations,
        threshold: float | Array | None = None,
        deterministic: bool = True,
        *,
        state: Any = None,
        episode_start: ArrayLike = False,
    ) -> Decision:
        """Action of the agent in a state in which the next cost may be at most `threshold`."""

    # Files

    @abstractmethod
    def save(self, path: str | Path) -> None:
        """Save the trained agent to one file, for deployment."""

    @abstractmethod
    def restore(self, path: str | Path) -> None:
        """Restore the trained state from the file of an agent with the same settings."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        memo[id(self._watchers)] = []  # a copy has no watchers
        memo[id(self._span)] = untimed
        return copied_agent(self, self.learner, self.envs, memo)


class _EndOfEpoch(BaseCallback):
    """Callback that tells an agent when its learner begins a rollout, which is after optimisation, or stops."""

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        self._agent = agent

    def _on_training_start(self) -> None:
        self._agent.begin_epoch()

    def _on_rollout_start(self) -> None:
        self._agent.rollout_begins()

    def _on_training_end(self) -> None:
        self._agent.end_epoch(last=True)

    def _on_step(self) -> bool:
        return True
