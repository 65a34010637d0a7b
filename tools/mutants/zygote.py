"""Process that has imported slow modules, and forks itself for every job, so that no mutant has to import torch.

It reads one job per line from its standard input and writes one outcome per line. It must not import the package
itself.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

from mutants import child

PRELOADED = (
    "coverage",
    "gymnasium.vector",
    "hypothesis.extra.numpy",
    "matplotlib.figure",
    "numpy",
    "plotly.graph_objects",
    "rich.progress",
    "safetensors.numpy",
    "sb3_contrib",
    "scipy.optimize",
    "scipy.stats.qmc",
    "stable_baselines3",
    "torch",
    "torch.utils.tensorboard",
    "tyro",
)


def preload() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in PRELOADED:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    import torch

    torch.set_num_threads(1)
    assert "safexp" not in sys.modules, "the package must be imported by the forked process, from its own tree"


def fork(job: dict[str, Any], scratch: Path) -> dict[str, Any]:
    """Run a job in its own process group; one that takes too long is killed with everything that it started."""
    told, spoken = scratch / "outcome.json", scratch / "output.txt"
    told.unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        _be_child(job, told, spoken)
    signal.signal(signal.SIGTERM, lambda *_: (_kill_group(pid), os._exit(1)))
    began, late = time.monotonic(), False
    while True:
        done, _ = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() - began > job["timeout"]:
            late = True
            _kill_group(pid)
            os.waitpid(pid, 0)
            break
        time.sleep(0.01)
    _kill_group(pid)
    seconds = round(time.monotonic() - began, 2)
    if late:
        return {"late": True, "seconds": seconds}
    if not told.exists():
        return {"died": spoken.read_text(errors="replace")[-2000:], "seconds": seconds}
    return {**json.loads(told.read_text()), "seconds": seconds}


def _be_child(job: dict[str, Any], told: Path, spoken: Path) -> None:
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        output = os.open(spoken, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, onto in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(descriptor, onto)
        child.answer(job, told)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that sends the jobs decides when to end
    preload()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for line in sys.stdin:
            print(json.dumps(fork(json.loads(line), Path(folder))), file=answers, flush=True)


if __name__ == "__main__":
    main()
