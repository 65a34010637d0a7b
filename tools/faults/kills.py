"""Runs that are killed repeatedly at random moments before they may finish.

The files of such a run must equal those of an undisturbed run byte for byte; a witness that is independent of the
shield counts the executed steps. One process has everything imported and forks for every start.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

from faults.witness import TASK, unsafe_steps
from safexp.runs import folder as run_folder

LIMIT = 2.0
"""Budget of the runs, which a bare learner overspends in most episodes."""

ATTEMPTS = 8
"""Number of kills before a run may finish."""

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
PRELOADED = (
    "safexp.cli",
    "safexp.runs.run",
    "safexp.report.html",
    "safexp.report.terminal",
    "faults.witness",
    "scipy.ndimage",
    "scipy.optimize",
    "scipy.stats",
    "torch._dynamo",
    "torch.utils.tensorboard",
    "typeguard",
    "narwhals",
    "plotly.graph_objects",
    "tyro.extras",
)
"""Modules imported in advance, since otherwise most kills would hit the imports of a command."""
KEPT = (run_folder.EPISODES, run_folder.METRICS)


class Tally:
    """Counts of checks, and the failed ones."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.kills = self.finished = self.steps = 0
        self.wrong: list[str] = []

    def check(self, holds: bool, claim: str) -> None:
        """Record a failed check."""
        if not holds:
            self.wrong.append(claim)

    def check_words(self, said: str) -> None:
        """Record output that a user should not see."""
        self.check("Traceback" not in said, f"a traceback was shown: {said[said.find('Traceback') :][:1000]}")

    def row(self) -> dict[str, Any]:
        """Row of a table."""
        note = f"{self.finished} finished" + (f", {self.steps:,} steps witnessed" if self.steps else "")
        problems = "".join(f"; {claim}" for claim in sorted(set(self.wrong))[:3])
        return {
            "what": self.what,
            "tried": self.kills,
            "accepted": self.finished,
            "refused": 0,
            "wrong": len(self.wrong),
            "note": note + problems,
        }


def kill_training(folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill training `kills` times; see the module."""
    _end(_start(["tasks"], folder / "tasks.txt"))  # from now on everything is imported
    return _kill_runs("training", lambda out: [*train_words(out), "--resume"], folder, kills, seed)


def kill_sweep(folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill a sweep of two runs, or one of its workers, `kills` times; see the module."""
    return _kill_runs("sweep", sweep_words, folder, kills, seed)


def _kill_runs(what: str, words: Callable[[Path], list[str]], folder: Path, kills: int, seed: int) -> dict[str, Any]:
    rng, tally, server = np.random.default_rng(seed), Tally(f"killed {what}"), _server()
    whole = folder / what
    began = time.monotonic()
    _end(_start(words(whole), folder / f"{what}.txt"))
    took = time.monotonic() - began
    expected = _kept(whole)
    number = 0
    while tally.kills < kills:
        number += 1
        out, said = folder / f"{what}{number}", folder / f"{what}{number}.txt"
        for attempt in range(ATTEMPTS + 1):
            process = _start(words(out), said)
            if attempt < ATTEMPTS and tally.kills < kills:
                process.join(took * rng.random())
                _kill(process, _others(server, process), rng, tally)
            code = _end(process)
            tally.check(code <= 0 or code > 128, f"exit code {code}")
            tally.check(_deserted(server), "a process was left behind")
            _check_folders(out, expected, tally)
            if code == 0:
                break
        else:
            tally.check(False, f"a {what} did not finish")
            break
        tally.finished += 1
        tally.check(_kept(out) == expected, "files differ from those of an undisturbed run")
        left = sorted(path.name for path in out.rglob(".*") if path.name != run_folder.LOCK)
        tally.check(not left, f"left behind: {left}")
        tally.check_words(said.read_text())
        steps, unsafe = unsafe_steps(_testimony(out), LIMIT)
        tally.steps += steps
        tally.check(unsafe == 0, f"{unsafe} unsafe steps")
    return tally.row()


def kill_report(folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill `safexp report` `kills` times: its page must be the old one or the new one, and complete."""
    rng, tally = np.random.default_rng(seed), Tally("killed report")
    run, page, said = folder / "training", folder / "report.html", folder / "report.txt"
    began = time.monotonic()
    _end(_start(["report", str(run), "--out", str(page)], said))
    took, whole = time.monotonic() - began, page.read_bytes()
    while tally.kills < kills:
        old = rng.random() < 0.5
        page.write_bytes(b"old") if old else page.unlink(missing_ok=True)
        process = _start(["report", str(run), "--out", str(page)], said)
        process.join(took * rng.random())
        _kill(process, [], rng, tally)
        tally.finished += _end(process) == 0
        found = page.read_bytes() if page.exists() else b""
        tally.check(found == whole or found == (b"old" if old else b""), "the page is neither the old one nor the new")
        tally.check_words(said.read_text())
    return tally.row()


def train_words(out: Path) -> list[str]:
    """A short run of the witnessed task that checkpoints every epoch."""
    return ["train", *_settings(out)]


def sweep_words(out: Path) -> list[str]:
    """Two such runs side by side."""
    return ["sweep", *_settings(out), "--seeds", "2", "--workers", "2"]


def _settings(out: Path) -> list[str]:
    learner = {"n_steps": 32, "batch_size": 64, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}}
    return [
        "--task",
        TASK,
        "--task-options",
        json.dumps({"testimony": str(_testimony(out))}),
        "--budget",
        str(LIMIT),
        "--learner-options",
        json.dumps(learner),
        "--num-envs",
        "4",
        "--steps",
        "512",
        "--out",
        str(out),
    ]


def _testimony(out: Path) -> Path:
    return out.with_suffix(".testimony")


def _kept(out: Path) -> dict[Path, bytes]:
    """Recorded files of the runs in a folder, with their contents."""
    return {path.relative_to(out): path.read_bytes() for name in KEPT for path in out.rglob(name)}


def _check_folders(out: Path, expected: dict[Path, bytes], tally: Tally) -> None:
    """Check that the files on disk are readable, and prefixes of the expected ones."""
    for config in out.rglob(run_folder.CONFIG):
        try:
            run_folder.read(config.parent)
        except run_folder.RunFolderError as error:
            tally.check(False, f"the folder cannot be read: {error}")
    for path, found in _kept(out).items():
        tally.check(expected.get(path, b"").startswith(found), f"{path.name} is not a prefix of the expected file")


def _start(words: list[str], said: Path) -> BaseProcess:
    """Start a safexp command in its own process, and wait until it has begun."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    ready, ours = context.Pipe(duplex=False)
    process = context.Process(target=_command, args=(words, said, ours))
    process.start()
    ours.close()
    ready.poll(60)
    ready.close()
    return process


def _command(words: list[str], said: Path, ready: Any) -> None:
    from safexp.cli import main
    from safexp.runs import resume
    from safexp.runs.interrupts import ending_on_sigterm

    output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    resume.SHARE = 1e9  # a checkpoint after every epoch, so that there is much to interrupt
    code = 1
    try:
        with ending_on_sigterm():
            ready.send(None)
            code = main(words)
    except KeyboardInterrupt:  # before the command handles signals
        code = 130
    finally:
        os._exit(code)


def _kill(process: BaseProcess, workers: list[int], rng: np.random.Generator, tally: Tally) -> None:
    """Send a command one of the signals, unless it has ended by then; its exit code must match.

    Every second time one of its workers is killed instead, if it has any: the command must recover from that.
    """
    if process.exitcode is not None or process.pid is None:
        return
    tally.kills += 1
    if workers and rng.random() < 0.5:
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(int(rng.choice(workers)), signal.SIGKILL)
        return
    chosen = SIGNALS[int(rng.integers(len(SIGNALS)))]
    os.kill(process.pid, chosen)
    code = _end(process)
    expected = -chosen if chosen == signal.SIGKILL else 128 + chosen
    tally.check(code in (0, expected), f"exit code {code} after {chosen.name}")  # 0: it was about to end


def _server() -> int:
    """Process that all others are forked from."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("forkserver")) as pool:
        return pool.submit(os.getppid).result()


def _others(server: int, process: BaseProcess | None = None) -> list[int]:
    """Children of the server that are still running, except for this process; Linux only."""
    children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    return [int(child) for child in children if process is None or int(child) != process.pid]


def _deserted(server: int) -> bool:
    """Whether no process of a command is left; workers may take a moment to exit."""
    until = time.monotonic() + 10
    while _others(server) and time.monotonic() < until:
        time.sleep(0.01)
    return not _others(server)


def _end(process: BaseProcess) -> int:
    """Wait for a process, and return its exit code."""
    process.join(120)
    if process.exitcode is None:
        process.kill()
        process.join()
        return 1
    return process.exitcode
