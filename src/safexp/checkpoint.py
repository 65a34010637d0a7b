"""Files without pickle: one safetensors file whose header carries a JSON document. Loading runs no code.

Constraints and quantifiers are written down by name and settings. Where one holds a function, which a file cannot,
the file says so and the user gives the object again when loading.
"""

from __future__ import annotations

import dataclasses
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
from gymnasium import spaces
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save

from safexp import constraints, quantifiers
from safexp.constraints import AllOf, Constraint
from safexp.penalty import Penalty
from safexp.quantifiers import Calibrated, Each, FromMargin, Projected, Quantifier

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
        loader = {"shield": "safexp.baseline.Baseline", "policy": "safexp.Shield"}.get(part, "safexp.MASE")
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


def describe_constraint(constraint: Constraint) -> Document:
    """A constraint as JSON; functions in it become null and must be given again."""
    if isinstance(constraint, AllOf):
        return {"name": "AllOf", "parts": [describe_constraint(part) for part in constraint.parts]}
    if not hasattr(constraint, "__dataclass_fields__"):  # a user's own, which we cannot write down
        return {"name": type(constraint).__name__, "settings": {"itself": None}}
    fields = {field.name: getattr(constraint, field.name) for field in dataclasses.fields(constraint)}  # type: ignore[arg-type]
    return {
        "name": type(constraint).__name__,
        "settings": {name: None if callable(value) else _plain(value) for name, value in fields.items()},
    }


def build_constraint(document: Document) -> Constraint:
    """The constraint that `describe_constraint` described."""
    if document["name"] == "AllOf":
        return AllOf(*(build_constraint(part) for part in document["parts"]))
    missing = [name for name, value in document["settings"].items() if value is None]
    if missing:
        raise CheckpointError(
            f"the file's {document['name']} has a function for {', '.join(missing)}, which a file cannot hold: "
            "load it with constraint=<the same constraint>."
        )
    kind = _named(constraints, document["name"], Constraint, "constraint")
    return kind(**document["settings"])


def describe_quantifier(quantifier: Quantifier) -> Document:
    """A quantifier as JSON, without what it learned; one that holds a function has no settings."""
    if isinstance(quantifier, Each):
        return {"name": "Each", "parts": [describe_quantifier(part) for part in quantifier.parts]}
    if isinstance(quantifier, Calibrated | FromMargin | Projected):
        inner = describe_quantifier(quantifier.quantifier)
        return {"name": type(quantifier).__name__, "settings": quantifier.settings(), "parts": [inner]}
    try:
        return {"name": type(quantifier).__name__, "settings": quantifier.settings()}
    except TypeError:
        return {"name": type(quantifier).__name__, "settings": None}


def build_quantifier(document: Document) -> Quantifier:
    """The quantifier that `describe_quantifier` described, before it learned."""
    if document["name"] == "Each":
        return Each(*(build_quantifier(part) for part in document["parts"]))
    if "parts" in document:
        around = _named(quantifiers, document["name"], Quantifier, "quantifier")
        return around(build_quantifier(document["parts"][0]), **document["settings"])
    if document["settings"] is None or not hasattr(quantifiers, document["name"]):
        raise CheckpointError(
            f"the file's quantifier {document['name']} holds a function or is not one of safexp's: load it with "
            "quantifier=<the same quantifier>."
        )
    return _named(quantifiers, document["name"], Quantifier, "quantifier")(**document["settings"])


def describe_penalty(penalty: Penalty | None) -> Document | None:
    """A penalty as JSON."""
    return None if penalty is None else dataclasses.asdict(penalty)


def describe_space(space: spaces.Space[Any]) -> Document:
    """A Gymnasium space as JSON."""
    if isinstance(space, spaces.Box):
        return {
            "kind": "Box",
            "low": _plain(space.low),
            "high": _plain(space.high),
            "dtype": str(space.dtype),
        }
    if isinstance(space, spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        return {"kind": "MultiDiscrete", "nvec": space.nvec.tolist()}
    if isinstance(space, spaces.MultiBinary):
        return {"kind": "MultiBinary", "n": _plain(space.n)}
    if isinstance(space, spaces.Dict):
        return {"kind": "Dict", "spaces": {key: describe_space(part) for key, part in space.spaces.items()}}
    raise CheckpointError(f"the space {space} cannot be saved.")


def build_space(document: Document) -> spaces.Space[Any]:
    """The space that `describe_space` described."""
    match document["kind"]:
        case "Box":
            dtype = np.dtype(document["dtype"])
            low, high = (np.array(document[end], dtype=dtype) for end in ("low", "high"))
            return spaces.Box(low, high, dtype=dtype.type)
        case "Discrete":
            return spaces.Discrete(count(document["n"], "Discrete actions"), start=document["start"])
        case "MultiDiscrete":
            return spaces.MultiDiscrete(document["nvec"])
        case "MultiBinary":
            shape = document["n"]
            for part in shape if isinstance(shape, list) else [shape]:
                count(part, "entries of a space")
            return spaces.MultiBinary(shape)
        case "Dict":
            return spaces.Dict({key: build_space(part) for key, part in document["spaces"].items()})
        case other:
            raise CheckpointError(f"the file has a space of unknown kind {other!r}.")


def versions() -> Document:
    """The versions that matter to whoever loads the file later, of what is installed: a shield needs no torch."""
    found = {}
    for name in ("safexp", "gymnasium", "numpy", "stable_baselines3", "sb3_contrib", "torch"):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _plain(value: Any) -> Any:
    """Arrays and numpy numbers as JSON values."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _named(module: Any, name: str, base: type, what: str) -> Any:
    """A class of ours by its name, and nothing else that a file might ask for."""
    found = getattr(module, name, None)
    if not (isinstance(found, type) and issubclass(found, base) and found is not base):
        raise CheckpointError(f"the file names the {what} {name!r}, which this version of safexp does not have.")
    return found
