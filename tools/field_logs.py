"""Record logs of cautious controllers on the systems of the field trials: `python tools/field_logs.py`.

Needs `pip install 'safexp[field]'`. Each log is a .npz file that `safexp doctor` and `safexp bench coverage --logs`
read; the commands for the second are printed, one for each system. The controller acts with noise, and its backup
drives once in every episode (`recorded`).
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import get_args

import numpy as np
from rich.console import Console

from safexp.constraints import Within
from safexp.shield.logs import Log
from safexp.studies.field.command import Name, system_named
from safexp.studies.field.trial import recorded


def main() -> None:
    """Record, write, and print the commands."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", nargs="+", choices=get_args(Name), default=get_args(Name))
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=Path("logs"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    for name in asked.systems:
        system = dataclasses.replace(system_named(name), log_episodes=asked.episodes)
        file = asked.out / f"{name}.npz"
        write(file, recorded(system, np.random.default_rng(asked.seed)))
        limits = " ".join(limit_texts(system.limits))
        Console(width=200, emoji=False).print(f"safexp bench coverage --splits bold --logs {file} --within {limits}")


def write(file: Path, log: Log) -> None:
    """Write a log as `read_log` reads it."""
    assert log.episodes is not None and log.next_observations is not None, "told by `recorded`"
    np.savez_compressed(
        file,
        states=np.asarray(log.observations),
        actions=np.asarray(log.actions),
        next_states=np.asarray(log.next_observations),
        episodes=np.asarray(log.episodes),
    )


def limit_texts(limits: Within) -> list[str]:
    """Limits on entries of the observation, as `--within` takes them."""
    count = len(limits.sources)
    low, high = (
        [""] * count if side is None else [f"{one:g}" for one in np.broadcast_to(np.asarray(side, np.float64), count)]
        for side in (limits.low, limits.high)
    )
    return [":".join(map(str, limit)) for limit in zip(limits.sources, low, high, strict=True)]


if __name__ == "__main__":
    main()
