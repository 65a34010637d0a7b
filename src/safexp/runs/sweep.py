"""Many runs in parallel, in local processes or on a Ray cluster; finished runs are skipped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from safexp.runs.config import RunConfig
from safexp.runs.folder import RunFailedError
from safexp.runs.plugins import find_task

if TYPE_CHECKING:
    from safexp.runs.trackers import Start  # needs torch


class RunOutcome(NamedTuple):
    """Outcome of a run of a sweep: its folder, and the problem if it failed."""

    folder: Path
    problem: str | None


Do = Callable[[RunConfig], RunOutcome]
"""The function that a worker calls for each run."""


def sweep(
    configs: Sequence[RunConfig],
    workers: int = 2,
    *,
    ray: str | None = None,
    tell: Callable[[RunOutcome | None], None] = lambda news: None,
    track: Start | None = None,
) -> list[RunOutcome]:
    """Train many runs, several at a time; one that fails does not stop the others.

    A finished run is kept, one that was interrupted or has fewer steps continues from its last checkpoint, and one
    whose worker dies is tried again. A folder with other settings is a problem of that run only.

    Call it under `if __name__ == "__main__":`, since its processes import your script. A failed run's `problem` says
    why, and calling `sweep` again continues it.

    Args:
        configs: settings of the runs, each with its own folder.
        workers: number of runs at a time.
        ray: address of a Ray cluster to run on; "local" starts one on this machine.
        tell: called with every outcome, and about once a second with None.
        track: also sends the metrics of every run to a tracker; it is pickled.

    Example:
        >>> config = safexp.RunConfig(steps=20_000, seed=1000)
        >>> configs = safexp.variations(config, {"penalty": [0.3, 1.0]}, seeds=2, out=Path("runs/penalties"))
        >>> len(configs)
        4
        >>> outcomes = safexp.sweep(configs, workers=2)  # doctest: +SKIP
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
    """Train a run, or continue it."""
    from safexp.runs.run import run

    try:
        run(config, resume=True, track=track)
    except (ValueError, OSError, RunFailedError) as error:
        return RunOutcome(config.folder, str(error))
    return RunOutcome(config.folder, None)
