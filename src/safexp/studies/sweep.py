"""Many runs, side by side in processes; a run that is finished already is not done again."""

from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from safexp.studies import folder as run_folder
from safexp.studies.config import RunConfig


class Outcome(NamedTuple):
    """How a run of a sweep came out: its folder, and what went wrong, if anything did."""

    folder: Path
    problem: str | None


def sweep(
    configs: Sequence[RunConfig], workers: int = 2, done: Callable[[Outcome], None] = lambda outcome: None
) -> list[Outcome]:
    """Run all of these, so many at a time; one that fails does not stop the others.

    A folder with the same description whose run finished is kept; one whose run did not finish is done again; a folder
    of another description is a problem of that run.
    """
    if workers < 1:
        raise ValueError(f"workers={workers} must be at least 1.")
    folders = [config.folder for config in configs]
    twice = {str(folder) for folder in folders if folders.count(folder) > 1}
    if twice:
        raise ValueError(f"several runs have the same folder: {', '.join(sorted(twice))}.")
    outcomes: dict[Path, Outcome] = {}
    for future in _submit(configs, workers):
        outcome = future.result()
        outcomes[outcome.folder] = outcome
        done(outcome)
    return [outcomes[folder] for folder in folders]


def _submit(configs: Sequence[RunConfig], workers: int) -> Iterable[Future[Outcome]]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, max(len(configs), 1)), mp_context=context) as pool:
        try:
            yield from as_completed([pool.submit(run_one, config) for config in configs])
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def run_one(config: RunConfig) -> Outcome:
    """Do a run, unless it is finished already."""
    from safexp.studies.run import run

    try:
        if config.folder.exists():
            found = run_folder.read(config.folder)
            if found.config.to_json() != config.settled().to_json():
                return Outcome(config.folder, "its folder holds a run with another description: remove it")
            if found.status == "finished":
                return Outcome(config.folder, None)
            shutil.rmtree(config.folder)
        run(config)
    except (ValueError, OSError, run_folder.RunFailedError) as error:
        return Outcome(config.folder, str(error))
    return Outcome(config.folder, None)
