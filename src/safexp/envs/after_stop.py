"""Steps after an emergency stop: a controller drives on, off the learner's record, and its true costs are recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from safexp.core.arrays import Controller, Flags, Observations, batch_size, take
from safexp.core.costs import Step
from safexp.envs.vector import BatchedVecEnv, SomeSteps, step_some
from safexp.records.episodes import Recorder


def check_drives_on(venv: VecEnv) -> None:
    """Raise `ValueError` if single environments cannot be stepped."""
    inner = venv.unwrapped
    if isinstance(inner, BatchedVecEnv) and not inner.steps_some:
        raise ValueError(
            f"Reset(after=...) drives on only where an episode was stopped, and {type(inner.envs).__name__} steps all "
            "environments at once: make it with vectorization_mode='sync' and without vector wrappers, use an SB3 "
            "VecEnv, give it a method step_some (docs/how-to/emergency-stop.md), or leave `after` out, which takes the "
            "stop to be free."
        )


def drive_on(
    venv: VecEnv, recorder: Recorder, observations: Observations, stopped: Flags, controller: Controller, steps: int
) -> None:
    """Let the controller drive the `stopped` environments from these observations (n, ...) on, for up to `steps` steps.

    It ends earlier where an environment does. A step that raises is recorded first, as elsewhere: each row as far as it
    can be read, with the worst case for whatever cannot.
    """
    rows, before = np.flatnonzero(stopped), take(observations, stopped)
    for _ in range(steps):
        taken = _drive_step(venv, recorder, rows, before, controller)
        rows, before = rows[~taken.dones], take(taken.observations, ~taken.dones)
        if not len(rows):
            return


def _drive_step(
    venv: VecEnv, recorder: Recorder, rows: NDArray[np.intp], before: Observations, controller: Controller
) -> SomeSteps:
    """One step of the controller in the environments `rows` (m,), recorded."""
    constraint = recorder.constraint
    signals = np.full((len(rows), *np.shape(constraint.worst_signal)), np.nan)
    try:
        actions = _actions(controller, before, venv.action_space)
        taken = step_some(venv, rows, actions, before)
        step = Step(before, actions, taken.observations, taken.infos.column)
        try:
            signals = constraint.read(step)
        except Exception:
            signals = constraint.salvage(step._replace(info=taken.infos.readable))
            raise
    except BaseException:
        unread = np.isnan(signals)
        worst = np.where(unread, constraint.worst_signal, signals)
        recorder.after_stop(rows, worst, np.any(unread.reshape(len(rows), -1), axis=1))
        raise
    recorder.after_stop(rows, signals)
    return taken


def _actions(controller: Controller, observations: Observations, space: spaces.Space[Any]) -> NDArray[Any]:
    """The controller's actions (m, ...)."""
    actions = np.asarray(controller(observations))
    expected = (batch_size(observations), *(space.shape or ()))
    if actions.shape != expected or not np.isfinite(actions).all():
        raise ValueError(
            f"the controller after a stop returned {actions!r}, expected finite actions of shape {expected}: one for "
            "each of the observations it was given."
        )
    return actions.astype(space.dtype)
