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
    15   update the quantifier Γ and rewrite the stored penalties ....... update, below

Lines 2-14 run inside `learner.learn`: the learner steps what it takes for ordinary environments. An epoch (line 1) is
one rollout of an on-policy learner, or `epoch_steps` steps of an off-policy one.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
import torch as th
from numpy.typing import ArrayLike, NDArray
from sb3_contrib import MaskablePPO
from stable_baselines3 import DQN
from stable_baselines3.common.base_class import BaseAlgorithm

from safexp.backups.penalty import Penalty
from safexp.backups.recovery import Recovery
from safexp.constraints import Constraint
from safexp.core.arrays import Array, Controller, Observations, as_batch
from safexp.core.encoding import encode_observations
from safexp.envs.guard import Guard
from safexp.envs.vector import as_vec_env
from safexp.mase.agent import Agent
from safexp.mase.files import load_agent, restore_agent, save_agent
from safexp.mase.learner import make_learner
from safexp.mase.replay import Rewriting
from safexp.quantifiers import Quantifier
from safexp.quantifiers.foreign import check_round_trip
from safexp.records.coverage import Coverage, measure, total
from safexp.records.input_shift import InputSample
from safexp.shield.candidates import SafeAction
from safexp.shield.decisions import Decision
from safexp.shield.logs import Log, read_log
from safexp.shield.shield import Shield
from safexp.shield.transitions import parts_of

log = logging.getLogger("safexp")

Trust = Literal["calibrated", "uncalibrated"]


class _Proposal(NamedTuple):
    """What the learner saw, the policy's action, the threshold, and what a recurrent policy remembers."""

    shown: Observations
    action: NDArray[Any]
    threshold: float | Array
    state: Any


class MASE(Agent):
    """Trains any SB3 learner without breaking the constraint while it learns.

    Args:
        env: a Gymnasium `Env` or `VectorEnv`, or an SB3 `VecEnv`.
        constraint: what must hold.
        quantifier: predicts the costs; of several costs, one for each (`PerCost`) or one that is copied for each.
        learner: an SB3 algorithm class. On-policy learners learn from the actions they proposed (the shield is a part
            of their environment), off-policy ones from those that were executed.
        learner_options: arguments of its constructor, "policy" among them.
        penalty: what a stop costs; None leaves the reward as it was (an ablation).
        seed_data: logged transitions to start the quantifier from, or a file of them (`read_log`).
        safe_action: an action, or a function of the observations, that is safe in every state.
        seed_controller: a controller that is safe from first states on as long as it drives, such as the one whose log
            is the seed data: it drives there where nothing is certified yet, and the run goes on, learning.
        seed: of the learner and the environments.
        backup: what drives, or ends the episode, where nothing is certified (`safexp.Recovery`); `Reset` by default.
        levels: the only values that a cost can take, such as (0, 1), of several costs a list for each; see `Shield`.
        verify_safe_action: stop believing in the safe action where it broke its promise.
        show_threshold: append the threshold to the learner's observation; by default where the constraint says so.
        epoch_steps: how many steps of an off-policy learner make an epoch.
        shielding: False executes every proposal and never stops (an ablation: the bare learner).
        rewriting: False leaves stored penalties as they were (an ablation).
        trust: "uncalibrated" lets widths that are a mere fit certify actions under a limit on every step; how often
            they missed is told after the first epoch.
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
        trust: Trust = "calibrated",
    ) -> None:
        for name, given, kind in [
            ("constraint", constraint, Constraint),
            ("quantifier", quantifier, Quantifier),
            ("penalty", penalty, Penalty),
            ("backup", backup, Recovery),
        ]:
            if not isinstance(given, kind) and not (given is None and name in ("penalty", "backup")):
                raise TypeError(f"{name}={given!r} is not a safexp.{kind.__name__}.")
        venv = as_vec_env(env)
        shield = Shield(
            quantifier,
            venv.observation_space,
            venv.action_space,
            constraint=constraint,
            levels=levels,
            safe_action=safe_action,
            verify_safe_action=verify_safe_action,
            seed_controller=seed_controller,
            backup=backup if backup is not None and backup.horizon else None,
        )
        quantifier = shield.quantifier
        for limit, own in zip(parts_of(constraint), shield.levels or (), strict=False):
            if own is not None and not limit.on_realised_cost:
                raise ValueError(
                    f"levels={levels} would round the risks of JointChance down to nothing: leave them out."
                )
        if constraint.on_realised_cost and not quantifier.bounds_realised_cost:
            log.warning(
                "%s limits the costs that happen, but %s bounds their expectation: noise may exceed the bound",
                type(constraint).__name__,
                type(quantifier).__name__,
            )
        if trust not in get_args(Trust):
            raise ValueError(f"trust={trust!r} is not one of {', '.join(get_args(Trust))}.")
        self._untested = any(part.on_every_step for part in parts_of(constraint)) and not quantifier.promises_coverage
        if self._untested and trust != "uncalibrated" and shielding:
            raise ValueError(
                f"{type(constraint).__name__} limits every step, and the widths of {type(quantifier).__name__} are a "
                "fit that promises nothing: give Calibrated(...) of it, or trust='uncalibrated'."
            )
        if isinstance(seed_data, str | Path):
            seed_data = read_log(seed_data)
        if seed_data is not None:
            shield.fit(seed_data)
        check_round_trip(quantifier)
        self.guard = Guard(
            venv, constraint, shield, penalty, shielding=shielding, show_threshold=show_threshold, backup=backup
        )
        super().__init__(self.guard, epoch_steps)
        self.shield: Shield = shield
        self.coverage: list[Coverage] = []
        self._covered: list[Coverage] = []
        self._reached: dict[str, Any] = self.guard.frontier.take()
        self.inputs: InputSample = InputSample(seed or 0)
        self.rewriting = rewriting
        self.learner_options = dict(learner_options or {})
        self.learner = make_learner(learner, self.guard, self.learner_options, seed)
        if isinstance(self.learner, DQN):
            self.guard.preferences = self._q_values

    @property
    def constraint(self) -> Constraint:
        return self.guard.constraint

    @property
    def quantifier(self) -> Quantifier:
        return self.shield.quantifier

    @property
    def shielded(self) -> bool:
        return self.guard.shielding

    def evaluate(self, shielded: bool = True) -> None:
        self.guard.evaluate(shielded)

    def observed(self, observations: Observations) -> Observations:
        return self.guard.raw(observations)

    def masks(self) -> dict[str, Any]:
        return {"action_masks": self.guard.action_masks()} if isinstance(self.learner, MaskablePPO) else {}

    def prepare(self) -> None:
        if self.learner._last_obs is not None:
            self._recheck()

    def update(self) -> None:
        """Line 15: update the quantifier from the executed actions and true costs, and rewrite what is stored."""
        self._covered = []
        self._reached = self.guard.frontier.take()
        harvest = self.guard.harvest()
        if harvest is None:
            return
        self.inputs.add(harvest.transitions.states, harvest.transitions.actions)
        if not self.guard.shielding:
            return
        with self._span("quantifier"):
            self._covered = [measure(self.quantifier, *harvest)]  # before it learns from them
            self.quantifier.update(harvest.transitions)
        self.coverage += self._covered
        if self._untested:
            self._untested = False
            _tell_misses(self._covered[0])
        self.guard.backup.learn()
        self._recheck()

    def metrics(self) -> dict[str, Any]:
        """How often the quantifier was right before it learned, how far exploration got, and what the backup tells."""
        counts = {f"coverage_{name}": count for name, count in total(self._covered)._asdict().items()}
        promises = {} if self.shield.vouched is None else self.shield.vouched.metrics()
        drills = self.guard.drills.metrics() if self.guard.backup.horizon else {}
        told = {**self._reached, **self.guard.backup.metrics(), **drills, **promises}
        return {**counts, "delta": self.quantifier.delta, **told}

    def _recheck(self) -> None:
        """Let a quantifier that has changed judge again: the current states, and the stops that are stored."""
        stopped = self.guard.recheck()
        # Stopped episodes are over: the learner goes on from new first states.
        self.learner._last_obs = self.guard.observations
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
        """What the policy proposes in a state, and what the shield makes of it under this threshold.

        Thresholds are told as `Constraint.threshold` tells them, in units of the largest cost of a step. Signals that
        `Within` limits and that are not in the observation are `measured` now, (S,). A recurrent policy remembers: give
        it `episode_start=True` at the first step, and the last decision's `state` at all others.
        """
        proposal = self._propose(observation, threshold, deterministic, state, episode_start)
        threshold, most = proposal.threshold, np.asarray(self.constraint.largest_threshold)
        if not self.constraint.grows and (np.isfinite(threshold) & (threshold > most * (1 + 1e-6))).any():
            raise ValueError(
                f"threshold={threshold} is more than the largest of {type(self.constraint).__name__}, {most}: it is "
                "told in units of the largest cost of a step, as constraint.threshold(state) tells it (divide by "
                "cost_max)."
            )
        preferences = self.guard.preferences
        ranking = None if preferences is None else lambda: preferences(proposal.shown)
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
        """What the policy alone would do, and what it remembers if it is recurrent: for `ShieldedPolicy`."""
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
        encode_observations(self.shield.observation_space, batch)  # raises where it is none, or not finite
        if threshold is None:
            if self.constraint.in_observation:
                raise ValueError(
                    f"{type(self.constraint).__name__} changes its threshold during an episode: give "
                    "threshold=<what remains, divided by cost_max>, as constraint.start, update and threshold tell it."
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
                f"{type(self.learner).__name__} remembers what it saw in an episode: give episode_start=True at its "
                "first step, and state=<the state that the last step returned> at all others."
            )
        return _Proposal(shown, action[0], threshold, remembered)

    def save(self, path: str | Path) -> None:
        """Write the agent to one file, for use: policy, quantifier, constraint, a sample of what it saw, versions."""
        save_agent(self, Path(path))

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
        """The agent that `save` wrote; give an `env` to go on learning, and again whatever held a function."""
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

    def _q_values(self, observations: Observations) -> Array:
        assert isinstance(self.learner, DQN)
        tensor, _ = self.learner.policy.obs_to_tensor(observations)
        with th.no_grad():
            return self.learner.q_net(tensor).cpu().numpy().astype(np.float64)


def _tell_misses(found: Coverage) -> None:
    """Quote what an uncalibrated quantifier missed in its first epoch."""
    share = found.exceeded / max(found.rows, 1)
    log.warning(
        "uncalibrated widths missed %d of the first epoch's %d costs (%.1f%%), and covered %d of %d near the limit: "
        "Calibrated(...) measures them beforehand",
        found.exceeded,
        found.rows,
        100 * share,
        found.near_covered,
        found.near,
    )
