"""The code in README and docs: the README's runs as it stands there, all of it parses and names nothing undefined."""

import builtins
import inspect
import re
import symtable
from collections.abc import Iterator
from pathlib import Path

import pytest

import safexp

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]

READERS_OWN = {
    "c-export.md": {"observation", "action", "threshold"},
    "README.md": {"observation_space", "action_space", "observation", "observations", "actions", "costs", "controller"},
    "backups.md": {"envs", "regulator", "brake", "veer_left", "veer_right"},
    "obstacles.md": {"envs", "log", "brake", "drive_out"},
    "emergency-stop.md": {"envs", "brake"},
    "check.md": {"env"},
    "doctor.md": {"shield", "env", "controller", "cautious_controller"},
    "deployment.md": {"low", "high", "env", "controller", "cautious_controller", "brake", "running", "plant"},
}
"""What blocks use that the reader has, and no page can."""


def blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from scopes(child)


def undefined(text: str) -> set[str]:
    """The names that a page's blocks use and neither they nor an earlier block of the page define."""
    known, missing = {*dir(builtins), "__file__", "__name__"}, set()
    for block in blocks(text):
        table = symtable.symtable(block, "block", "exec")
        known |= {name.get_name() for name in table.get_symbols() if name.is_assigned() or name.is_imported()}
        names = [name for scope in scopes(table) for name in scope.get_symbols() if name.is_global()]
        missing |= {name.get_name() for name in names if name.is_referenced()} - known
    return missing


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    block, one_liner, _ = blocks(README.read_text())
    assert len([line for line in block.splitlines() if line]) <= 15
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(block.replace("30_000", "2_048") + one_liner, names)
    assert "0 violations in" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_name_nothing_that_is_not_there(page):
    assert undefined(page.read_text()) - READERS_OWN.get(page.name, set()) == set()


def test_a_missing_import_is_found():
    first, second = "x = np.zeros(3)", "import numpy as np\n\nprint(np.sum(x), (lambda z: y + z)(1), z)"
    page = f"```python\n{first}\n```\n```python\n{second}\n```\n"
    assert undefined(page) == {"np", "y", "z"}


def test_the_page_on_python_has_all_arguments_of_mase():
    table = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "python.md").read_text(), re.MULTILINE)
    assert list(inspect.signature(safexp.MASE).parameters) == table[: table.index("compiled") + 1]
