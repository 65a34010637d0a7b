"""Files without pickle: one safetensors file whose header carries a JSON document. Loading runs no code."""

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
"""The largest number of actions, candidates or entries of a space that a file may ask for: memory follows from it."""

Document = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


NONSENSE = (LookupError, TypeError, AttributeError, RuntimeError, ArithmeticError, MemoryError, AssertionError)
"""What values of a wrong kind make Python, numpy and torch raise, besides `ValueError`."""


class CheckpointError(ValueError):
    """A file that cannot be used, and why."""


def write(path: Path, document: Document, arrays: Arrays, form: str = FORMAT) -> None:
    """Write a file whole or not at all."""
    write_bytes(path, pack(document, arrays, form))


def pack(document: Document, arrays: Arrays, form: str = FORMAT) -> bytes:
    """What is in a file: the arrays, and in its header a format, a document and a digest of it all."""
    text, parts = json.dumps(document), {name: np.asarray(part, order="C") for name, part in arrays.items()}
    return bytes(save(parts, {"format": form, "document": text, "digest": digest(form, text, parts)}))


def through_file(arrays: Arrays) -> Arrays:
    """The arrays as a file would give them back."""
    return {name: np.array(part) for name, part in load(pack({}, arrays)).items()}


def read(path: Path, form: str = FORMAT) -> tuple[Document, Arrays]:
    """What `write` wrote in this format; raises `CheckpointError` for any other file, and where a bit has changed."""
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
        # Files from before there were digests have these two entries and no other, which damage cannot bring about.
        if header.keys() != {"format", "document"} and header["digest"] != digest(form, header["document"], arrays):
            raise ValueError("its digest is another")
        document = json.loads(header["document"])
        if not isinstance(document, dict):
            raise TypeError("its document is no object")
        return document, arrays
    except (SafetensorError, OSError, *NONSENSE, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"{path} cannot be read as a {form.removesuffix(' 1')} ({error}): it is corrupt or of another kind; "
            "write it again."
        ) from error


def digest(form: str, text: str, arrays: Arrays) -> str:
    """A fingerprint of everything in a file: one bit of a spent budget that changed would be a broken promise."""
    seen = hashlib.sha256(f"{form}\n{text}".encode())
    for name in sorted(arrays):
        part = arrays[name]
        seen.update(f"\n{name} {part.dtype} {part.shape}\n".encode())
        if part.size:
            seen.update(part.data)
    return seen.hexdigest()


@contextmanager
def understood(path: str | Path) -> Iterator[None]:
    """Building things from a file: whatever Python raises because it holds nonsense becomes a `CheckpointError`."""
    try:
        yield
    except NONSENSE as error:
        raise CheckpointError(
            f"{path} is whole, but holds what no file of safexp's does ({type(error).__name__}: {error}): write it "
            "again, or load it with the version that wrote it."
        ) from error


def count(value: Any, what: str) -> int:
    """A number of things that a file asks for; memory follows from it, so that it is limited."""
    if not (isinstance(value, int) and 0 <= value <= MOST):
        raise CheckpointError(f"the file asks for {what}={value!r}; expected a whole number of at most {MOST:,}.")
    return value


def expect(document: Document, part: str, path: str | Path) -> None:
    """Raise where a file has no such part: MASE's agents have a shield, learners without one the spaces they saw.

    A shield alone has no policy.
    """
    if part not in document:
        loader = {"shield": "safexp.Baseline", "policy": "safexp.Shield"}.get(part, "safexp.MASE")
        raise CheckpointError(f"{path} holds an agent of another kind, without {part}: load it with {loader}.load.")


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file in one move, so that no reader and no crash ever sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")  # not tempfile: its files are the owner's alone
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
    """The files of a folder that `write_bytes` began and did not come to rename."""
    return [path for path in folder.glob(".*") if re.fullmatch(r"\..+\.[0-9a-f]{8}", path.name)]


def versions() -> Document:
    """The versions that matter to whoever loads the file later, of what is installed: a shield needs no torch."""
    found = {}
    for name in ("safexp", "gymnasium", "numpy", "stable_baselines3", "sb3_contrib", "torch"):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def plain(value: Any) -> Any:
    """Arrays and numpy numbers as JSON values."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def class_named(module: Any, name: str, base: type, what: str) -> Any:
    """A class of ours by its name, and nothing else that a file might ask for."""
    found = getattr(module, name, None)
    if not (isinstance(found, type) and issubclass(found, base) and found is not base):
        raise CheckpointError(f"the file names the {what} {name!r}, which this version of safexp does not have.")
    return found
