"""What MASE is compared with: a learner without a shield, on environments that keep the same records."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, CallbackList
from stable_baselines3.common.type_aliases import MaybeCallback

from safexp.core import files
from safexp.core.no_environments import NoEnvironments
from safexp.core.spaces import build_space, describe_space
from safexp.envs.recording import Recording
from safexp.mase.copies import copied_agent
from safexp.mase.epochs import EndOfEpoch
from safexp.mase.learner import (
    build_policy,
    check_policy,
    describe_policy,
    find_learner,
    learner_settings,
    load_weights,
    name_of,
)
from safexp.records.episodes import Episode


class Baseline:
    """A learner on recorded environments: `Recorded`, `Saute` or `EarlyTermination`.

    Args:
        envs: the environments.
        learner: an SB3 algorithm class.
        learner_options: arguments of its constructor, "policy" among them.
        seed: of the learner and the environments.
        epoch_steps: how many steps of an off-policy learner make an epoch; of an on-policy one, a rollout does.
    """

    def __init__(
        self,
        envs: Recording,
        learner: type[BaseAlgorithm],
        *,
        learner_options: dict[str, Any] | None = None,
        seed: int | None = None,
        epoch_steps: int = 1000,
    ) -> None:
        self.envs = envs
        self.epochs = self.epoch_began = 0
        self.epoch_steps = epoch_steps
        self.learner_options = dict(learner_options or {})
        self.learner = learner(env=envs, **learner_settings(learner, envs, self.learner_options, seed))

    @property
    def episodes(self) -> list[Episode]:
        """Every episode that ended during training."""
        return self.envs.recorder.episodes

    @property
    def violations(self) -> int:
        """How many training episodes broke the constraint, finished or still running."""
        return self.envs.recorder.violations

    def learn(self, total_timesteps: int, callback: MaybeCallback = None) -> Self:
        """Train for (at least) this many further environment steps."""
        callbacks: list[BaseCallback] = [EndOfEpoch(self)]
        if callback is not None:
            callbacks.append(self.learner._init_callback(callback))
        self.learner.learn(total_timesteps, CallbackList(callbacks), reset_num_timesteps=False)
        return self

    def end_epoch(self) -> None:
        """Count an epoch."""
        self.epochs += 1

    def save(self, path: str | Path) -> None:
        """Write the policy to one file, for use."""
        weights = {name: part.cpu().numpy() for name, part in self.learner.policy.state_dict().items()}
        spaces = (self.envs.observation_space, self.envs.action_space)
        document = {
            "versions": files.versions(),
            "spaces": [describe_space(space) for space in spaces],
            "learner": name_of(type(self.learner)),
            "policy": describe_policy(self.learner_options),
        }
        files.write(Path(path), document, weights)

    @staticmethod
    def load(path: str | Path) -> BaseAlgorithm:
        """The learner that `save` wrote, to `predict` from observations as it saw them in training."""
        document, arrays = files.read(Path(path))
        files.expect(document, "spaces", path)
        with files.understood(path):
            envs = NoEnvironments(*(build_space(space) for space in document["spaces"]))
            kind = find_learner(document["learner"])
            policy = build_policy(check_policy(document["policy"], arrays), {})
            learner = kind(env=envs, **learner_settings(kind, envs, policy, None))
            load_weights(learner, arrays)
            return learner

    def restore(self, path: str | Path) -> None:
        """Take the policy from the file that an agent made like this one wrote."""
        document, arrays = files.read(Path(path))
        files.expect(document, "spaces", path)
        with files.understood(path):
            load_weights(self.learner, arrays)

    def __deepcopy__(self, memo: dict[int, Any]) -> Baseline:
        return copied_agent(self, self.learner, self.envs, memo)
