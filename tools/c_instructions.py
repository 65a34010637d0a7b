"""Machine instructions of the decisions of an exported shield, counted by Valgrind: no clock and no interrupts.

The shield and the questions are those of `safexp bench shield`. Needs Debian's valgrind and a C compiler.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import safexp
from safexp.bench.shield import OUTCOMES, THRESHOLD, set_up
from safexp.compiled.build import compile_c, find_compiler

PROGRAM = """
#include <stdio.h>
#include "shield.h"

int main(int argc, char **argv)
{
    static shield_t s;
    static shield_decision decision;
    shield_real question[SHIELD_OBSERVATION + SHIELD_ACTION], threshold[SHIELD_COSTS] = {THRESHOLD};
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (file == NULL)
        return 2;
    shield_init(&s, NULL);
    while (fread(question, sizeof question, 1, file) == 1) {
        shield_filter(&s, question, NULL, question + SHIELD_OBSERVATION, threshold, NULL, &decision);
        printf("%d\\n", decision.outcome > 2 ? 2 : decision.outcome);
    }
    return 0;
}
"""


def count(shield: safexp.Shield, questions: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Outcomes (n,) and instructions (n,) of the decisions about observations and proposals in rows (n, d)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shield.export_c(folder / "shield.c")
        (folder / "main.c").write_text(PROGRAM.replace("THRESHOLD", str(THRESHOLD)), encoding="utf-8")
        (folder / "questions").write_bytes(questions.tobytes())
        sources = [str(folder / file) for file in ("main.c", "shield.c")]
        compile_c(find_compiler(), ["-std=c99", "-O2", "-ffp-contract=off", *sources, "-o", f"{name}/decide", "-lm"])
        words = ["--tool=callgrind", "--toggle-collect=shield_filter", "--dump-after=shield_filter"]
        words += [f"--callgrind-out-file={name}/counts", f"{name}/decide", f"{name}/questions"]
        done = subprocess.run(["valgrind", *words], capture_output=True, text=True, check=True)
        counts = [_total(folder / f"counts.{k}") for k in range(1, len(questions) + 1)]
    return np.array(done.stdout.split(), dtype=np.int64), np.array(counts)


def _total(path: Path) -> int:
    """The instructions that one file of callgrind counts."""
    line = next(line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("totals:"))
    return int(line.split()[1])


def main() -> None:
    """Print the instructions of every kind of decision."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=1000)
    options = parser.parse_args()
    shield, log = set_up({})
    rows = np.linspace(0, len(log.actions) - 1, options.questions).astype(int)
    outcomes, counts = count(shield, np.concatenate([log.observations[rows], log.actions[rows]], axis=1, dtype=float))
    print("| decision | questions | fewest | median | p99.9 | most | most / median |\n|---|---|---|---|---|---|---|")
    for code, name in enumerate(OUTCOMES):
        own = counts[outcomes == code]
        if len(own):
            middle = np.median(own)
            found = [len(own), own.min(), middle, np.percentile(own, 99.9), own.max()]
            print(f"| {name} | {' | '.join(f'{one:,.0f}' for one in found)} | {own.max() / middle:.3f} |")


if __name__ == "__main__":
    main()
