"""The example of a control loop in C: the shield is exported, the loop keeps the limit, and the ROS 2 node compiles."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.c_loop import needs_compiler

CONTROLLER = Path(__file__).parents[2] / "examples" / "controller"
STRICT = ["-Wall", "-Wextra", "-pedantic", "-Werror"]

pytestmark = [needs_compiler, pytest.mark.slow]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the exported shield."""
    made = tmp_path_factory.mktemp("controller")
    subprocess.run([sys.executable, CONTROLLER / "make_shield.py", made], check=True, capture_output=True)
    return made


def test_the_loop_keeps_the_limit_and_the_bare_controller_does_not(folder: Path) -> None:
    sources = [CONTROLLER / "controller.c", folder / "shield.c"]
    words = ["gcc", "-std=c99", "-O2", *STRICT, "-Wconversion", f"-I{folder}", *sources, "-o", folder / "loop", "-lm"]
    subprocess.run(words, check=True)
    shielded = subprocess.run([folder / "loop", "2"], capture_output=True, text=True, check=True).stdout
    bare = subprocess.run([folder / "loop", "1", "unshielded"], capture_output=True, text=True, check=False).stdout
    assert "2000 steps, 0 over the limit" in shielded
    assert int(re.search(r"replacements (\d+)", shielded)[1]) > 50  # type: ignore[index]
    assert int(re.search(r"(\d+) over the limit", bare)[1]) > 50  # type: ignore[index]


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_the_node_compiles_against_the_stubs(folder: Path) -> None:
    words = ["g++", "-std=c++17", *STRICT, f"-I{folder}", f"-I{CONTROLLER / 'stubs'}", "-c"]
    subprocess.run([*words, CONTROLLER / "ros2_node.cpp", "-o", folder / "node.o"], check=True)
