"""Steps per second of the Goal tasks beside the bare physics: `python benchmarks/tasks.py [BATCH ...] [--json]`."""

import json
import sys

from rich.console import Console
from rich.table import Table

from safexp.bench.tasks import measure


def main() -> None:
    batches = [int(word) for word in sys.argv[1:] if word.isdigit()] or [1, 16, 64]
    rows = measure(batches=batches)
    if "--json" in sys.argv[1:]:
        json.dump(rows, sys.stdout, indent=1)
        return
    table = Table(*(column.replace("_", " ") for column in rows[0]))
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
