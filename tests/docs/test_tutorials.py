"""The tutorials run from top to bottom, and their pages show the code that runs."""

from __future__ import annotations

import re
import runpy
import shutil
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

TOOL = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "site" / "tutorials.py"))
FOLDER: Path = TOOL["TUTORIALS"]
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))
PICTURE = re.compile(r"!\[.*\]\((pictures/.*)\)\n\n")
LARGEST = 150_000
"""Bytes of a picture."""


def test_there_are_six_and_each_is_listed() -> None:
    index = (FOLDER / "index.md").read_text()
    assert len(NAMES) == 6
    assert [name for name in NAMES if f"({name}.md)" not in index] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_page_of_a_tutorial_is_written_from_it(name: str) -> None:
    page, cells = (FOLDER / f"{name}.md").read_text(), TOOL["cells_of"]((FOLDER / f"{name}.py").read_text())
    without_output = PICTURE.sub("", re.sub(r"```text\n.*?\n```\n\n", "", page, flags=re.DOTALL))
    assert without_output == TOOL["page_of"](name, cells), "run tools/site/tutorials.py"
    assert "## What to try next" in cells[-1].text
    for picture in PICTURE.findall(page):
        assert 0 < (FOLDER / picture).stat().st_size < LARGEST


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_tutorial_runs_and_keeps_its_limits(name: str) -> None:
    if name == "deployment" and not (shutil.which("gcc") or shutil.which("clang")):
        pytest.skip("no C compiler")
    cells = TOOL["run"](name)
    plt.close("all")
    assert len(PICTURE.findall((FOLDER / f"{name}.md").read_text())) == sum(len(cell.pictures) for cell in cells)
    assert CLAIMS[name] in "\n".join(cell.output for cell in cells)


CLAIMS = {
    "deployment": "decisions that differ: 0",
    "first-policy": "behind a shield: 0 of",
    "momentum": "0 of 40 violated",
    "own-machine": "0 of 20 episodes over the limit",
    "paper": "MASE: 0 violations in",
    "report": "0 of 300 episodes violated",
}
"""A part of what each must print."""
