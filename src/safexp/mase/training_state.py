"""State of training in an agent's file: optimisers and replay buffer, so that learning goes on where it was."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm

from safexp.core.files import Arrays, CheckpointError
from safexp.mase.replay import Rewriting

TRAINING = "training."
"""Prefix of the names of these arrays in a file."""
STORED = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
HISTORY = ("executed", "rewards", "thresholds", "stopped", "measured")


def training_state(learner: BaseAlgorithm) -> Arrays:
    """Arrays of a learner's training beyond its policy's weights."""
    found: Arrays = {"steps": np.array([learner.num_timesteps, learner._n_updates])}
    for name, optimiser in _optimisers(learner):
        for index, state in optimiser.state_dict()["state"].items():
            for key, value in state.items():
                found[f"optimiser.{name}.{index}.{key}"] = th.as_tensor(value).cpu().numpy()
    for name in learner._get_torch_save_params()[1]:
        if (tensor := _attribute(learner, name)) is not None:
            found[f"tensor.{name}"] = tensor.detach().cpu().numpy()
    buffer: Any = getattr(learner, "replay_buffer", None)
    if isinstance(buffer, Rewriting):
        rows = buffer.size()  # type: ignore[attr-defined]
        found["replay.place"] = np.array([buffer.pos, buffer.full])  # type: ignore[attr-defined]
        found |= {f"replay.{name}": part[:rows] for name, part in _stored(buffer)}
    return {f"{TRAINING}{name}": np.array(part, order="C") for name, part in found.items()}


def restore_training(learner: BaseAlgorithm, arrays: Arrays) -> None:
    """Restore what `training_state` stored, if the file has it.

    Raises:
        CheckpointError: if it does not fit this learner.
    """
    found = {name[len(TRAINING) :]: part for name, part in arrays.items() if name.startswith(TRAINING)}
    if not found:
        return
    learner.num_timesteps, learner._n_updates = (int(number) for number in found["steps"])
    for name, optimiser in _optimisers(learner):
        state = optimiser.state_dict()
        prefix = f"optimiser.{name}."
        state["state"] = {}
        for key, part in found.items():
            if key.startswith(prefix):
                index, _, entry = key[len(prefix) :].partition(".")
                state["state"].setdefault(int(index), {})[entry] = th.as_tensor(part.copy())
        optimiser.load_state_dict(state)
    for name in learner._get_torch_save_params()[1]:
        if f"tensor.{name}" in found:
            with th.no_grad():
                _attribute(learner, name).copy_(th.as_tensor(found[f"tensor.{name}"]))
    buffer: Any = getattr(learner, "replay_buffer", None)
    if isinstance(buffer, Rewriting) and "replay.place" in found:
        _fill(buffer, found)


def _fill(buffer: Any, found: Arrays) -> None:
    position, full = (int(number) for number in found["replay.place"])
    for name, part in _stored(buffer):
        stored = found[f"replay.{name}"]
        if stored.shape[1:] != part.shape[1:] or len(stored) > len(part):
            raise CheckpointError(
                f"the file's replay buffer has {name} of shape {stored.shape}, and this learner's {part.shape}: give "
                "as many environments as in training, and learner_options={'buffer_size': ...} of at least its size."
            )
        part[: len(stored)] = stored
        rows = len(stored)
    buffer.full = bool(full) and rows == buffer.buffer_size
    buffer.pos = position if buffer.full or not full else rows
    buffer.history.filled = rows


def _stored(buffer: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """Arrays (size, n, ...) of a replay buffer and of its history of stops, by name."""
    for name in STORED:
        part = getattr(buffer, name)
        if isinstance(part, dict):
            yield from ((f"{name}.{key}", inner) for key, inner in part.items())
        else:
            yield name, part
    yield from ((f"history.{name}", getattr(buffer.history, name)) for name in HISTORY)


def _optimisers(learner: BaseAlgorithm) -> Iterator[tuple[str, th.optim.Optimizer]]:
    for name in learner._get_torch_save_params()[0]:
        part = _attribute(learner, name)
        if isinstance(part, th.optim.Optimizer):
            yield name, part


def _attribute(learner: BaseAlgorithm, path: str) -> Any:
    return reduce(getattr, path.split("."), learner)
