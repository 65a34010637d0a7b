"""The shield as an ordinary Gymnasium wrapper, for training loops other than Stable-Baselines3's: `wrap`."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from safexp.backups.penalty import Penalty
from safexp.backups.recovery import Recovery
from safexp.constraints import Constraint
from safexp.core.arrays import Array, Controller, Flags, Observations, take
from safexp.envs.guard import Guard
from safexp.envs.guarded import Trust, guarded
from safexp.envs.infos import Info, Infos
from safexp.envs.refit import Refit
from safexp.envs.vector import put
from safexp.quantifiers import Quantifier
from safexp.records.coverage import Coverage
from safexp.records.episodes import Episode
from safexp.shield.candidates import SafeAction
from safexp.shield.logs import Log
from safexp.shield.shield import Shield

LAST, LATE = "terminal_observation", "TimeLimit.truncated"
OWN = (LAST, LATE, "episode")
"""Entries of Stable-Baselines3's infos at the end of an episode, for which Gymnasium has other forms."""


class Shielded(ABC):
    """Common part of the wrapped environments: what training behind the shield has been so far.

    `guard` are the environments as `MASE` trains on them, which this is a view of.
    """

    guard: Guard
    _refit: Refit

    def _guard(self, guard: Guard) -> None:
        self.guard = guard
        self._refit = Refit(guard, seed=None)
        self._fresh = np.zeros(guard.num_envs, dtype=bool)  # was reset, and has not been stepped since

    @property
    def shield(self) -> Shield:
        """Shield that certifies actions; its quantifier is refitted at the end of every epoch."""
        return self.guard.shield

    @property
    def episodes(self) -> list[Episode]:
        """Episodes that ended."""
        return self.guard.recorder.episodes

    @property
    def violations(self) -> int:
        """Number of episodes that broke the constraint, finished or still running."""
        return self.guard.recorder.violations

    @property
    def coverage(self) -> list[Coverage]:
        """Coverage of every epoch, before the quantifier learned from it."""
        return self._refit.coverage

    def metrics(self) -> dict[str, Any]:
        """Metrics of the last epoch beyond those of its episodes, by name, as `MASE` has them."""
        return self._refit.metrics()

    def action_masks(self) -> Flags:
        """Certified actions of the current states, (n, number of actions), if the actions are finitely many.

        Those of a MultiDiscrete or MultiBinary space are all combinations, the last entry varying fastest.
        """
        if isinstance(self.guard.action_space, spaces.Box):
            raise ValueError(f"{self.guard.action_space} has no mask of its actions; finite spaces have.")
        return self.guard.action_masks()

    def evaluate(self, shielded: bool = True) -> None:
        """Switch to evaluation: the backup stops learning, and without `shielded` every proposal is executed."""
        self.guard.evaluate(shielded)

    def _end_epoch(self) -> Flags:
        if self.guard.mid_step:
            raise ResetNeeded("the last step did not finish, so its cost is unknown: call reset() first.")
        stopped = self.guard.recheck() if self._refit.learn() else np.zeros(self.guard.num_envs, dtype=bool)
        self._fresh = self._fresh | stopped
        return stopped

    def _begin(self, seed: int | None, options: dict[str, Any] | None) -> Observations:
        """First observations: those in which the environments already are if none was stepped since its reset."""
        if seed is None and not options and self._fresh.all() and not self.guard.mid_step:
            return self.guard.observations
        if seed is not None:
            self.guard.seed(int(seed))
        if options:
            self.guard.set_options(options)
        observations = self.guard.reset()
        self._fresh = np.ones(self.guard.num_envs, dtype=bool)
        return observations

    def _take(self, actions: NDArray[Any]) -> tuple[Observations, Array, Flags, Infos]:
        """Step all environments with proposals (n, ...), clipped to their bounds."""
        box = self.guard.action_space
        if isinstance(box, spaces.Box):
            actions = np.clip(np.asarray(actions, dtype=box.dtype), box.low, box.high)
        elif np.any(self.guard.first_action):
            actions = actions - self.guard.first_action
        observations, rewards, ended, infos = self.guard.step(actions)
        self._fresh = np.asarray(ended)
        return observations, np.asarray(rewards, dtype=np.float64), self._fresh, Infos.of(infos)


class ShieldedEnv(Shielded, gym.Wrapper[Any, Any, Any, Any]):
    """An environment that runs only certified actions; see `wrap`."""

    def __init__(self, env: gym.Env[Any, Any], guard: Guard) -> None:
        super().__init__(env)
        self._guard(guard)
        self._over = False
        self.observation_space = guard.observation_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        observations = self._begin(seed, options)
        self._over = False
        return take(observations, 0), dict(self.guard.unwrapped.reset_infos[0])

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        if self._over:
            raise ResetNeeded("the episode has ended: call reset() before the next step.")
        observations, rewards, ended, infos = self._take(np.asarray(action)[None])
        info = {key: part for key, part in infos[0].items() if key not in OWN}
        self._over = bool(ended[0])
        if not self._over:
            return take(observations, 0), float(rewards[0]), False, False, info
        late = bool(infos[0][LATE])
        return infos[0][LAST], float(rewards[0]), not late, late, info

    def end_epoch(self) -> tuple[Any, bool]:
        """Refit the quantifier, and stop the episode if it is no longer certified.

        Returns the current observation, a first one if the episode was stopped, and whether it was.
        """
        stopped = self._end_epoch()
        return take(self.guard.observations, 0), bool(stopped[0])


class ShieldedVectorEnv(Shielded, VectorWrapper[Any, Any, Any, Any, Any]):
    """Environments that run only certified actions; see `wrap`."""

    def __init__(self, envs: VectorEnv[Any, Any, Any], guard: Guard, autoreset_mode: AutoresetMode) -> None:
        super().__init__(envs)
        self._guard(guard)
        self.autoreset_mode = autoreset_mode
        self.metadata = {**envs.metadata, "autoreset_mode": autoreset_mode}
        self.single_observation_space = guard.observation_space
        self.observation_space = batch_space(guard.observation_space, guard.num_envs)
        self._everywhere = np.ones(guard.num_envs, dtype=bool)
        self._over = np.zeros(guard.num_envs, dtype=bool)  # ended, and not reset by the user as `DISABLED` asks

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        others = dict(options or {})
        mask = np.asarray(others.pop("reset_mask", self._everywhere), dtype=bool)
        if not mask.all() and ((mask & ~self._fresh).any() or (self._over & ~mask).any()):
            raise ValueError(
                f"options['reset_mask']={mask.tolist()}: reset the environments whose episodes have ended, "
                f"{self._over.tolist()}, or all of them."
            )
        observations = self._begin(seed, others) if mask.all() else self.guard.observations
        self._over = np.zeros_like(self._over)
        first = getattr(self.guard.unwrapped, "first")  # noqa: B009 (of a BatchedVecEnv)
        return observations, _with_masks(first, self._everywhere)

    def step(self, actions: Any) -> tuple[Any, Array, Flags, Flags, Info]:
        if self._over.any():
            raise ResetNeeded(f"episodes have ended: reset with the reset_mask {self._over.tolist()} first.")
        observations, rewards, ended, infos = self._take(np.asarray(actions))
        groups = {
            name: _with_masks({key: np.asarray(column) for key, column in group.items()}, self._everywhere)
            for name, group in infos.groups.items()
        }
        gathered = _with_masks({**infos.columns, **groups}, self._everywhere)
        if not ended.any():
            return observations, rewards, ended, ended.copy(), gathered
        late = np.array([over and infos[i][LATE] for i, over in enumerate(ended)], dtype=bool)
        rows: list[int] = np.flatnonzero(ended).tolist()
        last = [infos[i][LAST] for i in rows]
        if self.autoreset_mode == AutoresetMode.DISABLED:
            self._over = ended
            return put(observations, rows, last), rewards, ended & ~late, late, gathered
        final = np.full(len(ended), None, dtype=object)
        for i, observation in zip(rows, last, strict=True):
            final[i] = observation
        gathered |= _with_masks({"final_obs": final, "final_info": dict(gathered)}, ended)
        return observations, rewards, ended & ~late, late, gathered

    def end_epoch(self) -> tuple[Any, Flags]:
        """Refit the quantifier, and stop the episodes that are no longer certified.

        Returns the current observations, first ones where an episode was stopped, and which episodes (n,) were.
        """
        stopped = self._end_epoch()
        return self.guard.observations, stopped


def _with_masks(entries: dict[str, Any], where: Flags) -> dict[str, Any]:
    """Entries of the infos as Gymnasium gathers them, with a mask of the environments that gave them."""
    return {**entries, **{f"_{key}": where for key in entries}}


def wrap(
    env: Any,
    constraint: Constraint,
    quantifier: Quantifier,
    *,
    penalty: Penalty | None = Penalty(),  # noqa: B008 (immutable)
    seed_data: Log | str | Path | None = None,
    safe_action: SafeAction | None = None,
    seed_controller: Controller | None = None,
    backup: Recovery | None = None,
    levels: Sequence[Any] | None = None,
    verify_safe_action: bool = True,
    show_threshold: bool | None = None,
    shielding: bool = True,
    trust: Trust = "calibrated",
    autoreset_mode: AutoresetMode = AutoresetMode.SAME_STEP,
) -> Any:
    """Shield between any training loop and its environments, as an ordinary Gymnasium wrapper.

    The result is an `Env` or a `VectorEnv`, whichever was given, and behaves as it does under `MASE`: only certified
    actions are executed, an episode without any is handed to the backup or stopped (`terminated`) with its penalty, and
    the threshold is appended to the observation if it depends on the past. `info["shield"]` describes every step:
    the executed `action`, its `threshold`, and whether the shield `intervened` or `stopped`. `episodes` and
    `violations` are the record of training.

    Call `end_epoch()` after each update of the policy: it refits the quantifier to what was executed. On-policy
    learners learn from the action that they proposed, off-policy ones from `info["shield"]["action"]`. Proposals out
    of bounds are clipped.

    If the first reset raises `NothingSafeError`, give seed data, a safe action or a backup. `MASE` does all of this for
    Stable-Baselines3.

    Args:
        env: a Gymnasium `Env` or `VectorEnv`.
        constraint: the limits to keep.
        quantifier: predicts the costs, with their uncertainty.
        penalty: penalty of a stop; None leaves the reward unchanged.
        seed_data: logged transitions to start the quantifier from, or a log file (`read_log`).
        safe_action: an action, or a function of the observations, that is safe in every state.
        seed_controller: a controller that is safe from the first state of an episode for as long as it drives.
        backup: takes over, or ends the episode, where nothing is certified (`safexp.Recovery`); `Reset` by default.
        levels: the only values that a cost can take; see `Shield`.
        verify_safe_action: stop trusting the safe action in states like those in which it broke its promise.
        show_threshold: append the threshold to the observation; the constraint's choice by default.
        shielding: False executes every proposal and never stops, with the same records.
        trust: "uncalibrated" lets fitted, uncalibrated widths certify actions under a limit on every step.
        autoreset_mode: what a `VectorEnv` returns when an episode ends: SAME_STEP the first observation of the next
            one, with the last one in `info["final_obs"]`; DISABLED the last one, and the first one after a reset with
            options={"reset_mask": ...}.

    Example:
        >>> env = safexp.wrap(gym.make("safexp/PlanarRobot-v0"), safexp.Budget(3.0), safexp.Unknown())
        >>> observation, info = env.reset(seed=0)
        >>> observation, reward, terminated, truncated, info = env.step(env.action_space.high)
        >>> info["shield"]["intervened"]
        False
        >>> _ = env.end_epoch()
        >>> env.violations
        0
    """
    if autoreset_mode not in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED):
        raise ValueError(
            f"autoreset_mode={autoreset_mode}: a shielded environment begins its next episode at once, so that no "
            "action is ignored; use AutoresetMode.SAME_STEP or AutoresetMode.DISABLED."
        )
    if not isinstance(env, gym.Env | VectorEnv):
        raise TypeError(
            f"got a {type(env).__name__}, expected a Gymnasium Env or VectorEnv; a VecEnv of Stable-Baselines3 is "
            "trained by safexp.MASE, and safexp.adapt(env) makes an Env of one whose step returns six values."
        )
    guard = guarded(
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
    )
    return ShieldedVectorEnv(env, guard, autoreset_mode) if isinstance(env, VectorEnv) else ShieldedEnv(env, guard)
