"""Runs in local processes, one process for each run.

Not a `ProcessPoolExecutor`, which abandons all runs when one of its workers is killed, and leaves its workers behind
when it is killed itself.
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
"""Number of attempts for a run whose process dies."""

UNGUARDED = 78
"""Exit code of a process in which the user's script started a sweep of its own."""

NEEDS_GUARD = (
    "sweep() starts processes that import your script, which called sweep() again: put the call under "
    'if __name__ == "__main__":'
)

TICK = 1.0
"""Seconds after which None is yielded if no run has finished."""


class Work(NamedTuple):
    """A run in its process, and the number of the attempt."""

    config: RunConfig
    attempt: int
    process: BaseProcess
    answer: Connection


def in_processes(do: Do, configs: Sequence[RunConfig], workers: int) -> Iterator[RunOutcome | None]:
    """Yield outcomes as runs finish, and None at regular intervals; no process is left running at the end.

    Raises:
        RuntimeError: if the user's script calls this again wherever it is imported, as in every new process.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # this process is still importing the script
        os._exit(UNGUARDED)
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
                if work.process.exitcode == UNGUARDED:
                    raise RuntimeError(NEEDS_GUARD)
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
    """The outcome that a finished process sent, if it sent one."""
    work.process.join()
    try:
        return work.answer.recv() if work.answer.poll() else None
    except EOFError:
        return None
    finally:
        work.answer.close()


def _work(do: Do, config: RunConfig, answer: Connection) -> None:
    """Train in this process, which exits when its parent does."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        answer.send(do(config))
    except KeyboardInterrupt:
        os._exit(130)  # the sweep reports it


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "runs in a child process"
    parent.join()
    os._exit(1)
