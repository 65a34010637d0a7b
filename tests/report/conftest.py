from pathlib import Path

import pytest

from support.run_folders import MakeRun, maker


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    return maker(tmp_path)
