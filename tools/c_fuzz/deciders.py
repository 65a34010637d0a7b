"""Shields that decide about questions: in Python, compiled for Python, and exported with sanitizers."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

import safexp
from c_fuzz.questions import Questions
from safexp.compiled.build import compile_c, find_compiler
from safexp.core.arrays import named
from safexp.shield.compiled_shield import BACKUP, NOTHING_SAFE, REPLACEMENT, decision_type
from safexp.shield.decisions import Decisions

SANITIZED = (
    *("-std=c99", "-O1", "-g", "-ffp-contract=off", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    *("-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror"),
)


class Decider(Protocol):
    """Decides about questions whose observations are valid, and refuses others."""

    def decide(self, questions: Questions) -> Decisions:
        """Decisions, with bounds (n, K)."""

    def refuses(self, questions: Questions) -> NDArray[np.bool_]:
        """Which of the questions (n,) are refused, because an observation is none."""


class Asked:
    """A shield of Python, or one with the same methods."""

    def __init__(self, shield: safexp.Shield, who: Any = None) -> None:
        self._shield, self._who = shield, who or shield

    def decide(self, questions: Questions) -> Decisions:
        space = self._shield.action_space
        shape = (len(questions.proposals), *(space.shape or ()))
        box, proposals = isinstance(space, spaces.Box), questions.proposals.reshape(shape)
        found = self._who.filter_batch(
            as_observations(self._shield.observation_space, questions.observations),
            proposals if box else proposals.astype(np.int64),
            questions.thresholds,
            measured=questions.measured,
            last_safe=questions.last_safe.reshape(shape) if box else None,
        )
        return found._replace(upper_bounds=found.upper_bounds.reshape(len(questions.proposals), -1))

    def refuses(self, questions: Questions) -> NDArray[np.bool_]:
        return np.array([self._refuses_one(questions.rows([k])) for k in range(len(questions.observations))], bool)

    def _refuses_one(self, question: Questions) -> bool:
        try:
            self.decide(question)
        except ValueError:
            return True
        return False


class Sanitized:
    """The exported C file in a program of its own, under AddressSanitizer and UBSan."""

    def __init__(self, shield: safexp.Shield, folder: Path) -> None:
        self._shield, self._folder = shield, folder
        shield.export_c(folder / "shield.c")
        harness = Path(__file__).with_name("harness.c")
        words = [*SANITIZED, f"-I{folder}", str(harness), str(folder / "shield.c"), "-o", str(folder / "decide"), "-lm"]
        compile_c(find_compiler(), words)

    def decide(self, questions: Questions) -> Decisions:
        decided = self._run(questions)
        space, outcome = self._shield.action_space, decided["outcome"]
        if (outcome > NOTHING_SAFE).any():
            raise ValueError("an observation was refused")
        actions = decided["action"].astype(space.dtype).reshape(len(decided), *(space.shape or ()))
        stopped = (outcome == NOTHING_SAFE) | (outcome == BACKUP)
        return Decisions(actions, outcome == REPLACEMENT, stopped, decided["vouched"] == 1, decided["bounds"])

    def refuses(self, questions: Questions) -> NDArray[np.bool_]:
        return np.asarray(self._run(questions)["outcome"] > NOTHING_SAFE)

    def _run(self, questions: Questions) -> NDArray[Any]:
        """The decisions of the program; raises `AssertionError` with its messages if a sanitizer stopped it."""
        given, result = self._folder / "questions", self._folder / "decisions"
        parts = [np.zeros(0) if part is None else part for part in questions]
        content = np.int64(len(questions.observations)).tobytes() + b"".join(
            np.float64(part).tobytes() for part in parts
        )
        given.write_bytes(content)
        done = subprocess.run([self._folder / "decide", given, result], capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(f"the exported shield failed: {done.stderr}")
        kind = decision_type(self._shield.action_space, self._shield.quantifier.num_costs, np.float64)
        return np.fromfile(result, dtype=kind)


def as_observations(space: spaces.Space[Any], flat: NDArray[Any]) -> Any:
    """Flat numbers (n, d) as a batch of observations."""
    if isinstance(space, spaces.Dict):  # of c_fuzz.shields
        return {"at": flat[:, :2], "mode": flat[:, 2]}
    if isinstance(space, spaces.Tuple):  # of c_fuzz.shields
        return named((flat[:, :2], flat[:, 2]))
    return flat.reshape(len(flat), *(space.shape or ()))
