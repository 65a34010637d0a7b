"""Worker thread for calls with a deadline."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, Thread
from time import monotonic
from typing import Generic, TypeVar

T = TypeVar("T")


class Worker(Generic[T]):
    """Thread that runs one call at a time."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job[T] | None] = SimpleQueue()
        self._latest: _Job[T] | None = None
        # A daemon: a controller that hangs must not keep the program from exiting.
        Thread(target=_work, args=(self._jobs,), name="safexp decisions", daemon=True).start()

    def ask(self, call: Callable[[], T], seconds: float) -> T:
        """Result of the call; raises `TimeoutError` if it takes longer, or if the thread is still busy."""
        end = monotonic() + seconds
        if self._latest is not None and not self._latest.done.wait(seconds):
            raise TimeoutError
        self._latest = job = _Job(call)
        self._jobs.put(job)
        if not job.done.wait(max(end - monotonic(), 0.0)) or job.answer is None:
            raise TimeoutError
        return job.answer

    def close(self) -> None:
        """End the thread once it is idle."""
        self._jobs.put(None)


class _Job(Generic[T]):
    """Call, with its answer once it is done."""

    def __init__(self, call: Callable[[], T]) -> None:
        self.answer: T | None = None
        self.done = Event()
        self._call: Callable[[], T] | None = call

    def run(self) -> None:
        assert self._call is not None, "a job runs once"
        self.answer = self._call()
        self._call = None  # a waiting thread must not keep the policy alive
        self.done.set()


def _work(jobs: SimpleQueue[_Job[T] | None]) -> None:
    while (job := jobs.get()) is not None:
        job.run()
