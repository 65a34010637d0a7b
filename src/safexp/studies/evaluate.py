"""How a trained agent does when it no longer explores."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from safexp.baseline import Baseline
from safexp.episodes import Episode
from safexp.mase import MASE
from safexp.studies import folder as run_folder
from safexp.studies.build import make_constraint, make_envs, make_recorded, make_stop
from safexp.tasks.knowledge import knowledge_of
from safexp.vector import as_vec_env

FRESH = 1_000_000
"""Added to a run's seed: episodes that it was not trained on."""


def evaluate(folder: Path, episodes: int = 100) -> list[Episode]:
    """So many episodes of a finished run's agent, deterministic, as it was trained: with its shield or its wrapper.

    Every environment plays one episode, so that short ones do not count more often than long ones.
    """
    run = run_folder.read(folder)
    file = folder / run_folder.AGENT
    if not file.exists():
        raise run_folder.RunFolderError(f"{folder} holds no agent: its run is {run.status}.")
    config, envs = run.config, make_envs(run.config.task, episodes, run.config.task_options)
    if config.method == "mase":
        agent = MASE.load(file, envs, stop=make_stop(config, knowledge_of(envs)))
        guarded, learner = agent.envs, agent.learner
    else:
        guarded, _ = make_recorded(config, as_vec_env(envs), make_constraint(config), {})  # type: ignore[assignment]
        learner = Baseline.load(file)
    try:
        guarded.seed(config.seed + FRESH)
        observations = guarded.reset()
        found: dict[int, Episode] = {}
        while len(found) < episodes:
            before = len(guarded.recorder.episodes)
            actions, _ = learner.predict(observations, deterministic=True)
            observations, _, ended, _ = guarded.step(actions)
            for place, row in enumerate(np.flatnonzero(ended).tolist()):
                found.setdefault(row, guarded.recorder.episodes[before + place])
        return [found[row] for row in range(episodes)]
    finally:
        guarded.close()
