"""Loading the agent of a finished run on fresh environments."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safexp.core.files import CheckpointError
from safexp.mase.agent import Agent
from safexp.runs import folder as run_folder
from safexp.runs.build import build
from safexp.runs.config import RunConfig


def load(
    path: Path,
    num_envs: int,
    render_mode: str | None = None,
    task: str | None = None,
    task_options: Mapping[str, Any] | None = None,
) -> tuple[RunConfig, Agent]:
    """Load the settings and the agent of a run, from its folder or the agent file in it.

    The agent has its shield or wrapper as in training, on fresh copies of its task or of another. User code that the
    run refers to (`package:Name`) is imported.
    """
    folder = path.parent if path.name == run_folder.AGENT else path
    if folder.is_file():
        raise run_folder.RunFolderError(
            f"{path} is an agent without its run folder, which records what it was trained on: give that folder."
        )
    run = run_folder.read_description(folder)
    file = folder / run_folder.AGENT
    if not file.exists():
        raise run_folder.RunFolderError(f"{folder} holds no agent: its run is {run.status}.")
    drawn = {} if render_mode is None else {"render_mode": render_mode}
    options = task_options or (run.config.task_options if task in (None, run.config.task) else {})
    config = dataclasses.replace(
        run.config, num_envs=num_envs, task=task or run.config.task, task_options={**options, **drawn}
    )
    agent = build(config, to_use=True)
    agent.evaluate()
    try:
        agent.restore(file)
    except CheckpointError as error:
        if config.task == run.config.task:
            raise
        raise ValueError(
            f"{file} was saved for {run.config.task}; {config.task} has other observations or actions."
        ) from error
    return run.config, agent
