"""Compilation of exported shields with the system's C compiler, and a cache of the results."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from safexp.compiled.source import Source

FLAGS = ("-std=c99", "-O2", "-march=native", "-ffp-contract=off", "-fPIC", "-shared", "-D_POSIX_C_SOURCE=200809L")


class CompilerError(RuntimeError):
    """There is no C compiler, or it failed."""


def find_compiler() -> str:
    """Path of the compiler: $CC, or the first of cc, gcc and clang.

    Raises:
        CompilerError: if there is none.
    """
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and (found := shutil.which(name)):
            return found
    raise CompilerError("no C compiler was found: install gcc or clang, or set CC to one.")


def build_library(source: Source) -> Path:
    """Shared library of a translated shield, from the cache if the same code was built before on this processor.

    The learned numbers are not part of it, so a shield that is fitted again needs no compiler.

    Raises:
        CompilerError: if there is no compiler or it fails.
    """
    compiler = find_compiler()
    key = "\n".join([compiler, *FLAGS, platform.machine(), _processor(), source.header, source.code])
    target = _cache() / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.so"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            (Path(folder) / "shield.h").write_text(source.header, encoding="utf-8")
            code = Path(folder) / "shield.c"
            code.write_text(source.code, encoding="utf-8")
            library = code.with_suffix(".so")
            compile_c(compiler, [*FLAGS, str(code), "-o", str(library), "-lm"])
            library.replace(target)  # at once, so that other processes never see a part
    return target


def compile_c(compiler: str, arguments: list[str]) -> None:
    """Run the compiler; raises `CompilerError` with its messages if it fails."""
    done = subprocess.run([compiler, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompilerError(f"{compiler} failed: {done.stderr.strip()}")


def _cache() -> Path:
    """Folder of the cache: $SAFEXP_CACHE, or safexp in the user's cache."""
    if given := os.environ.get("SAFEXP_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "safexp"


def _processor() -> str:
    """Features of the processor, because the code is built for it."""
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return platform.processor()
    return next((line for line in info.read_text().splitlines() if line.startswith(("flags", "Features"))), "")
