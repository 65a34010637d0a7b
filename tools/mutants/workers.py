"""Processes that run tests, each in a temporary copy of the source tree: the work tree is never modified."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from mutants.mutations import Mutation

LEFT_OUT = shutil.ignore_patterns(".*", "runs", "results", "dist", "__pycache__")


def copy_tree(root: Path, folder: Path) -> Path:
    """Copy of the current source tree, unaffected by later edits."""
    shutil.copytree(root, folder, ignore=LEFT_OUT)
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(folder / "src")], check=True)
    return folder


class WrongTreeError(RuntimeError):
    """Tests ran against other files than those of the copy."""


class Worker:
    """Zygote with a copy of a tree that does not change."""

    def __init__(self, pristine: Path, folder: Path) -> None:
        self.pristine = pristine
        self.tree = folder / "tree"
        temporary = folder / "tmp"
        temporary.mkdir(parents=True)
        shutil.copytree(pristine, self.tree)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mutants.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ
            | {"PYTHONPATH": str(Path(__file__).parents[1]), "TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"},
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End the process and its current job."""
        self._process.terminate()
        self._process.wait()

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        """Outcome of a job, run in its own process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"tree": str(self.tree), **job}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker ended with exit code {self._process.wait()}.")
        outcome = json.loads(line)
        if outcome.get("strangers"):
            raise WrongTreeError(f"tests imported {outcome['strangers'][0]} instead of a file in {self.tree}.")
        return outcome

    def try_mutant(self, file: str, mutation: Mutation, stages: list[tuple[list[str], float]]) -> dict[str, Any]:
        """Outcome of the first stage that notices the mutant, or of the last; a stage is tests and their timeout."""
        target, original = self.tree / file, self.pristine / file
        outcome: dict[str, Any] = {"passed": True, "seconds": 0.0}
        spent = 0.0
        try:
            target.write_bytes(mutation.apply(original.read_bytes()))
            for cached in target.parent.glob(f"__pycache__/{target.stem}.*.pyc"):
                cached.unlink()
            for tests, timeout in stages:
                outcome = self.ask({"tests": tests, "timeout": timeout})
                spent += outcome["seconds"]
                if not outcome.get("passed"):
                    break
        finally:
            shutil.copy2(original, target)
        return {**outcome, "seconds": round(spent, 2)}
