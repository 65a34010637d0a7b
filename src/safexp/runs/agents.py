"""Trained agents as single files with the settings of their runs, and those that come with safexp, by name."""

from __future__ import annotations

import re
from pathlib import Path

import gymnasium as gym

from safexp.core import files
from safexp.runs import folder as run_folder
from safexp.runs.config import RunConfig
from safexp.runs.folder import RunFolderError

SUFFIX = ".safexp"
RUN = "run"
"""Entry of an agent file with the settings of its run."""
LARGEST = 1_000_000
"""Bytes of an agent file that comes with safexp."""
PLAYED = "mase"
"""Method whose agent is played where only a task is named."""


def agent_name(task: str, method: str) -> str:
    """Name of the agent of a method on a task: `point-button1-mase` for `safexp/PointButton1-v0`."""
    plain = re.sub(r"-v\d+$", "", re.split(r"[/:]", task)[-1])
    return f"{re.sub(r'(?<=[a-z0-9])(?=[A-Z])', '-', plain).lower()}-{method}"


def agents_folder() -> Path:
    """The folder of the agents that come with safexp: part of an installed package, or `results/agents` of a clone."""
    package = Path(__file__).parents[1]
    installed = package / "agents"
    return installed if installed.is_dir() else package.parents[1] / "results" / "agents"


def shipped_agents() -> dict[str, Path]:
    """Agents that come with safexp, by name."""
    return {file.stem: file for file in sorted(agents_folder().glob(f"*{SUFFIX}"))}


def locate(agent: str | Path) -> Path:
    """The path of an agent: a run folder, a file, the name of an agent that comes with safexp, or its task.

    Raises:
        RunFolderError: if there is none; the message says how to train one.
    """
    path, text = Path(agent), Path(agent).as_posix()
    if path.exists():
        return path
    known = shipped_agents()
    name = agent_name(text, PLAYED) if text in gym.registry else text
    if name in known:
        return known[name]
    there = f"There are {', '.join(known)}." if known else f"There is none in {agents_folder()}."
    if text not in gym.registry:
        raise RunFolderError(f"{path} does not exist, and no agent of that name comes with safexp. {there}")
    out = f"runs/{name}"
    raise RunFolderError(
        f"no agent of {text} comes with safexp: train one, `safexp train --task {text} --budget 25 --learner TRPO "
        f"--num-envs 50 --steps 1000000 --out {out}`, and give its folder, {out}. {there}"
    )


def write_agent(folder: Path, file: Path) -> None:
    """Write the agent of a finished run to one file, with the settings of the run.

    Raises:
        ValueError: if the file would be too large.
    """
    run = run_folder.read_description(folder)
    document, arrays = files.read(folder / run_folder.AGENT)
    settings = {"config": run.config.to_json(), "versions": dict(run.versions)}
    content = files.pack({**document, RUN: settings}, arrays)
    if len(content) > LARGEST:
        raise ValueError(f"{file} would have {len(content):,} bytes, more than the {LARGEST:,} that an agent may have.")
    files.write_bytes(file, content)


def described(path: Path) -> tuple[Path, RunConfig]:
    """The agent file of a run folder, or of a path to that file, and the settings of its run.

    Raises:
        RunFolderError: if the run has no agent, or nothing records its settings.
    """
    folder = path.parent if path.name == run_folder.AGENT else path
    if folder.is_file():
        return path, _settings(path)
    run = run_folder.read_description(folder)
    file = folder / run_folder.AGENT
    if not file.exists():
        raise RunFolderError(f"{folder} holds no agent: its run is {run.status}.")
    return file, run.config


def is_complete(path: Path) -> bool:
    """Whether a path is a run folder, an agent in one, or an agent file with the settings of its run."""
    if path.name == run_folder.AGENT and (path.parent / run_folder.CONFIG).is_file():
        return True
    return path.is_dir() or RUN in files.read(path)[0]


def _settings(file: Path) -> RunConfig:
    document, _ = files.read(file)
    if RUN not in document:
        raise RunFolderError(
            f"{file} is an agent without its run folder, which records what it was trained on: give that folder."
        )
    with files.understood(file):
        return RunConfig.from_json(document[RUN]["config"])
