"""Files without pickle: a safetensors file with a JSON document in its header. Loading runs no code."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save

FORMAT = "safexp agent 1"
MOST = 10_000
"""Largest number of actions, candidates or entries of a space in a file: it determines how much memory is allocated."""

Document = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


NONSENSE = (LookupError, TypeError, AttributeError, RuntimeError, ArithmeticError, MemoryError, AssertionError)
"""Exceptions besides `ValueError` that Python, numpy and torch raise on values of a wrong type."""


class CheckpointError(ValueError):
    """Error for a file that cannot be used; the message says why.

    Load an older file, or write the file again with this version.

    Example:
        >>> _ = Path("agent.safexp").write_bytes(b"damaged")
        >>> try:
        ...     safexp.Shield.load("agent.safexp")
        ... except safexp.CheckpointError as error:
        ...     print(str(error).rpartition(": ")[2])
        it is corrupt or another kind of file; write it again.
    """


def write(path: Path, document: Document, arrays: Arrays, form: str = FORMAT) -> None:
    """Write a file atomically."""
    write_bytes(path, pack(document, arrays, form))


def pack(document: Document, arrays: Arrays, form: str = FORMAT) -> bytes:
    """Serialise arrays, with the format, the document and a digest of everything in the header."""
    text, parts = json.dumps(document), {name: np.asarray(part, order="C") for name, part in arrays.items()}
    return bytes(save(parts, {"format": form, "document": text, "digest": digest(form, text, parts)}))


def through_file(arrays: Arrays) -> Arrays:
    """The arrays after a round trip through a file."""
    return {name: np.array(part) for name, part in load(pack({}, arrays)).items()}


def read(path: Path, form: str = FORMAT) -> tuple[Document, Arrays]:
    """Read a file that `write` wrote in this format; raises `CheckpointError` for any other or a damaged file."""
    if not path.is_file():
        raise CheckpointError(f"{path} is not a file.")
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            if header.get("format") != form:
                found = header.get("format", "none")
                raise CheckpointError(
                    f"{path} is a safetensors file but not one of this version of safexp (its format: {found!r}, "
                    f"expected {form!r})."
                )
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        # Files older than the digest have exactly these two entries; damage cannot produce that.
        if header.keys() != {"format", "document"} and header["digest"] != digest(form, header["document"], arrays):
            raise ValueError("its digest does not match")
        document = json.loads(header["document"])
        if not isinstance(document, dict):
            raise TypeError("its document is not a JSON object")
        return document, arrays
    except (SafetensorError, OSError, *NONSENSE, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"{path} cannot be read as a {form.removesuffix(' 1')} ({error}): it is corrupt or another kind of file; "
            "write it again."
        ) from error


def digest(form: str, text: str, arrays: Arrays) -> str:
    """Fingerprint of everything in a file: one changed bit, in a spent budget for example, must not go unnoticed."""
    seen = hashlib.sha256(f"{form}\n{text}".encode())
    for name in sorted(arrays):
        part = arrays[name]
        seen.update(f"\n{name} {part.dtype} {part.shape}\n".encode())
        if part.size:
            seen.update(part.data)
    return seen.hexdigest()


@contextmanager
def understood(path: str | Path) -> Iterator[None]:
    """Context for building objects from a file: exceptions caused by invalid content become a `CheckpointError`."""
    try:
        yield
    except NONSENSE as error:
        raise CheckpointError(
            f"{path} is intact, but its content is not valid ({type(error).__name__}: {error}): write it "
            "again, or load it with the version that wrote it."
        ) from error


def count(value: Any, what: str) -> int:
    """Check a count from a file, which is limited because it determines how much memory is allocated."""
    if not (isinstance(value, int) and 0 <= value <= MOST):
        raise CheckpointError(f"the file asks for {what}={value!r}; expected a whole number of at most {MOST:,}.")
    return value


def expect(document: Document, part: str, path: str | Path) -> None:
    """Raise `CheckpointError` if a file lacks a part: MASE agents have a shield, baselines the spaces of their learner.

    A shield alone has no policy.
    """
    if part not in document:
        loader = {"shield": "safexp.Baseline", "policy": "safexp.Shield"}.get(part, "safexp.MASE")
        raise CheckpointError(f"{path} holds an agent of another kind, without {part}: load it with {loader}.load.")


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file atomically: neither a reader nor a crash ever leaves half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")  # tempfile's are the owner's only
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def halves(folder: Path) -> list[Path]:
    """Temporary files in a folder that an interrupted `write_bytes` left behind."""
    return [path for path in folder.glob(".*") if re.fullmatch(r"\..+\.[0-9a-f]{8}", path.name)]


def versions() -> Document:
    """Versions of the installed packages that matter for loading the file later; a shield does not need torch."""
    found = {}
    for name in ("safexp", "gymnasium", "numpy", "stable_baselines3", "sb3_contrib", "torch"):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def plain(value: Any) -> Any:
    """Arrays and numpy numbers as JSON values."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def class_named(module: Any, name: str, base: type, what: str) -> Any:
    """Look up a class of this package by name; a file cannot name anything else."""
    found = getattr(module, name, None)
    if not (isinstance(found, type) and issubclass(found, base) and found is not base):
        raise CheckpointError(f"the file names the {what} {name!r}, which this version of safexp does not have.")
    return found
