"""Map from lines of the core to the tests that run them, measured once for every test file.

A line is identified by its file's name, its function and its text, so that the map survives changes elsewhere in the
file, and moves of files to another folder.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mutants.mutations import DEFAULT, MODULE, Mutation, function_body

FIRST_STAGE = 20
"""Number of tests that are tried before all others are even imported."""


def digest(root: Path, test_file: str) -> str:
    """Digest that changes with a test file, or with anything in its folders that tests share."""
    shared = [path for path in (root / "tests").rglob("*.py") if not path.name.startswith("test_")]
    parts = sorted([root / test_file, *shared])
    return hashlib.sha256(b"".join(path.read_bytes() for path in parts)).hexdigest()[:16]


def test_files(root: Path, left_out: Iterable[str]) -> list[str]:
    skipped = {path for pattern in left_out for path in root.glob(pattern)}
    return [str(path.relative_to(root)) for path in sorted((root / "tests").rglob("test_*.py")) if path not in skipped]


def functions(source: bytes) -> list[str]:
    """Function or class of every line, the module for all others; the first line has index 1."""
    names = [MODULE] * (source.count(b"\n") + 2)

    def visit(node: ast.AST, name: str) -> None:
        for inner in ast.iter_child_nodes(node):
            own = name
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                own = f"{name}.{inner.name}".lstrip(".")
                assert inner.end_lineno is not None
                names[inner.lineno : inner.end_lineno + 1] = [own] * (inner.end_lineno + 1 - inner.lineno)
            visit(inner, own)

    visit(ast.parse(source), "")
    return names


class Reach:
    """Tests that run a line, a function, or a file; the fastest first."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        self._index: dict[str, set[str]] | None = None
        self._seconds: dict[str, float] = {}

    def missing(self, root: Path, files: Iterable[str]) -> list[str]:
        """Test files that were never recorded, or have changed since."""
        return [file for file in files if self.files.get(file, {}).get("digest") != digest(root, file)]

    def forget_all_but(self, files: Iterable[str]) -> None:
        """Discard test files that no longer exist or are no longer wanted."""
        kept = set(files)
        self.files = {file: told for file, told in self.files.items() if file in kept}
        self._index = None

    def add(self, root: Path, test_file: str, outcome: dict[str, Any]) -> None:
        """Store the recording of a test file, as names of lines.

        Code that runs while the file is collected, because a parameter is created there, counts for all of its tests.
        """
        names: dict[str, list[str]] = {}

        def named(lines: dict[str, list[int]]) -> set[str]:
            for source in lines:
                if source not in names:
                    names[source] = line_names(root / source)
            return {names[source][number] for source, numbers in lines.items() for number in numbers}

        collected = {line for line in named(outcome["collected"]) if function_body(line.split(":", 2)[1])}
        self.files[test_file] = {
            "digest": digest(root, test_file),
            "words": sorted(set(re.findall(r"\w+", (root / test_file).read_text()))),
            "tests": {
                test: [seconds, sorted(named(lines) | collected)]
                for test, (seconds, lines) in outcome["tests"].items()
                if test not in outcome["failed"]
            },
        }
        self._index = None
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps(self.files))
        temporary.replace(self.path)

    def tests(self, file: str, mutation: Mutation, most_seconds: float) -> list[str]:
        """Tests that notice this line, the fastest first, up to this many seconds in total."""
        if self._index is None:
            self._build()
            assert self._index is not None
        name = Path(file).name
        if function_body(mutation.function):
            line = [] if mutation.kind == DEFAULT else [f"{name}:{mutation.function}:{mutation.line_text}"]
            places = [*line, f"{name}:{mutation.function}", name]  # a default is read when the function runs
            reaching = next((found for place in places if (found := self._index.get(place))), set())
            nearest = {test for test in reaching if f"test_{Path(file).stem}" in test}
        else:  # code that runs at import is noticed by the tests that use it
            nearest = self._mentioning(mutation)
            reaching = self._index.get(name, set()) | nearest
        ordered = sorted(
            reaching, key=lambda test: (self._seconds[test] > 1.0, test not in nearest, self._seconds[test], test)
        )
        chosen, spent = [], 0.0
        for test in ordered:
            spent += self._seconds[test]
            if chosen and spent > most_seconds:
                break
            chosen.append(test)
        return chosen

    def _mentioning(self, mutation: Mutation) -> set[str]:
        """Tests of files in which the name of a class or constant occurs."""
        name = mutation.function.rpartition(".")[2]
        if name == MODULE:
            name = mutation.line_text.partition("=")[0].partition(":")[0].strip()
        return {test for told in self.files.values() if name in told["words"] for test in told["tests"]}

    def stages(self, tests: list[str]) -> list[tuple[list[str], float]]:
        """Tests in up to two parts, each with a timeout."""
        parts = [part for part in (tests[:FIRST_STAGE], tests[FIRST_STAGE:]) if part]
        return [(part, 60.0 + 10.0 * sum(self._seconds[test] for test in part)) for part in parts]

    def _build(self) -> None:
        index: dict[str, set[str]] = defaultdict(set)
        for recorded in self.files.values():
            for test, (seconds, lines) in recorded["tests"].items():
                self._seconds[test] = seconds
                for line in lines:
                    file, function, _ = line.split(":", 2)
                    index[line].add(test)
                    index[f"{file}:{function}"].add(test)
                    index[file].add(test)
        self._index = dict(index)


def line_names(path: Path) -> list[str]:
    """Name of every line of a file; the first has index 1."""
    source = path.read_bytes()
    texts = ["", *source.decode().splitlines()]
    return [f"{path.name}:{function}:{text.strip()}" for function, text in zip(functions(source), texts, strict=False)]
