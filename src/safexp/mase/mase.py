"""MASE, the meta-algorithm for safe exploration (the paper's Algorithm 1), around any learner of Stable-Baselines3.

    1  for episode t = 1, 2, …
    2    for time h = 1, 2, …
    3      take a safe action a = π(s) within A⁺ ........................ Guard.step_async
    4      receive reward, cost and next state .......................... Guard.step_wait
    5      update the threshold b ....................................... Constraint.update
    6      if the next state has no safe action: ......................... Shield.glance
    7        the reward becomes −c / min width .......................... Penalty
    8        append the transition ...................................... the learner's buffer
    9        stop the episode ........................................... Guard._restart
    10     else:
    11       append the transition ...................................... the learner's buffer
    14   optimise π by an unconstrained RL algorithm .................... learner.train
    15   update the quantifier Γ and rewrite the stored penalties ....... end_epoch, below

Lines 2-14 run inside `learner.learn`: the learner steps what it takes for ordinary environments. An epoch (line 1) is
one rollout of an on-policy learner, or `epoch_steps` steps of an off-policy one.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch as th
from numpy.typing import ArrayLike, NDArray
from sb3_contrib import MaskablePPO
from stable_baselines3 import DQN
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, CallbackList
from stable_baselines3.common.type_aliases import MaybeCallback

from safexp.backups.penalty import Penalty
from safexp.backups.stops import Reset, Stop
from safexp.constraints import AllOf, Constraint
from safexp.constraints.files import build_constraint, describe_constraint
from safexp.core import files
from safexp.core.arrays import Array, Observations, as_batch
from safexp.core.encoding import encode_observations
from safexp.core.no_environments import NoEnvironments
from safexp.envs.guard import Guard
from safexp.envs.vector import as_vec_env
from safexp.mase.copies import copied_agent
from safexp.mase.epochs import EndOfEpoch
from safexp.mase.learner import (
    build_policy,
    check_policy,
    describe_policy,
    find_learner,
    load_weights,
    make_learner,
    name_of,
)
from safexp.mase.progress import ProgressBar
from safexp.mase.replay import Rewriting
from safexp.quantifiers import Each, Quantifier
from safexp.quantifiers.foreign import check_round_trip
from safexp.records.coverage import Coverage, measure
from safexp.records.episodes import Episode
from safexp.records.input_shift import Inputs
from safexp.shield.candidates import SafeAction
from safexp.shield.decisions import Decision
from safexp.shield.logs import Log, read_log, signals_of
from safexp.shield.shield import Shield

log = logging.getLogger("safexp")

WEIGHTS = "policy."
"""What the names of the policy's arrays begin with in a file."""
STOP = "stop."
"""What the names of a stop's arrays begin with in a file."""


class _Proposal(NamedTuple):
    """What the learner saw, the policy's action, the threshold, and what a recurrent policy remembers."""

    shown: Observations
    action: NDArray[Any]
    threshold: float | Array
    state: Any


class MASE:
    """Trains any SB3 learner without breaking the constraint while it learns.

    Args:
        env: a Gymnasium `Env` or `VectorEnv`, or an SB3 `VecEnv`.
        constraint: what must hold.
        quantifier: predicts the costs; of several costs, one for each (`Each`) or one that is copied for each.
        learner: an SB3 algorithm class. On-policy learners learn from the actions they proposed (the shield is a part
            of their environment), off-policy ones from those that were executed.
        learner_options: arguments of its constructor, "policy" among them.
        penalty: what a stop costs; None leaves the reward as it was (an ablation).
        seed_data: logged transitions to start the quantifier from, or a file of them (`read_log`).
        safe_action: an action, or a function of the observations, that is safe in every state.
        seed: of the learner and the environments.
        stop: what is done before an episode has to be stopped (`safexp.Stop`); `Reset` by default.
        levels: the only values that a cost can take, such as (0, 1), of several costs a list for each; see `Shield`.
        verify_safe_action: stop believing in the safe action where it broke its promise.
        show_threshold: append the threshold to the learner's observation; by default where the constraint says so.
        epoch_steps: how many steps of an off-policy learner make an epoch.
        shielding: False executes every proposal and never stops (an ablation: the bare learner).
        rewriting: False leaves stored penalties as they were (an ablation).
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
        seed: int | None = None,
        stop: Stop | None = None,
        levels: Sequence[Any] | None = None,
        verify_safe_action: bool = True,
        show_threshold: bool | None = None,
        epoch_steps: int = 1000,
        shielding: bool = True,
        rewriting: bool = True,
    ) -> None:
        for name, given, kind in [
            *(("constraint", constraint, Constraint), ("quantifier", quantifier, Quantifier)),
            *(("penalty", penalty, Penalty), ("stop", stop, Stop)),
        ]:
            if not isinstance(given, kind) and not (given is None and name in ("penalty", "stop")):
                raise TypeError(f"{name}={given!r} is not a safexp.{kind.__name__}.")
        if epoch_steps < 1:
            raise ValueError(f"epoch_steps={epoch_steps} must be at least 1.")
        venv = as_vec_env(env)
        if isinstance(constraint, AllOf) and not isinstance(quantifier, Each):
            quantifier = Each.of(quantifier, len(constraint.parts))
        limits = constraint.parts if isinstance(constraint, AllOf) else (constraint,)
        if quantifier.num_costs != len(limits):
            raise ValueError(
                f"quantifiers for {quantifier.num_costs} costs, but {type(constraint).__name__} limits {len(limits)}: "
                "give one for each, or one that is copied for each."
            )
        shield = Shield(
            quantifier,
            venv.observation_space,
            venv.action_space,
            levels=levels,
            safe_action=safe_action,
            verify_safe_action=verify_safe_action,
        )
        for limit, own in zip(limits, shield.levels or (), strict=False):
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
        if isinstance(seed_data, str | Path):
            seed_data = read_log(seed_data)
        if seed_data is not None:
            shield.fit(seed_data._replace(costs=constraint.normalise(signals_of(seed_data, constraint))))
        check_round_trip(quantifier)
        self.guard = Guard(
            venv, constraint, shield, penalty, shielding=shielding, show_threshold=show_threshold, stop=stop
        )
        self.epoch_steps = epoch_steps
        self.epochs = self.epoch_began = 0
        self.coverage: list[Coverage] = []
        self.inputs = Inputs(seed or 0)
        self.rewriting = rewriting
        self.learner_options = dict(learner_options or {})
        self.learner = make_learner(learner, self.guard, self.learner_options, seed)
        if isinstance(self.learner, DQN):
            self.guard.preferences = self._q_values

    @property
    def constraint(self) -> Constraint:
        return self.guard.constraint

    @property
    def shield(self) -> Shield:
        return self.guard.shield

    @property
    def quantifier(self) -> Quantifier:
        return self.guard.shield.quantifier

    @property
    def envs(self) -> Guard:
        """The environments that the learner learns on."""
        return self.guard

    @property
    def episodes(self) -> list[Episode]:
        """Every episode that ended during training."""
        return self.guard.recorder.episodes

    @property
    def violations(self) -> int:
        """How many training episodes broke the constraint, finished or still running."""
        return self.guard.recorder.violations

    def learn(self, total_timesteps: int, callback: MaybeCallback = None, progress_bar: bool = False) -> Self:
        """Algorithm 1 for (at least) this many further environment steps."""
        if not total_timesteps >= 1:
            raise ValueError(f"total_timesteps={total_timesteps} must be at least 1.")
        if self.guard.mid_step:
            self.learner._last_obs = None  # an exception broke a step: start new episodes
        elif self.learner._last_obs is not None:
            self._recheck()
        callbacks: list[BaseCallback] = [EndOfEpoch(self)]
        if callback is not None:
            callbacks.append(self.learner._init_callback(callback))
        with ProgressBar(total_timesteps, self.guard.recorder) if progress_bar else nullcontext() as bar:
            if bar is not None:
                callbacks.append(bar)
            self.learner.learn(total_timesteps, CallbackList(callbacks), reset_num_timesteps=False)
        return self

    def end_epoch(self) -> None:
        """Line 15: update the quantifier from the executed actions and true costs, and rewrite what is stored."""
        self.epochs += 1
        harvest = self.guard.harvest()
        if harvest is None:
            return
        self.inputs.add(harvest.transitions.states, harvest.transitions.actions)
        if not self.guard.shielding:
            return
        self.coverage.append(measure(self.quantifier, *harvest))  # before it learns from them
        self.quantifier.update(harvest.transitions)
        self.guard.stop.learn()
        self._recheck()

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
        state: Any = None,
        episode_start: ArrayLike = False,
    ) -> Decision:
        """What the policy proposes in a state, and what the shield makes of it under this threshold.

        Thresholds are told as `Constraint.threshold` tells them, in units of the largest cost of a step. A recurrent
        policy remembers: give it `episode_start=True` at the first step, and the last decision's `state` at all others.
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
        decision = self.shield.filter(observation, proposal.action, certifiable, preferences=ranking)
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
        shield, learned = self.shield.describe()
        weights = {f"{WEIGHTS}{name}": part.cpu().numpy() for name, part in self.learner.policy.state_dict().items()}
        document = {
            "versions": files.versions(),
            "shield": shield,
            "constraint": describe_constraint(self.constraint),
            "penalty": self.guard.penalty and asdict(self.guard.penalty),
            "show_threshold": self.guard.show_threshold,
            "braking": self.guard.stop.braking,
            "learner": name_of(type(self.learner)),
            "policy": describe_policy(self.learner_options),
        }
        stop = {f"{STOP}{name}": part for name, part in self.guard.stop.state().items()}
        files.write(Path(path), document, {**learned, **weights, **stop, **self.inputs.state()})

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
        stop: Stop | None = None,
    ) -> Self:
        """The agent that `save` wrote; give an `env` to go on learning, and again whatever held a function."""
        document, arrays = files.read(Path(path))
        files.expect(document, "shield", path)
        files.expect(document, "policy", path)
        venv = None if env is None else as_vec_env(env)
        with files.understood(path):
            shield = Shield.build(document["shield"], arrays, quantifier=quantifier, safe_action=safe_action)
            braking = float(document.get("braking", 0.0))
            agent = cls(
                venv or NoEnvironments(shield.observation_space, shield.action_space),
                constraint or build_constraint(document["constraint"]),
                shield.quantifier,
                learner or find_learner(document["learner"]),
                learner_options=build_policy(check_policy(document["policy"], arrays), learner_options or {}),
                penalty=document["penalty"] and Penalty(**document["penalty"]),
                safe_action=None if shield.vouched is None else shield.vouched.action,
                seed=seed,
                stop=stop or Reset(braking),
                levels=document["shield"]["levels"],
                show_threshold=document["show_threshold"],
            )
            agent.shield.vouched = shield.vouched  # with its outcomes
        if agent.guard.stop.braking < braking:
            raise files.CheckpointError(
                f"{path} was trained with braking={braking:g}, and stop={stop!r} has "
                f"{agent.guard.stop.braking:g}: give it as much."
            )
        for name in ("observation_space", "action_space"):
            saved, given = getattr(shield, name), getattr(agent.shield, name)
            if saved != given:
                kinds = [f"{type(space).__name__} of shape {space.shape}" for space in (saved, given)]
                differ = (
                    f"{kinds[0]}, the environment has {kinds[1]}" if kinds[0] != kinds[1] else f"{saved}, not {given}"
                )
                raise files.CheckpointError(f"{path} was saved for the {name} {differ}.")
        with files.understood(path):
            agent._take_learned(arrays)
        return agent

    def restore(self, path: str | Path) -> None:
        """Take policy and quantifier from the file that an agent made like this one wrote."""
        document, arrays = files.read(Path(path))
        files.expect(document, "shield", path)
        with files.understood(path):
            self.shield.restore(arrays)
            self._take_learned(arrays)

    def _take_learned(self, arrays: files.Arrays) -> None:
        weights = {name[len(WEIGHTS) :]: part for name, part in arrays.items() if name.startswith(WEIGHTS)}
        load_weights(self.learner, weights)
        self.inputs.restore(arrays)
        self.guard.stop.restore({name[len(STOP) :]: part for name, part in arrays.items() if name.startswith(STOP)})

    def __deepcopy__(self, memo: dict[int, Any]) -> MASE:
        return copied_agent(self, self.learner, self.guard, memo)

    def _q_values(self, observations: Observations) -> Array:
        assert isinstance(self.learner, DQN)
        tensor, _ = self.learner.policy.obs_to_tensor(observations)
        with th.no_grad():
            return self.learner.q_net(tensor).cpu().numpy().astype(np.float64)
