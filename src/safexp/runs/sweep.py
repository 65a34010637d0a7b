"""Many runs, side by side in processes here or on a Ray cluster; what is finished already is not done again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from safexp.runs.config import RunConfig
from safexp.runs.folder import RunFailedError
from safexp.runs.plugins import find_task

if TYPE_CHECKING:
    from safexp.runs.trackers import Start  # which needs torch


class RunOutcome(NamedTuple):
    """How a run of a sweep came out: its folder, and what went wrong, if anything did."""

    folder: Path
    problem: str | None


Do = Callable[[RunConfig], RunOutcome]
"""What a worker does."""


def sweep(
    configs: Sequence[RunConfig],
    workers: int = 2,
    *,
    ray: str | None = None,
    tell: Callable[[RunOutcome | None], None] = lambda news: None,
    track: Start | None = None,
) -> list[RunOutcome]:
    """Run all of these, so many at a time; one that fails does not stop the others.

    A run that has finished is kept, one that was interrupted or has fewer steps goes on from its last checkpoint, and
    one whose worker dies is taken up again. A folder of another description is a problem of that run.

    Args:
        configs: what to run, each in a folder of its own.
        workers: how many at a time.
        ray: the address of a Ray cluster to run them on; "local" starts one here.
        tell: is told of every outcome, and about once a second that none has come.
        track: sends the numbers of every run to a tracker, too; it is pickled.
    """
    if workers < 1:
        raise ValueError(f"workers={workers} must be at least 1.")
    folders = [config.folder for config in configs]
    twice = {str(folder) for folder in folders if folders.count(folder) > 1}
    if twice:
        raise ValueError(f"several runs have the same folder: {', '.join(sorted(twice))}.")
    for task in sorted({config.task for config in configs}):
        find_task(task)
    do = partial(run_one, track=track)
    if ray is None:
        from safexp.runs.processes import in_processes

        news = in_processes(do, configs, workers)
    else:
        from safexp.runs.cluster import on_cluster

        news = on_cluster(do, configs, workers, ray)
    outcomes: dict[Path, RunOutcome] = {}
    for outcome in news:
        if outcome is not None:
            outcomes[outcome.folder] = outcome
        tell(outcome)
    return [outcomes[folder] for folder in folders]


def run_one(config: RunConfig, track: Start | None = None) -> RunOutcome:
    """Do a run, or what is missing of it."""
    from safexp.runs.run import run

    try:
        run(config, resume=True, track=track)
    except (ValueError, OSError, RunFailedError) as error:
        return RunOutcome(config.folder, str(error))
    return RunOutcome(config.folder, None)
