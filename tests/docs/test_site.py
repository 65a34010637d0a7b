"""The documentation site: strict, whole, and without anything from elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import safexp

pytest.importorskip("mkdocs")
ROOT = Path(__file__).parents[2]
LOADED = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*?\s(?:src|href)=["']?(?:https?:)?//[^"'\s>]+""")
FETCHED = re.compile(r"""url\(["']?(?:https?:)?//|@import\s+["']?(?:https?:)?//""")

BROKEN = [
    ("reference/api/errors.md", "::: safexp.SignalError\n", ""),
    ("start/install.md", "deployment.md)", "deploymant.md)"),
    ("start/glossary.md", "files.md#logs", "files.md#lags"),
]


def build(config: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", str(config), "--site-dir", str(out)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.slow
def test_the_site_builds_strictly_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    built = build(ROOT / "mkdocs.yml", tmp_path)
    assert built.returncode == 0, built.stderr
    pages = {page.relative_to(tmp_path).as_posix(): page.read_text() for page in tmp_path.rglob("*.html")}
    assert [(name, found) for name, text in pages.items() for found in LOADED.findall(text)] == []
    sheets = tmp_path.rglob("*.css")
    assert [str(sheet) for sheet in sheets if FETCHED.search(sheet.read_text())] == []
    reference = "".join(text for name, text in pages.items() if name.startswith("reference/api/"))
    assert [name for name in safexp.__all__ if f'id="safexp.{name}"' not in reference] == []
    assert 'id="safexp-reproduce-grid-world"' in pages["reference/command-line.html"]


def test_what_is_loaded_from_elsewhere_is_found() -> None:
    assert LOADED.search('<script async src="https://cdn.example/x.js">')
    assert LOADED.search("<link rel=stylesheet href=//fonts.example/css>")
    assert not LOADED.search('<a href="https://arxiv.org/abs/2310.03225">')
    assert FETCHED.search("@font-face{src:url(https://fonts.example/x.woff2)}")


@pytest.mark.slow
def test_a_missing_name_link_or_anchor_fails_the_build(tmp_path: Path) -> None:
    for part in ROOT.iterdir():
        if part.name != "docs" and not part.name.startswith("."):
            (tmp_path / part.name).symlink_to(part)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for page, old, new in BROKEN:
        text = (tmp_path / "docs" / page).read_text()
        assert old in text
        (tmp_path / "docs" / page).write_text(text.replace(old, new))
    built = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert built.returncode == 1
    for complaint in ("no entry for SignalError", "deploymant.md", "files.md#lags"):
        assert complaint in built.stderr
