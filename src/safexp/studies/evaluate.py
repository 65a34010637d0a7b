"""How a trained agent does when it no longer explores."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from safexp.episodes import Episode
from safexp.studies.load import load, propose

FRESH = 1_000_000
"""Added to a run's seed: episodes that it was not trained on."""


def evaluate(folder: Path, episodes: int = 100) -> list[Episode]:
    """So many episodes of a finished run's agent, deterministic, as it was trained: with its shield or its wrapper.

    Every environment plays one episode, so that short ones do not count more often than long ones.
    """
    config, agent = load(folder, episodes)
    guarded = agent.envs
    try:
        guarded.seed(config.seed + FRESH)
        observations = guarded.reset()
        found: dict[int, Episode] = {}
        while len(found) < episodes:
            before = len(guarded.recorder.episodes)
            observations, _, ended, _ = guarded.step(propose(agent, observations, deterministic=True))
            for place, row in enumerate(np.flatnonzero(ended).tolist()):
                found.setdefault(row, guarded.recorder.episodes[before + place])
        return [found[row] for row in range(episodes)]
    finally:
        guarded.close()
