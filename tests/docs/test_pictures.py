"""The pictures of the site: drawn by a script, in light and dark, and shown on a page."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DRAWN = [
    f"{name}-{shade}.svg" for name in ("architecture", "step", "certificate", "backups") for shade in ("light", "dark")
]


@pytest.mark.slow
def test_the_script_draws_every_picture(tmp_path: Path) -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "site" / "pictures.py"))
    assert tool["main"](tmp_path) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(DRAWN)
    light, dark = ((tmp_path / f"architecture-{shade}.svg").read_text() for shade in ("light", "dark"))
    assert light != dark


@pytest.mark.parametrize("name", DRAWN)
def test_every_picture_is_stored_and_shown_in_its_scheme(name: str) -> None:
    assert (ROOT / "docs" / "figures" / name).exists()
    shade = name.rpartition("-")[2].removesuffix(".svg")
    assert any(f"figures/{name}#only-{shade}" in page.read_text() for page in (ROOT / "docs").rglob("*.md"))
