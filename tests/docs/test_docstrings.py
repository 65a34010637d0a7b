"""Every public name has a docstring whose example runs as it stands there."""

from __future__ import annotations

import ast
import doctest
import inspect
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import safexp

NAMES = {"safexp": safexp, "np": np, "gym": gym, "Path": Path}
"""What examples may use without importing it; the API reference says so."""
CONSTANTS = {
    "IDENTITY": "quantifiers/links.py",
    "LOGISTIC": "quantifiers/links.py",
    "LAYOUTS": "tasks/navigation/suite.py",
}
"""Public names whose docstring follows their assignment, and the file it is in."""
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
STARTS_PROCESSES = {"sweep"}
"""Public names of whose example a line may be skipped."""


def docstring_of(name: str) -> str:
    if name not in CONSTANTS:
        return inspect.cleandoc(vars(getattr(safexp, name)).get("__doc__") or getattr(safexp, name).__doc__ or "")
    body = ast.parse((Path(safexp.__file__).parent / CONSTANTS[name]).read_text()).body
    for assigned, following in pairwise(body):
        if isinstance(assigned, ast.Assign) and ast.unparse(assigned.targets[0]) == name:
            return following.value.value if is_text(following) else ""  # type: ignore[attr-defined]
    return ""


def is_text(statement: Any) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


@pytest.mark.parametrize("name", safexp.__all__)
def test_the_example_of_a_public_name_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "CompiledShield" and not (shutil.which("gcc") or shutil.which("clang")):
        pytest.skip("no C compiler")
    monkeypatch.chdir(tmp_path)
    test = doctest.DocTestParser().get_doctest(docstring_of(name), dict(NAMES), name, None, None)
    skipped = [one for one in test.examples if one.options.get(doctest.SKIP)]
    assert test.examples, f"safexp.{name} has no example"
    assert len(skipped) <= (name in STARTS_PROCESSES)
    told: list[str] = []
    assert doctest.DocTestRunner(optionflags=FLAGS).run(test, out=told.append).failed == 0, "".join(told)


@pytest.mark.parametrize("name", safexp.__all__)
def test_a_docstring_begins_with_one_short_sentence(name: str) -> None:
    first, *rest = docstring_of(name).split("\n")
    assert first.endswith(".") and len(first) <= 116
    assert not rest or rest[0] == ""
