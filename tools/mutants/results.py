"""Outcomes of mutants, one line of JSON each, and tables of them."""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from mutants.mutations import Mutation

SURVIVED = ("survived", "unreached")


class Mutant(NamedTuple):
    """Mutation of a file in its current state."""

    file: str
    mutation: Mutation
    digest: str

    @property
    def identity(self) -> tuple[str, ...]:
        """Key that is the same whenever the same mutant is tried again."""
        return (self.file, self.digest, str(self.mutation.start), str(self.mutation.end), self.mutation.text)

    @property
    def meaning(self) -> tuple[str, ...]:
        """Key that survives changes elsewhere in the file, and moves of the file."""
        return meaning(self.file, self.mutation.function, self.mutation.line_text, self.mutation.after)


def meaning(file: str, function: str, line: str, after: str) -> tuple[str, ...]:
    return (Path(file).name, function, line, after)


def digest(source: bytes) -> str:
    return hashlib.sha256(source).hexdigest()[:16]


def known_equivalent(path: Path) -> dict[tuple[str, ...], str]:
    """Mutants that no test can notice, with reasons; raises `ValueError` if a reason is missing."""
    entries = tomllib.loads(path.read_text()).get("equivalent", []) if path.exists() else []
    for entry in entries:
        if not entry.get("reason", "").strip():
            raise ValueError(f"{path}: {entry} needs a reason.")
    return {meaning(e["file"], e["function"], e["line"], e["after"]): e["reason"] for e in entries}


class Results:
    """Append-only file of outcomes; the last outcome of a mutant counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.outcomes: dict[tuple[str, ...], dict[str, Any]] = {}
        text = path.read_text() if path.exists() else ""
        for line in text.split("\n")[:-1]:  # anything after the last newline was cut short
            outcome = json.loads(line)
            self.outcomes[tuple(outcome["identity"])] = outcome
        if text and not text.endswith("\n"):
            path.write_text(text[: text.rindex("\n") + 1] if "\n" in text else "")

    def add(self, mutant: Mutant, status: str, by: str, seconds: float) -> None:
        told = mutant.mutation._asdict()
        outcome = {
            "identity": mutant.identity,
            "file": mutant.file,
            **{name: told[name] for name in ("function", "line", "line_text", "kind", "before", "after")},
            "status": status,
            "by": by,
            "seconds": seconds,
        }
        self.outcomes[mutant.identity] = outcome
        with self.path.open("a") as stream:
            stream.write(json.dumps(outcome) + "\n")
            stream.flush()
            os.fsync(stream.fileno())


def split(
    outcomes: Iterable[dict[str, Any]], equivalent: dict[tuple[str, ...], str]
) -> tuple[list[dict[str, Any]], int]:
    """Outcomes that count, and the number of those that are equivalent to the original."""
    counted, left_out = [], 0
    for outcome in outcomes:
        known = meaning(outcome["file"], outcome["function"], outcome["line_text"], outcome["after"]) in equivalent
        if known and outcome["status"] in SURVIVED:
            left_out += 1
        else:
            counted.append(outcome)
    return counted, left_out


def kill_rate(outcomes: list[dict[str, Any]]) -> float:
    killed = sum(outcome["status"] not in SURVIVED for outcome in outcomes)
    return killed / len(outcomes) if outcomes else 1.0


def show(console: Console, outcomes: list[dict[str, Any]], left_out: int) -> None:
    """Print the survivors, and the rate of each file."""
    survivors = Table(title="survivors", show_lines=False)
    for name in ("file", "line", "function", "mutation"):
        survivors.add_column(name, overflow="fold")
    by_file: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for outcome in sorted(outcomes, key=lambda o: (o["file"], o["line"])):
        by_file[outcome["file"]].append(outcome)
        if outcome["status"] in SURVIVED:
            note = " (no test reaches it)" if outcome["status"] == "unreached" else ""
            change = f"{outcome['kind']}: {_short(outcome['before'])} → {_short(outcome['after'])}{note}"
            survivors.add_row(Path(outcome["file"]).name, str(outcome["line"]), outcome["function"], change)
    rates = Table(title="killed")
    for name in ("file", "mutants", "killed", "rate"):
        rates.add_column(name, justify="left" if name == "file" else "right")
    for file, own in by_file.items():
        killed = sum(outcome["status"] not in SURVIVED for outcome in own)
        rates.add_row(file, str(len(own)), str(killed), f"{kill_rate(own):.0%}")
    rates.add_section()
    killed = sum(outcome["status"] not in SURVIVED for outcome in outcomes)
    rates.add_row("all", str(len(outcomes)), str(killed), f"{kill_rate(outcomes):.1%}")
    console.print(survivors, markup=False)
    console.print(rates, f"{left_out} more are equivalent to the original.")


def _short(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= 90 else f"{one_line[:87]}..."
