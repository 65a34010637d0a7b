"""Runs on a Ray cluster. A run whose worker or node dies is repeated elsewhere.

If the parent folder of the runs is on a file system shared with the worker, the run is written there and continues from
its last checkpoint if its worker dies. Otherwise it is written to the worker's disk and sent back at the end.
"""

from __future__ import annotations

import dataclasses
import secrets
import socket
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from safexp.core.extras import needed_for
from safexp.core.files import write_bytes
from safexp.runs import folder as run_folder
from safexp.runs.config import RunConfig
from safexp.runs.sweep import Do, RunOutcome

RETRIES = 3
TICK = 1.0


class Parcel(NamedTuple):
    """An outcome, with the files of its folder by relative name if the folder is not shared."""

    outcome: RunOutcome
    files: dict[str, bytes]


def on_cluster(do: Do, configs: Sequence[RunConfig], workers: int, address: str) -> Iterator[RunOutcome | None]:
    """Yield outcomes as runs finish, and None at regular intervals.

    Raises:
        MissingExtraError: if Ray is not installed.
        ValueError: if the cluster cannot be reached.
    """
    with needed_for("--ray"):
        import ray
    ours = not ray.is_initialized()
    if ours:
        try:
            if address == "local":
                ray.init(num_cpus=workers, log_to_driver=False, include_dashboard=False)
            else:
                _knock(address)
                ray.init(address=address, log_to_driver=False)
        except (OSError, ValueError, RuntimeError) as error:
            raise ValueError(f"--ray {address}: no cluster can be reached at this address ({error}).") from error
    tokens = [_leave_token(parent) for parent in {config.folder.absolute().parent for config in configs}]
    try:
        there = ray.remote(num_cpus=1, max_retries=RETRIES)(run_there)
        waiting = [dataclasses.replace(config, out=config.folder.absolute()) for config in configs]
        folder_of = {config.folder.absolute(): config.folder for config in configs}
        token_of = {token.parent: token for token in tokens}
        running: dict[Any, RunConfig] = {}
        while waiting or running:
            while waiting and len(running) < workers:
                config = waiting.pop(0)
                running[there.remote(do, config, token_of[config.folder.parent])] = config
            over, _ = ray.wait(list(running), timeout=TICK)
            for future in over:
                folder = folder_of[running.pop(future).folder]
                yield _receive(ray, future, folder)
            yield None
    finally:
        for token in tokens:
            token.unlink(missing_ok=True)
        if ours:
            ray.shutdown()


def run_there(do: Do, config: RunConfig, token: Path) -> Parcel:
    """Train on a worker: in the run folder if the token shows that it is shared, otherwise in a temporary folder."""
    if token.exists():
        return Parcel(do(config), {})
    with tempfile.TemporaryDirectory() as scratch:
        local = Path(scratch) / "run"
        outcome = do(dataclasses.replace(config, out=local))
        files = {
            str(path.relative_to(local)): path.read_bytes()
            for path in local.rglob("*")
            if path.is_file() and path.name != run_folder.LOCK
        }
        return Parcel(RunOutcome(config.folder, outcome.problem), files)


def _knock(address: str) -> None:
    """Raise OSError if nothing listens at host:port, which Ray itself takes minutes to detect."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=10.0).close()


def _leave_token(parent: Path) -> Path:
    parent.mkdir(parents=True, exist_ok=True)
    token = parent / f".sweep-{secrets.token_hex(8)}"
    token.touch()
    return token


def _receive(ray: Any, future: Any, folder: Path) -> RunOutcome:
    try:
        parcel: Parcel = ray.get(future)
    except ray.exceptions.RayError as error:
        return RunOutcome(folder, f"its worker was lost {RETRIES + 1} times ({type(error).__name__})")
    for name, content in parcel.files.items():
        write_bytes(folder / name, content)
    return RunOutcome(folder, parcel.outcome.problem)
