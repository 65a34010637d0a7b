"""Ask every kind of shield many questions, in Python and in C, some of them under sanitizers, and print a table.

A finding of a sanitizer ends the run.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import warnings
from pathlib import Path

from c_fuzz.compare import compare
from c_fuzz.deciders import Sanitized
from c_fuzz.shields import CASES


def main() -> int:
    """Run the comparison; the exit code is 1 if a decision differs, or a bound by more than rounding."""
    parser = argparse.ArgumentParser(prog="python -m c_fuzz", description=__doc__)
    parser.add_argument("--questions", type=int, default=100_000, help="questions to each shield")
    parser.add_argument("--sanitized", type=int, default=10_000, help="further questions under ASan and UBSan")
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--only", default="", help="shields whose names contain this")
    options = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)  # overflows of the odd numbers
    logging.getLogger("safexp").setLevel(logging.ERROR)
    columns = ["shield", "questions", "refused", "not the proposal", "different", "at the threshold"]
    columns += ["bounds that differ by over 1e-10", "largest difference", "in units of the bound alone"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
    wrong = 0
    for name in (name for name in CASES if options.only in name):
        case = CASES[name]()
        found = compare(case, options.questions, options.seed)
        with tempfile.TemporaryDirectory() as folder:
            decider = Sanitized(case.shield, Path(folder))
            checked = compare(case, options.sanitized, options.seed + 1, decider)
        row = [found.questions, found.refused, found.replaced, found.different, found.at_threshold, found.unequal]
        print(
            f"| {name} | {' | '.join(f'{one:,}' for one in row)} | {found.error:.1e} | {found.of_bound:.1e} |",
            flush=True,
        )
        wrong += sum(one.different + one.unequal for one in (found, checked))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
