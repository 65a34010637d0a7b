"""Loading a trained agent on fresh environments."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safexp.core.files import CheckpointError
from safexp.mase.agent import Agent
from safexp.runs.agents import described, locate
from safexp.runs.build import build
from safexp.runs.config import RunConfig


def load(
    agent: str | Path,
    num_envs: int = 1,
    task: str | None = None,
    task_options: Mapping[str, Any] | None = None,
) -> Agent:
    """Trained agent with its shield or wrapper as in training, on fresh copies of its task or of another.

    Args:
        agent: a run folder, an agent file with the settings of its run, or the name of an agent that comes with safexp,
            such as `point-button1-mase`; its task, `safexp/PointButton1-v0`, names the one trained with MASE.
        num_envs: number of copies.
        task: another task with the same observations and actions.
        task_options: arguments of the task.

    Example:
        >>> agent = safexp.load("point-button1-mase", num_envs=2)
        >>> observations = agent.envs.reset()
        >>> observations.shape  # the last entry is the remaining budget
        (2, 77)
        >>> agent.constraint.limit
        25.0
    """
    return load_with_settings(agent, num_envs, task=task, task_options=task_options)[1]


def load_with_settings(
    path: str | Path,
    num_envs: int,
    render_mode: str | None = None,
    task: str | None = None,
    task_options: Mapping[str, Any] | None = None,
) -> tuple[RunConfig, Agent]:
    """Load the settings of a run and its agent; user code that the run refers to (`package:Name`) is imported."""
    file, trained = described(locate(path))
    drawn = {} if render_mode is None else {"render_mode": render_mode}
    options = task_options or (trained.task_options if task in (None, trained.task) else {})
    config = dataclasses.replace(
        trained, num_envs=num_envs, task=task or trained.task, task_options={**options, **drawn}
    )
    agent = build(config, to_use=True)
    agent.evaluate()
    try:
        agent.restore(file)
    except CheckpointError as error:
        if config.task == trained.task:
            raise
        raise ValueError(
            f"{file} was saved for {trained.task}; {config.task} has other observations or actions."
        ) from error
    return trained, agent
