"""The exported files: they compile without a warning, stand alone, and say what they are."""

from __future__ import annotations

import re
import shutil
import subprocess

import numpy as np
import pytest
from gymnasium import spaces

from safexp import Calibrated, Known, Linear, Log, Shield, Within
from support.c_loop import WARNINGS, build, needs_compiler

ARM = "arm-none-eabi-gcc"


@pytest.fixture
def shield():
    made = Shield(
        Calibrated(Known(Linear([[1.0], [0.1]], [[0.2]]), 0.01), delta=0.1, least=1.5),
        spaces.Box(-5.0, 5.0, (2,)),
        spaces.Box(-1.0, 1.0, (1,)),
        constraint=Within(0, low=-1.0, high=1.0),
    )
    rng = np.random.default_rng(0)
    states, actions = rng.uniform(-1, 1, (300, 2)), rng.uniform(-1, 1, (300, 1))
    following = np.column_stack([states @ [1.0, 0.1] + 0.2 * actions[:, 0], states[:, 1]])
    made.fit(Log(states, actions, episodes=np.arange(300) // 3, next_observations=following))
    return made


@needs_compiler
@pytest.mark.parametrize("precision", ["double", "float"])
@pytest.mark.parametrize("level", ["-O0", "-O3"])
def test_it_compiles_without_a_warning(shield, tmp_path, precision, level):
    assert build(shield, tmp_path, level, precision=precision).exists()


@needs_compiler
def test_it_needs_nothing_but_mathematics(shield, tmp_path):
    shield.export_c(tmp_path / "shield.c")
    words = ["gcc", *WARNINGS, "-O2", "-c", "shield.c", "-o", "shield.o"]
    subprocess.run(words, cwd=tmp_path, check=True)
    symbols = subprocess.run(["nm", "-u", "shield.o"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    needed = set(re.findall(r"U (\w+)", symbols))
    assert needed <= {"exp", "sqrt", "memcpy", "memset", "_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail"}
    code = (tmp_path / "shield.c").read_text()
    assert set(re.findall(r"#include (\S+)", code)) == {'"shield.h"', "<float.h>", "<math.h>", "<stddef.h>"}


@pytest.mark.skipif(shutil.which(ARM) is None, reason=f"{ARM} is not installed")
def test_it_compiles_for_a_microcontroller(shield, tmp_path):
    shield.export_c(tmp_path / "shield.c", precision="float")
    target = ["-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard", "-ffreestanding", "-Os"]
    done = subprocess.run([ARM, *WARNINGS, *target, "-c", "shield.c"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_header_says_what_is_promised(shield, tmp_path):
    shield.export_c(tmp_path / "motor.c")
    header = (tmp_path / "motor.h").read_text()
    told = " ".join(line.removeprefix(" * ") for line in header.splitlines())
    assert "Shield: Calibrated(ChangeModel(Known))" in told
    assert "with probability at least 1 - 0.1" in told
    assert "motor_observe takes 1 numbers: signals observation[0] in their own units" in told
    assert re.search(r"\n \* [0-9a-f]{64}\n", header)
    assert "void motor_init(motor_t *s" in header
    assert "shield_" not in (tmp_path / "motor.c").read_text()


def test_the_digest_tells_shields_apart(shield, tmp_path):
    shield.export_c(tmp_path / "one.c")
    shield.quantifier.scores = shield.quantifier.scores + 1.0
    shield.export_c(tmp_path / "two.c")
    one, two = (re.search(r"[0-9a-f]{64}", (tmp_path / name).read_text())[0] for name in ("one.h", "two.h"))
    assert one != two


@pytest.mark.parametrize("name", ["shield.txt", "Shield.c", "1.c", "my-shield.c"])
def test_the_name_becomes_a_prefix(shield, tmp_path, name):
    with pytest.raises(ValueError, match=r"must be named like shield\.c: small letters, digits and underscores"):
        shield.export_c(tmp_path / name)


def test_other_precisions_are_refused(shield, tmp_path):
    with pytest.raises(ValueError, match="precision='half' must be one of double, float"):
        shield.export_c(tmp_path / "shield.c", precision="half")
