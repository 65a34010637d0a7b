"""An exported shield, compiled by itself and driven as a C program would drive it."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safexp

needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")

WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")


def build(shield: safexp.Shield, folder: Path, *flags: str, **options: Any) -> Path:
    """Shared library of an exported shield and a function that tells the size of its struct."""
    shield.export_c(folder / "shield.c", **options)
    extra = folder / "extra.c"
    extra.write_text(
        '#include "shield.h"\nint struct_size(void);\nint struct_size(void) { return sizeof(shield_t); }\n'
    )
    library = folder / "shield.so"
    words = ["gcc", *WARNINGS, "-Wno-sign-conversion", *flags, "-shared", "-fPIC", str(folder / "shield.c"), str(extra)]
    done = subprocess.run([*words, "-o", str(library), "-lm"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return library


class CLoop:
    """`shield_reset`, `shield_act` and `shield_observe` of an exported shield."""

    def __init__(self, shield: safexp.Shield, folder: Path, fallback: Any, **options: Any) -> None:
        self._library = ctypes.CDLL(str(build(shield, folder, "-O1", "-ffp-contract=off", **options)))
        self._state = np.zeros(self._library.struct_size(), dtype=np.int8)
        self._size = np.size(fallback)
        self._library.shield_init(self._at(self._state), self._at(fallback))

    def reset(self, observation: Any, measured: Any = None) -> int:
        return self._library.shield_reset(self._at(self._state), self._at(observation), self._at(measured))

    def act(self, observation: Any, proposal: Any) -> tuple[int, np.ndarray]:
        action = np.zeros(self._size)
        where = self._at(action)
        outcome = self._library.shield_act(self._at(self._state), self._at(observation), self._at(proposal), where)
        return outcome, action

    def observe(self, readings: Any) -> None:
        self._library.shield_observe(self._at(self._state), self._at(readings))

    def policy(self, observation: Any) -> np.ndarray:
        action = np.zeros(self._size)
        self._library.shield_policy(self._at(self._state), self._at(observation), self._at(action))
        return action

    def _at(self, values: Any) -> ctypes.c_void_p | None:
        if values is None:
            return None
        array = values if isinstance(values, np.ndarray) and values.dtype == np.int8 else np.asarray(values, np.float64)
        self._kept = [*getattr(self, "_kept", [])[-8:], np.ascontiguousarray(array)]
        return ctypes.c_void_p(self._kept[-1].ctypes.data)
