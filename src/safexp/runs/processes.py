"""Runs in processes of this machine, one process for each run.

Not a `ProcessPoolExecutor`: it gives up all runs when one of its workers is killed, and leaves its workers behind when
it is killed itself.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import NamedTuple

from safexp.runs.config import RunConfig
from safexp.runs.sweep import Do, RunOutcome

ATTEMPTS = 3
"""How often a run is taken up whose process dies."""

TICK = 1.0
"""Seconds between two pieces of news, if only that there is none."""


class Work(NamedTuple):
    """A run in its process, and which attempt it is."""

    config: RunConfig
    attempt: int
    process: BaseProcess
    answer: Connection


def in_processes(do: Do, configs: Sequence[RunConfig], workers: int) -> Iterator[RunOutcome | None]:
    """Outcomes as they come, and None now and then; nothing is left running, however this ends."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["safexp.runs.run"])
    waiting = deque((config, 1) for config in configs)
    running: list[Work] = []
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                running.append(_start(context, do, *waiting.popleft()))
            wait([work.process.sentinel for work in running], TICK)
            over = [work for work in running if not work.process.is_alive()]
            running = [work for work in running if work not in over]
            for work in over:
                outcome = _outcome(work)
                if outcome is None and work.attempt < ATTEMPTS:
                    waiting.appendleft((work.config, work.attempt + 1))
                else:
                    problem = f"its process died {ATTEMPTS} times (exit code {work.process.exitcode})"
                    yield outcome or RunOutcome(work.config.folder, problem)
            yield None
    finally:
        for work in running:
            work.process.terminate()
        for work in running:
            work.process.join()


def _start(context: multiprocessing.context.ForkServerContext, do: Do, config: RunConfig, attempt: int) -> Work:
    answer, ours = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(do, config, ours), daemon=True)
    process.start()
    ours.close()
    return Work(config, attempt, process, answer)


def _outcome(work: Work) -> RunOutcome | None:
    """What a process that is over said, if it said anything."""
    work.process.join()
    try:
        return work.answer.recv() if work.answer.poll() else None
    except EOFError:
        return None
    finally:
        work.answer.close()


def _work(do: Do, config: RunConfig, answer: Connection) -> None:
    """Do a run in this process, which ends with the one that started it."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        answer.send(do(config))
    except KeyboardInterrupt:
        os._exit(130)  # the sweep says what happened


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "runs in a child process"
    parent.join()
    os._exit(1)
