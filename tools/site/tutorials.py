"""Run the tutorials, and write them as pages with their output and pictures.

    python tools/site/tutorials.py             # all; or names, such as first-policy

A tutorial is docs/tutorials/NAME.py in jupytext's percent format, so editors and Jupyter open it as a notebook. Its
page is docs/tutorials/NAME.md, its pictures are docs/tutorials/pictures/NAME-1.png and so on; all are committed,
because the site is built without running anything.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"
CELL = re.compile(r"^# %%( \[markdown\])?.*\n", re.MULTILINE)


class Cell(NamedTuple):
    """Text of a Markdown cell, or code with its output and pictures (PNG)."""

    code: bool
    text: str
    output: str = ""
    pictures: tuple[bytes, ...] = ()


def cells_of(source: str) -> list[Cell]:
    """Split a file in percent format into its cells; its header is left out."""
    _, *parts = CELL.split(source)
    kinds_and_texts = zip(parts[::2], parts[1::2], strict=True)
    return [
        Cell(kind is None, (re.sub(r"^# ?", "", text, flags=re.MULTILINE) if kind else text).strip())
        for kind, text in kinds_and_texts
    ]


def executed(cells: list[Cell]) -> Iterator[Cell]:
    """Run the code cells from top to bottom in one namespace, in the present folder."""
    names: dict[str, Any] = {"__name__": "tutorial"}
    for cell in cells:
        if not cell.code:
            yield cell
            continue
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            exec(compile(cell.text, "tutorial", "exec"), names)
        yield cell._replace(output=told.getvalue().rstrip(), pictures=tuple(drawn()))


def drawn() -> Iterator[bytes]:
    """Close all open figures and return them as PNG."""
    for number in plt.get_fignums():
        file = io.BytesIO()
        plt.figure(number).savefig(file, format="png", dpi=110, bbox_inches="tight")
        yield file.getvalue()
    plt.close("all")


def page_of(name: str, cells: list[Cell]) -> str:
    """Page of a tutorial, as Markdown."""
    parts, count = [], 0
    for cell in cells:
        parts.append(f"```python\n{cell.text}\n```" if cell.code else cell.text)
        if cell.output:
            parts.append(f"```text\n{cell.output}\n```")
        for _ in cell.pictures:
            count += 1
            parts.append(f"![What this code draws](pictures/{name}-{count}.png)")
    source = f"*This page is [{name}.py]({name}.py), run from top to bottom; Jupyter opens that file with jupytext.*"
    return "\n\n".join([*parts, source]) + "\n"


def run(name: str) -> list[Cell]:
    """Run a tutorial in a temporary folder, in which `results` are those of the repository."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "results").symlink_to(ROOT / "results")
        os.chdir(folder)
        try:
            return list(executed(cells_of((TUTORIALS / f"{name}.py").read_text())))
        finally:
            os.chdir(before)


def write(name: str) -> None:
    """Run a tutorial and write its page and pictures."""
    cells = run(name)
    (TUTORIALS / f"{name}.md").write_text(page_of(name, cells))
    (TUTORIALS / "pictures").mkdir(exist_ok=True)
    for number, picture in enumerate((one for cell in cells for one in cell.pictures), 1):
        (TUTORIALS / "pictures" / f"{name}-{number}.png").write_bytes(picture)


if __name__ == "__main__":
    for wanted in sys.argv[1:] or sorted(path.stem for path in TUTORIALS.glob("*.py")):
        write(wanted)
