"""A thread that computes for a caller who waits no longer than so many seconds."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, Thread
from time import monotonic
from typing import Generic, TypeVar

T = TypeVar("T")


class Worker(Generic[T]):
    """A thread that computes one thing at a time."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job[T] | None] = SimpleQueue()
        self._latest: _Job[T] | None = None
        # A daemon: a controller that hangs must not keep the program from ending.
        Thread(target=_work, args=(self._jobs,), name="safexp decisions", daemon=True).start()

    def ask(self, call: Callable[[], T], seconds: float) -> T:
        """What the call returns; raises `TimeoutError` where that takes longer, or the thread is still busy."""
        end = monotonic() + seconds
        if self._latest is not None and not self._latest.done.wait(seconds):
            raise TimeoutError
        self._latest = job = _Job(call)
        self._jobs.put(job)
        if not job.done.wait(max(end - monotonic(), 0.0)) or job.answer is None:
            raise TimeoutError
        return job.answer

    def close(self) -> None:
        """End the thread when it is idle."""
        self._jobs.put(None)


class _Job(Generic[T]):
    """A call, and its answer when it is done."""

    def __init__(self, call: Callable[[], T]) -> None:
        self.answer: T | None = None
        self.done = Event()
        self._call: Callable[[], T] | None = call

    def run(self) -> None:
        assert self._call is not None, "a job runs once"
        self.answer = self._call()
        self._call = None  # a thread that waits for more must not keep the policy alive
        self.done.set()


def _work(jobs: SimpleQueue[_Job[T] | None]) -> None:
    while (job := jobs.get()) is not None:
        job.run()
