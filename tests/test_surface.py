"""The public surface: `safexp.__all__`, which is all that README, docs and examples use."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import safexp

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.*"))]
DEEP = re.compile(r"\b(?:from|import) safexp\.\w|\bsafexp\.(?!safety_gymnasium\b)[a-z_]+\.[A-Za-z_]+")
"""Imports from inside the package, and dotted names of its modules."""
RECORDS = {"Answer", "Decision", "Decisions", "Examination", "Floor", "Knowledge", "Link", "Log"} | {
    "Rehearsal",
    "Scene",
    "Shape",
    "Transitions",
}
"""Plain records, whose fields are their arguments."""


def test_all_public_names_are_there() -> None:
    for name in safexp.__all__:
        getattr(safexp, name)
    assert dir(safexp) == sorted(safexp.__all__)


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="module 'safexp' has no attribute 'Mase'"):
        _ = safexp.Mase


@pytest.mark.parametrize("page", [page for page in PAGES if page.suffix in (".md", ".py")], ids=lambda page: page.name)
def test_pages_name_no_deep_path(page: Path) -> None:
    assert [line for line in page.read_text().splitlines() if DEEP.search(line)] == []


@pytest.mark.parametrize("line", ["from safexp.mase import x", "import safexp.tasks", "a `safexp.runs.run.run(x)`"])
def test_deep_paths_are_found(line: str) -> None:
    assert DEEP.search(line)


@pytest.mark.parametrize("line", ["safexp.MASE.load(x)", "`agent.safexp`", "safexp.safety_gymnasium.make(x)"])
def test_public_names_are_no_deep_paths(line: str) -> None:
    assert not DEEP.search(line)


@pytest.mark.parametrize("name", sorted(set(safexp.__all__) - RECORDS))
def test_at_most_four_arguments_are_positional(name: str) -> None:
    found = getattr(safexp, name)
    if not callable(found) or name.endswith("Error"):
        return
    for call in (found, getattr(found, "load", None)):
        if call is None or not call.__module__.startswith("safexp"):
            continue
        kinds = [one.kind for one in inspect.signature(call).parameters.values()]
        assert kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD) <= 4, inspect.signature(call)


@pytest.mark.parametrize("kind", [safexp.MASE, safexp.Shield, safexp.ShieldedPolicy])
def test_load_takes_its_arguments_in_the_order_of_the_constructor(kind: type) -> None:
    made, loaded = (list(inspect.signature(call).parameters) for call in (kind, kind.load))
    both = [name for name in loaded if name in made and name != "fallback"]  # an emergency's action is never optional
    assert both == [name for name in made if name in both]


def test_filter_and_filter_batch_take_the_same_arguments() -> None:
    one, many = (inspect.signature(call).parameters for call in (safexp.Shield.filter, safexp.Shield.filter_batch))
    assert [name.rstrip("s") for name in one] == [name.rstrip("s") for name in many]
    assert [part.kind for part in one.values()] == [part.kind for part in many.values()]


def test_importing_safexp_imports_no_extra() -> None:
    looked = "import sys, safexp; print(*{name.partition('.')[0] for name in sys.modules})"
    found = subprocess.run([sys.executable, "-c", looked], capture_output=True, text=True, check=True).stdout.split()
    from safexp.core.extras import EXTRAS

    assert set(found) & {package for packages in EXTRAS.values() for package in packages} == set()
