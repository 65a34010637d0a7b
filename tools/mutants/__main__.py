"""`python -m mutants --seed 0 --count 500`, or `make mutants`."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mutants.mutations import compiles, mutations
from mutants.reach import Reach, test_files
from mutants.results import SURVIVED, Mutant, Results, digest, kill_rate, known_equivalent, show, split
from mutants.workers import Worker, copy_tree

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SETTINGS = tomllib.loads((HERE / "core.toml").read_text())
LEAST_RATE = 0.95
RECORDING_SECONDS = 1200.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutants", description="Random mutations that the tests must notice.")
    parser.add_argument("--seed", type=int, default=0, help="seed of the choice and order of mutants")
    parser.add_argument("--count", type=int, default=500, help="number of mutants")
    parser.add_argument("--minutes", type=float, default=60.0, help="time limit, without the recording of tests")
    parser.add_argument("--seconds", type=float, default=60.0, help="time of tests for one mutant, the fastest first")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="*", help="glob of the files to mutate, such as */guard.py")
    parser.add_argument("--again", action="store_true", help="try only those that survived before")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "mutants")
    return parser.parse_args()


def sources(tree: Path) -> list[str]:
    found = {glob: [str(path.relative_to(tree)) for path in tree.glob(glob)] for glob in SETTINGS["core"]}
    if nothing := [glob for glob, paths in found.items() if not paths]:
        raise ValueError(f"core.toml: {', '.join(nothing)} match no file; correct the patterns.")
    return sorted({path for paths in found.values() for path in paths})


def sample(tree: Path, seed: int, count: int, only: str) -> list[Mutant]:
    """First `count` mutants in the random order of this seed; an edit changes that order only for its own mutants."""
    contents = {file: (tree / file).read_bytes() for file in sources(tree) if fnmatch(file, only)}
    everything = [Mutant(file, m, digest(source)) for file, source in contents.items() for m in mutations(source)]
    everything.sort(key=lambda mutant: random.Random(repr((seed, *mutant.meaning, mutant.mutation.before))).random())
    chosen: list[Mutant] = []
    for mutant in everything:
        if len(chosen) == count:
            break
        if compiles(mutant.mutation.apply(contents[mutant.file])):
            chosen.append(mutant)
    return chosen


def spread(workers: list[Worker], jobs: list[Callable[[Worker], None]], until: float) -> None:
    """Give each worker the next job as soon as it is free, until the time is up."""
    queue: Iterator[Callable[[Worker], None]] = iter(jobs)
    lock = threading.Lock()

    def work(worker: Worker) -> None:
        while time.monotonic() < until:
            with lock:
                job = next(queue, None)
            if job is None:
                return
            job(worker)

    with ThreadPoolExecutor(len(workers)) as pool:
        try:
            for future in [pool.submit(work, worker) for worker in workers]:
                future.result()
        except BaseException:
            for worker in workers:
                worker.end()
            raise


def record(tree: Path, workers: list[Worker], reach: Reach, progress: Progress) -> None:
    """Measure which lines of the core the new and changed test files run."""
    known = test_files(tree, SETTINGS["tests_left_out"])
    reach.forget_all_but(known)
    missing = reach.missing(tree, known)
    task = progress.add_task("recording tests", total=len(missing))
    lock = threading.Lock()

    def job(file: str) -> Callable[[Worker], None]:
        def do(worker: Worker) -> None:
            outcome = worker.ask({"record": file, "sources": sources(tree), "timeout": RECORDING_SECONDS})
            if not outcome.get("tests"):
                why = outcome.get("died", "it takes too long").strip()[-300:]
                raise RuntimeError(f"{file} could not be recorded: {why}")
            if outcome["failed"]:
                progress.console.print(f"fail without any mutation: {outcome['failed']}", style="yellow", markup=False)
            with lock:
                reach.add(tree, file, outcome)
            progress.advance(task)

        return do

    spread(workers, [job(file) for file in missing], float("inf"))


def try_all(
    workers: list[Worker],
    mutants: list[Mutant],
    reach: Reach,
    results: Results,
    progress: Progress,
    options: argparse.Namespace,
) -> None:
    task = progress.add_task("mutants", total=len(mutants))
    lock = threading.Lock()

    def job(mutant: Mutant) -> Callable[[Worker], None]:
        def do(worker: Worker) -> None:
            with lock:
                tests = reach.tests(mutant.file, mutant.mutation, options.seconds)
            outcome = worker.try_mutant(mutant.file, mutant.mutation, reach.stages(tests))
            if not tests:
                status, by = "unreached", ""
            elif outcome.get("passed"):
                status, by = "survived", f"{len(tests)} tests"
            else:
                status, by = "killed", "timeout" if outcome.get("late") else outcome.get("by", "died")
            with lock:
                results.add(mutant, status, by, outcome["seconds"])
            if status in SURVIVED:
                m = mutant.mutation
                progress.console.print(
                    f"{mutant.file}:{m.line} {m.function}: {m.before} → {m.after}", markup=False, highlight=False
                )
            progress.advance(task)

        return do

    spread(workers, [job(mutant) for mutant in mutants], time.monotonic() + 60 * options.minutes)


def main() -> None:
    options = arguments()
    console = Console()
    options.out.mkdir(parents=True, exist_ok=True)
    reach, results = Reach(options.out / "reach.json"), Results(options.out / f"seed-{options.seed}.jsonl")
    tried = results.outcomes
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mutants-")))
        tree = copy_tree(ROOT, folder / "pristine")
        mutants = sample(tree, options.seed, options.count, options.only)
        todo = [mutant for mutant in mutants if due(mutant, tried.get(mutant.identity), options.again)]
        progress = stack.enter_context(Progress(*columns, console=console))
        workers = [stack.enter_context(Worker(tree, folder / str(k))) for k in range(options.workers)]
        with suppress(KeyboardInterrupt):
            record(tree, workers, reach, progress)
            try_all(workers, todo, reach, results, progress, options)
    outcomes = [tried[mutant.identity] for mutant in mutants if mutant.identity in tried]
    counted, left_out = split(outcomes, known_equivalent(HERE / "equivalent.toml"))
    show(console, counted, left_out)
    if len(outcomes) < len(mutants):
        console.print(f"{len(mutants) - len(outcomes)} mutants were not tried in time; repeat the command to go on.")
    sys.exit(kill_rate(counted) < LEAST_RATE)


def due(mutant: Mutant, outcome: dict[str, Any] | None, again: bool) -> bool:
    """Whether to try a mutant: one that was not tried yet or, with `again`, one that survived."""
    return outcome is None if not again else outcome is not None and outcome["status"] in SURVIVED


if __name__ == "__main__":
    main()
