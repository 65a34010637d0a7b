"""Git commit of the running code, if it runs from a checkout."""

from __future__ import annotations

import subprocess
from pathlib import Path

UNKNOWN = "unknown"
"""Placeholder for code outside a checkout, or a commit that was not recorded."""


def current_commit() -> str | None:
    """The commit of this package, with "-dirty" if tracked files differ from it; None outside its checkout."""
    here = Path(__file__)
    try:
        _git("ls-files", "--error-unmatch", here.name, folder=here.parent)  # fails in the checkout of another project
        return _git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*", folder=here.parent)
    except (OSError, subprocess.SubprocessError):
        return None


def joined(before: str, now: str | None) -> str:
    """All commits that a run was made with, in order, separated by spaces."""
    return " ".join(dict.fromkeys([*before.split(), *([now] if now else [])]))


def _git(*words: str, folder: Path) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()
