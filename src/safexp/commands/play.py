"""`safexp play`."""

from __future__ import annotations

import sys
from collections import deque
from pathlib import Path
from typing import Annotated

import tyro

from safexp.commands.working_directory import import_from_working_directory


def play(
    run: Annotated[Path, tyro.conf.Positional],
    /,
    video: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
    episodes: int = 5,
    seed: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None,
    stochastic: bool = False,
    shield: bool = True,
    fps: int = 30,
    json: bool = False,
) -> int:
    """Play episodes with a trained agent, print their results, and optionally record a video.

    Args:
        run: a run folder, the agent.safexp in it, an agent that comes with safexp (point-button1-mase), or its task
            (safexp/PointButton1-v0).
        video: video file to write, .mp4 or .gif: the map, the remaining budget, and the actions the shield certifies.
        episodes: number of episodes.
        seed: seed of the episodes; by default one that the agent was not trained on.
        stochastic: sample actions from the policy, as in training.
        shield: use the run's shield; without it every proposal is executed, and the video shows what it would allow.
        fps: frames per second.
        json: print JSON instead of a table.
    """
    for name, given, least in [("episodes", episodes, 1), ("fps", fps, 1), ("seed", seed or 0, 0)]:
        if given < least:
            raise ValueError(f"{name}={given} must be at least {least}.")
    import_from_working_directory()
    from safexp.report.terminal import print_rows
    from safexp.report.video import film, writer_for
    from safexp.runs.play import Player

    write = None if video is None else writer_for(video)
    player = Player.load(run, shield, filmed=video is not None)
    moments = player.play(episodes, seed, not stochastic)
    if write is None:
        deque(moments, maxlen=0)
    else:
        config = player.config
        title = f"{config.method}{'' if shield else ' without its shield'}, {config.learner}\n{config.task}"
        write(film(moments, player.agent.envs.constraint, title, fps), fps)
    recorder = player.agent.envs.recorder
    columns = ["length", "true_return", "cost", "max_step_cost", "violated", "stopped", "interventions"]
    columns += ["after_stop_cost", "after_stop_violated"] if recorder.judges_stops else []
    rows = recorder.episodes[:episodes]
    print_rows([{"episode": row.episode + 1} | {name: getattr(row, name) for name in columns} for row in rows], json)
    if video is not None:
        print(f"video: {video}", file=sys.stderr if json else sys.stdout)
    return 0
