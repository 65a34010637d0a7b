"""Latency, size and stack of a compiled shield, for `safexp bench shield --compiled`."""

from __future__ import annotations

import ctypes
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from safexp.compiled.build import FLAGS, compile_c, find_compiler
from safexp.shield.compiled_shield import CompiledShield
from safexp.shield.logs import Log
from safexp.shield.shield import Shield

STACK: Final = 1 << 18
"""Bytes of the stack on which a decision is probed."""


def footprint(shield: Shield, questions: Log, threshold: float) -> dict[str, Any]:
    """Bytes of the compiled code with its tables, of the caller's struct, and of the stack that a decision uses."""
    with tempfile.TemporaryDirectory() as folder:
        code, probe = Path(folder) / "shield.c", Path(folder) / "probe.c"
        shield.export_c(code)
        probe.write_text(files("safexp.bench").joinpath("stack_probe.c").read_text(encoding="utf-8"))
        compiler, library = find_compiler(), Path(folder) / "probe.so"
        compile_c(compiler, [*FLAGS, str(code), str(probe), "-o", str(library), "-lm"])
        compile_c(compiler, ["-std=c99", "-O2", "-c", str(code), "-o", str(code.with_suffix(".o"))])
        size = _sections(code.with_suffix(".o"))
        loaded = ctypes.CDLL(str(library))
    state = np.zeros(loaded.struct_size(), dtype=np.int8)
    loaded.shield_init(_at(state), None)
    stack, limit = np.zeros(STACK, dtype=np.uint8), np.array([threshold])
    used = 0
    for row in range(200):
        asked = [np.asarray(part[row], dtype=np.float64) for part in (questions.observations, questions.actions)]
        used = max(used, loaded.stack_use(_at(state), *map(_at, asked), _at(limit), _at(stack), STACK))
    return {"code_kb": round(size / 2**10, 1), "struct_kb": round(len(state) / 2**10, 1), "stack_bytes": used}


def as_long(shield: CompiledShield, nanoseconds: float, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Wall and processor times (count,) of a loop that always does the same and takes about this long."""
    turns = 1000
    for _ in range(3):
        turns = max(round(turns * nanoseconds / float(np.median(shield.timed_loop(200, turns)[0]))), 1)
    return shield.timed_loop(count, turns)


def _sections(path: Path) -> int:
    """Bytes of the code and data of an ELF object file, without its symbols; its size on other systems."""
    content = path.read_bytes()
    if content[:5] != b"\x7fELF\x02":
        return len(content)
    start, size, count = (int.from_bytes(content[a:b], "little") for a, b in ((0x28, 0x30), (0x3A, 0x3C), (0x3C, 0x3E)))
    total = 0
    for k in range(count):
        header = content[start + k * size : start + (k + 1) * size]
        kind, flags, length = (int.from_bytes(header[a:b], "little") for a, b in ((4, 8), (8, 16), (32, 40)))
        total += length if flags & 2 and kind != 8 else 0  # in memory, and with contents
    return total


def _at(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
