"""`python -m faults --inputs 10000 --kill 200`, or `make faults`: the exit code is 1 if any check fails."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from faults import files, kills, ledger
from safexp.report.terminal import print_rows

SEED = 1000


def measure(inputs: int = 10_000, kill: int = 200) -> list[dict[str, Any]]:
    """Results for every kind of file, every fault of an environment, and every command that is killed.

    For a fault of an environment, `accepted` counts the recorded violations, and `wrong` their difference from the
    ledger inside the environment. `accepted` files were read (most contain something else that is valid), `refused`
    ones raised one of our errors with a message, and `wrong` is anything else: another exception, or a failed check of
    a killed run.
    """
    if inputs < 1 or kill < 1:
        raise ValueError(f"inputs={inputs} and kill={kill} must be at least 1.")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        # An invalid checkpoint may change objects in memory, so every kind of file has its own process.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*kills.PRELOADED, "faults.files"])
        with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
            names = pool.submit(files.prepare, folder).result()
            rows = [pool.submit(files.fuzz, folder, name, inputs, SEED).result() for name in names]
            rows += [pool.submit(ledger.compare, fault, 20 * kill, SEED).result() for fault in ledger.FAULTS]
        rows.append(kills.kill_training(folder, kill, SEED))
        rows.append(kills.kill_sweep(folder, max(kill // 4, 1), SEED))
        rows.append(kills.kill_report(folder, max(kill // 10, 1), SEED))
    return rows


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="faults", description="Effects of damaged files, faults and kills.")
    parser.add_argument("--inputs", type=int, default=10_000, help="damaged files of every kind")
    parser.add_argument("--kill", type=int, default=200, help="number of kills of training")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    given = parser.parse_args()
    rows = measure(given.inputs, given.kill)
    print_rows(rows, given.json)
    return 1 if any(row["wrong"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
