"""Completion of a vector step, recorded before anything else is done with it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from safexp.core.arrays import Array, Flags, Observations
from safexp.core.costs import Step
from safexp.core.spans import Spans, untimed
from safexp.envs.infos import Infos
from safexp.envs.vector import owned, put
from safexp.records.episodes import Drivers, Recorder


class Received(NamedTuple):
    """Result of a step of n environments.

    `observations` are the current ones, first states where `dones`, in memory that the environments do not write to;
    `step` holds the states before and after the actions, last states where `dones`.
    """

    observations: Observations
    rewards: Array
    dones: Flags
    infos: Infos
    step: Step
    signals: Array


def receive(
    venv: VecEnv,
    recorder: Recorder,
    before: Observations,
    executed: NDArray[Any],
    drivers: Drivers,
    span: Spans = untimed,
) -> Received:
    """Finish a step that was begun with `executed` in the states `before`, and record it.

    A step that raises is recorded too, because its actions may have been executed: each row as far as it can be read,
    with the worst case for whatever cannot.
    """
    recorded, rewards = recorder.steps, np.zeros(len(executed))
    signals = np.full((len(executed), *np.shape(recorder.constraint.worst_signal)), np.nan)
    try:
        with span("physics"):
            returned, given, dones, told = venv.step_wait()
        observations, infos = owned(venv, returned), Infos.of(told)
        rewards = np.asarray(given, dtype=np.float64)
        finished = np.flatnonzero(dones).tolist()
        last = [infos[i]["terminal_observation"] for i in finished]
        following = put(observations, finished, last) if finished else observations
        step = Step(before, executed, following, infos.column)
        try:
            signals = recorder.constraint.read(step)
        except Exception:
            signals = recorder.constraint.salvage(step._replace(info=infos.readable))
            raise
        recorder.step(rewards, signals, drivers)
    except BaseException:
        if recorder.steps == recorded:
            unread = np.isnan(signals)
            worst = np.where(unread, recorder.constraint.worst_signal, signals)
            unreadable: Flags = np.any(unread.reshape(len(unread), -1), axis=1)
            recorder.step(np.nan_to_num(rewards), worst, drivers, unreadable)
        raise
    return Received(observations, rewards, dones, infos, step, signals)
