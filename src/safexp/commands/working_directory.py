"""Import of user modules from the working directory."""

from __future__ import annotations

import sys
from pathlib import Path


def import_from_working_directory() -> None:
    """Make `my_package:Name` importable from the working directory."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
