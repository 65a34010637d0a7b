"""MASE, the meta-algorithm for safe exploration (the paper's Algorithm 1), around any learner of Stable-Baselines3.

    1  for episode t = 1, 2, …
    2    for time h = 1, 2, …
    3      take a safe action a = π(s) within A⁺ ........................ Guard.choose
    4      receive reward, cost and next state .......................... receive
    5      update the threshold b ....................................... Account.charge
    6      if the next state has no safe action: ......................... Shield.glance
    7        the reward becomes −c / min width .......................... Penalty
    8        append the transition ...................................... the learner's buffer
    9        stop the episode ........................................... Guard.restart
    10     else:
    11       append the transition ...................................... the learner's buffer
    14   optimise π by an unconstrained RL algorithm .................... learner.train
    15   update the quantifier Γ and rewrite the stored penalties ....... Refit.learn, StopHistory.rewrite

Lines 2-14 run inside `learner.learn`: the learner steps what it sees as ordinary environments. An epoch (line 1) is
one rollout of an on-policy learner, or `epoch_steps` steps of an off-policy one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sb3_contrib import MaskablePPO
from stable_baselines3.common.base_class import BaseAlgorithm

from safexp.backups.drills import Drills
from safexp.backups.penalty import Penalty
from safexp.backups.recovery import Recovery
from safexp.constraints import Constraint
from safexp.core.arrays import Array, Controller, Observations, as_batch
from safexp.core.encoding import encode_observations
from safexp.envs.guarded import Trust, guarded
from safexp.envs.refit import Refit
from safexp.envs.vector import as_vec_env
from safexp.mase.agent import Agent
from safexp.mase.critics import Replacement, preferences_of
from safexp.mase.files import load_agent, restore_agent, save_agent
from safexp.mase.imitation import Imitation
from safexp.mase.learner import as_learned, complete_options, make_learner
from safexp.mase.replay import Rewriting
from safexp.mase.warm_start import clone_log, take_policy
from safexp.quantifiers import Quantifier
from safexp.records.coverage import Coverage
from safexp.records.input_shift import InputSample
from safexp.shield.candidates import SafeAction
from safexp.shield.decisions import Decision
from safexp.shield.logs import Log, read_log
from safexp.shield.shield import Shield


class _Proposal(NamedTuple):
    """Observation of the learner, the policy's action, the threshold, and the memory of a recurrent policy."""

    shown: Observations
    action: NDArray[Any]
    threshold: float | Array
    state: Any


class MASE(Agent):
    """Training of any SB3 learner without breaking the constraint while it learns.

    A run that starts with `NothingSafeError` needs seed data, a safe action or a backup. Many stops mean that the
    quantifier is too unsure or that the machine has momentum: see `Backup`. For a training loop of your own use `wrap`;
    for a controller that does not learn use `Shield`.

    Args:
        env: a Gymnasium `Env` or `VectorEnv`, or an SB3 `VecEnv`.
        constraint: the limits to keep.
        quantifier: predicts the costs, with their uncertainty; for several costs, one per cost (`PerCost`) or one that
            is copied for each.
        learner: an SB3 algorithm class. On-policy learners learn from the actions they proposed (the shield is a part
            of their environment), off-policy ones from those that were executed.
        learner_options: arguments of its constructor, including "policy"; where there are none, our defaults, which
            follow from the number of environments and the length of episodes. `action_noise` may be a number.
        penalty: penalty of a stop; None leaves the reward unchanged (an ablation).
        seed_data: logged transitions to start the quantifier from, or a log file (`read_log`).
        safe_action: an action, or a function of the observations, that is safe in every state.
        seed_controller: a controller that is safe from the first state of an episode for as long as it drives, such as
            the one that recorded the seed data: it drives there while nothing is certified, and training continues.
        seed: seed of the learner and the environments.
        backup: takes over, or ends the episode, where nothing is certified (`safexp.Recovery`); `Reset` by default.
        levels: the only values that a cost can take, such as (0, 1); for several costs a list with one entry per cost;
            see `Shield`.
        verify_safe_action: stop trusting the safe action in states like those in which it broke its promise.
        show_threshold: append the threshold to the learner's observation; the constraint's choice by default.
        epoch_steps: number of steps of an off-policy learner in an epoch.
        shielding: False executes every proposal and never stops (an ablation: the bare learner).
        rewriting: False leaves stored penalties unchanged (an ablation).
        replacement: the certified action that replaces a refused proposal in a box: the "nearest" one, the one with the
            highest value of the learner's "critic" (SAC, TD3, DDPG), or the one with the highest score of a function of
            the learner's observations (k, ...) and encoded candidates (k, m, da). DQN uses its critic otherwise.
        start_from: a model of Stable-Baselines3 of the same class, whose policy is taken over; if this learner sees the
            threshold too, it acts as before until it has learned to use it.
        warm_start: begin with a policy that imitates the seed data, instead of a random one.
        imitation: largest KL divergence of a supervised step, at the end of every epoch, that moves the policy of an
            on-policy learner towards the executed actions where its proposals were replaced; 0 for none.
        trust: "uncalibrated" lets fitted, uncalibrated widths certify actions under a limit on every step; their miss
            rate is logged after the first epoch.
        compiled: predict costs in C (`CompiledShield`), with a C compiler; docs/how-to/c-export.md lists what can be.

    Example:
        >>> from stable_baselines3 import PPO
        >>> envs = gym.make_vec("safexp/PlanarRobot-v0", num_envs=4)
        >>> options = {"n_steps": 32, "batch_size": 64, "n_epochs": 2}
        >>> agent = safexp.MASE(envs, safexp.Budget(3.0), safexp.Unknown(), PPO, learner_options=options, seed=0)
        >>> agent.learn(256).violations
        0
    """

    def __init__(
        self,
        env: Any,
        constraint: Constraint,
        quantifier: Quantifier,
        learner: type[BaseAlgorithm],
        *,
        learner_options: dict[str, Any] | None = None,
        penalty: Penalty | None = Penalty(),  # noqa: B008 (immutable)
        seed_data: Log | str | Path | None = None,
        safe_action: SafeAction | None = None,
        seed_controller: Controller | None = None,
        seed: int | None = None,
        backup: Recovery | None = None,
        levels: Sequence[Any] | None = None,
        verify_safe_action: bool = True,
        show_threshold: bool | None = None,
        epoch_steps: int = 1000,
        shielding: bool = True,
        rewriting: bool = True,
        replacement: Replacement = "nearest",
        start_from: BaseAlgorithm | None = None,
        warm_start: bool = False,
        imitation: float = 0.0,
        trust: Trust = "calibrated",
        compiled: bool = False,
    ) -> None:
        if isinstance(seed_data, str | Path):
            seed_data = read_log(seed_data)
        self.guard = guarded(
            env,
            constraint,
            quantifier,
            penalty=penalty,
            seed_data=seed_data,
            safe_action=safe_action,
            seed_controller=seed_controller,
            backup=backup,
            levels=levels,
            verify_safe_action=verify_safe_action,
            show_threshold=show_threshold,
            shielding=shielding,
            trust=trust,
            compiled=compiled,
        )
        super().__init__(self.guard, epoch_steps)
        self.shield: Shield = self.guard.shield
        self._refit = Refit(self.guard, seed)
        self.inputs: InputSample = self._refit.inputs
        self.rewriting = rewriting
        kept = {} if start_from is None else {"policy_kwargs": start_from.policy_kwargs}
        self.learner_options = complete_options(learner, self.guard, kept | dict(learner_options or {}))
        self.learner = make_learner(learner, self.guard, self.learner_options, seed)
        if start_from is not None:
            take_policy(self.learner, start_from, self.guard)
        self.guard.preferences = preferences_of(self.learner, replacement)
        if warm_start:
            if seed_data is None:
                raise ValueError("warm_start=True imitates the actions of a log: give seed_data=..., or leave it out.")
            clone_log(self.learner, self.guard, seed_data, seed)
        self.imitation = Imitation(self.learner, imitation) if imitation else None
        if self.imitation is not None:
            self.guard.pupil = self.imitation.add

    @property
    def constraint(self) -> Constraint:
        return self.guard.constraint

    @property
    def quantifier(self) -> Quantifier:
        return self.shield.quantifier

    @property
    def coverage(self) -> list[Coverage]:
        """Coverage of every epoch, before the quantifier learned from it."""
        return self._refit.coverage

    @property
    def drills(self) -> Drills | None:
        return self.guard.drills if self.guard.backup.horizon else None

    @property
    def shielded(self) -> bool:
        return self.guard.shielding

    def evaluate(self, shielded: bool = True) -> None:
        self.guard.pupil = None
        self.guard.evaluate(shielded)

    def observed(self, observations: Observations) -> Observations:
        return self.guard.raw(observations)

    def masks(self) -> dict[str, Any]:
        return {"action_masks": self.guard.action_masks()} if isinstance(self.learner, MaskablePPO) else {}

    def prepare(self) -> None:
        if self.learner._last_obs is not None:
            self._recheck()

    def update(self) -> None:
        """Line 15: update the quantifier from the executed actions and true costs, and rewrite stored penalties."""
        if self.imitation is not None:
            self.imitation.update()
        if self._refit.learn():
            self._recheck()

    def metrics(self) -> dict[str, Any]:
        """Coverage of the quantifier before it learned, progress of exploration, and metrics of the backup."""
        return {**self._refit.metrics(), **({} if self.imitation is None else self.imitation.metrics())}

    def _recheck(self) -> None:
        """Apply a quantifier that has changed to the current states and the stored stops."""
        stopped = self.guard.recheck()
        # Stopped episodes are over: the learner continues from new first states.
        self.learner._last_obs = as_learned(self.learner, self.guard.observations)
        if self.learner._last_episode_starts is not None:
            self.learner._last_episode_starts |= stopped
        buffer = getattr(self.learner, "replay_buffer", None)
        if isinstance(buffer, Rewriting):
            buffer.stop_last(stopped)
            if self.rewriting:
                buffer.rewrite()

    def predict(
        self,
        observation: Observations,
        threshold: float | Array | None = None,
        deterministic: bool = True,
        *,
        measured: ArrayLike | None = None,
        state: Any = None,
        episode_start: ArrayLike = False,
    ) -> Decision:
        """Action that the policy proposes in a state, as filtered by the shield under this threshold.

        Thresholds are those of `Constraint.threshold`, in units of the largest cost of a step. `measured` (S,) are the
        current values of signals that `Within` limits and that are not in the observation. A recurrent policy has a
        memory: give it `episode_start=True` at the first step, and the last decision's `state` at all others.
        """
        proposal = self._propose(observation, threshold, deterministic, state, episode_start)
        threshold, most = proposal.threshold, np.asarray(self.constraint.largest_threshold)
        if not self.constraint.grows and (np.isfinite(threshold) & (threshold > most * (1 + 1e-6))).any():
            raise ValueError(
                f"threshold={threshold} is more than the largest of {type(self.constraint).__name__}, {most}: it is "
                "in units of the largest cost of a step, as constraint.threshold(state) returns it (divide by "
                "cost_max)."
            )
        preferences = self.guard.preferences
        ranking = None if preferences is None else lambda _, candidates: preferences(proposal.shown, candidates)
        certifiable = np.asarray(threshold, dtype=np.float64) - self.guard.account.braking
        decision = self.shield.filter(observation, proposal.action, certifiable, measured=measured, preferences=ranking)
        return decision._replace(state=proposal.state)

    def propose(
        self,
        observation: Observations,
        threshold: float | Array | None = None,
        deterministic: bool = True,
        *,
        state: Any = None,
        episode_start: ArrayLike = False,
    ) -> tuple[NDArray[Any], Any]:
        """Action of the policy alone, and its memory if it is recurrent: for `ShieldedPolicy`."""
        proposal = self._propose(observation, threshold, deterministic, state, episode_start)
        return proposal.action, proposal.state

    def _propose(
        self,
        observation: Observations,
        threshold: float | Array | None,
        deterministic: bool,
        state: Any,
        episode_start: ArrayLike,
    ) -> _Proposal:
        batch = as_batch(observation)
        encode_observations(self.shield.observation_space, batch)  # raises if it is not an observation, or not finite
        if threshold is None:
            if self.constraint.in_observation:
                raise ValueError(
                    f"{type(self.constraint).__name__} changes its threshold during an episode: give threshold="
                    "<what remains, divided by cost_max>, as constraint.start, update and threshold compute it."
                )
            threshold = self.constraint.threshold(self.constraint.start(batch))[0]
        thresholds = np.asarray(threshold, dtype=np.float64)[None]
        shown, starts = self.guard.shown(batch, thresholds), np.reshape(np.asarray(episode_start, dtype=bool), 1)
        masks = {}
        if isinstance(self.learner, MaskablePPO):
            safe = self.shield.outlook(batch, thresholds - self.guard.account.braking).safe
            masks = {"action_masks": safe if safe.any() else None}
        action, remembered = self.learner.predict(shown, state, starts, deterministic, **masks)
        if remembered is not None and state is None and not starts[0]:
            raise ValueError(
                f"{type(self.learner).__name__} has a memory of the episode: give episode_start=True at its "
                "first step, and state=<the state that the last step returned> at all others."
            )
        return _Proposal(shown, action[0] + self.guard.first_action, threshold, remembered)

    def save(self, path: str | Path, *, training: bool = False) -> None:
        """Save the agent to one file: policy, quantifier, constraint, a sample of its inputs, and versions.

        With `training` also the optimisers and the replay buffer, which `load` with an `env` goes on from.
        """
        save_agent(self, Path(path), training)

    @classmethod
    def load(
        cls,
        path: str | Path,
        env: Any = None,
        *,
        constraint: Constraint | None = None,
        quantifier: Quantifier | None = None,
        learner: type[BaseAlgorithm] | None = None,
        learner_options: dict[str, Any] | None = None,
        safe_action: SafeAction | None = None,
        seed: int | None = None,
        backup: Recovery | None = None,
    ) -> Self:
        """Saved agent; give an `env` to continue training, with the learner's options as they were.

        Functions cannot be saved and must be passed again.
        """
        return load_agent(
            cls,
            Path(path),
            None if env is None else as_vec_env(env),
            constraint=constraint,
            quantifier=quantifier,
            learner=learner,
            learner_options=learner_options,
            safe_action=safe_action,
            seed=seed,
            backup=backup,
        )

    def restore(self, path: str | Path) -> None:
        restore_agent(self, Path(path))
