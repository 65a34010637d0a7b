"""Damage to files, as by disks, transfers and attackers, as pure functions of bytes or values."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rng = np.random.Generator

DEEP = 20_000
"""Depth of a nested document, far beyond what Python's parser accepts."""

STRANGE: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    0.5,
    2**31,
    10**30,
    -1e308,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "nan",
    "../../../etc/passwd",
    "os:system",
    "<script>alert(1)</script>",
    "builtins:eval",
    "\0",
    [],
    {},
    [[]],
    [None],
    {"is": "again", "at": 0},
    {"torch.nn": "Linear"},
    {"name": "AllOf", "parts": []},
)
"""Values that are invalid in most places of a document."""

WORDS = (
    b"NaN",
    b"Infinity",
    b"1e999",
    b"9" * 400,
    b"-1",
    b"null",
    b"[" * 300,
    b"{",
    b'"',
    b"\0",
    b"\xff",
    b",,",
    b"\r",
)


def damage_bytes(content: bytes, rng: Rng) -> bytes:
    """File with a few bits flipped, a part lost, duplicated or overwritten, truncated, or with another beginning."""
    at, end = (int(place) for place in np.sort(rng.integers(0, len(content) + 1, 2)))
    end = min(end, at + int(rng.integers(1, 200)))
    match int(rng.integers(9)):
        case 0 | 1 | 2:
            flipped = bytearray(content)
            for place in rng.integers(0, len(content), int(rng.integers(1, 9))):
                flipped[place] ^= 1 << int(rng.integers(8))
            return bytes(flipped)
        case 3:
            return content[:at]
        case 4:
            return content[:at] + content[end:]
        case 5:
            return content[:end] + content[at:end] + content[end:]
        case 6:
            return content[:at] + rng.bytes(end - at) + content[end:]
        case 7:
            return content[:at] + WORDS[int(rng.integers(len(WORDS)))] + content[end:]
        case _:
            huge = int(rng.integers(0, 2**63)) >> int(rng.integers(0, 63))
            return huge.to_bytes(8, "little") + content[8:]


def damage_value(document: Any, rng: Rng) -> Any:
    """Copy of JSON values with one random entry made invalid, removed or nested very deeply."""
    if isinstance(document, dict | list) and document and rng.random() < 0.85:
        keys = list(document) if isinstance(document, dict) else list(range(len(document)))
        key = keys[int(rng.integers(len(keys)))]
        changed = document.copy()
        if rng.random() < 0.1:
            del changed[key]
        else:
            changed[key] = damage_value(changed[key], rng)
        return changed
    if isinstance(document, int | float) and rng.random() < 0.5:
        return (
            document * float(rng.choice([-1.0, 1e-9, 1e9, 1e300])) if rng.random() < 0.5 else int(rng.integers(2**40))
        )
    return STRANGE[int(rng.integers(len(STRANGE)))]


def damage_arrays(arrays: dict[str, NDArray[Any]], rng: Rng) -> dict[str, NDArray[Any]]:
    """Arrays, one of them with another shape or type, not finite, renamed or missing."""
    if not arrays:
        return {"x": np.zeros(3)}
    name = sorted(arrays)[int(rng.integers(len(arrays)))]
    part = np.array(arrays[name])
    changed = dict(arrays)
    match int(rng.integers(7)):
        case 0:
            del changed[name]
        case 1:
            changed[name] = part[:-1] if part.ndim and len(part) else np.zeros((2, 2))
        case 2:
            changed[name] = part.reshape(-1)[None]
        case 3:
            changed[name] = part.astype(rng.choice(["float16", "int8", "int64", "bool", "float64"]))
        case 4:
            changed[name] = np.full(part.shape, rng.choice([np.nan, np.inf, -1e300, 1e300]))
        case 5:
            changed[f"{name}x"] = changed.pop(name)
        case _:
            changed[name] = np.zeros(0)
    return changed


def damage_json(content: bytes, rng: Rng) -> bytes:
    """Valid JSON file, or one with a JSON document on every line, with damaged content."""
    lines = content.decode().splitlines() if content.count(b"}\n{") else [content.decode()]
    which = int(rng.integers(len(lines)))
    if rng.random() < 0.02:
        lines[which] = "[" * DEEP + "]" * DEEP
    else:
        lines[which] = json.dumps(damage_value(json.loads(lines[which]), rng))
    return ("\n".join(lines) + "\n").encode()


def damage_csv(content: bytes, rng: Rng) -> bytes:
    """CSV file with one random invalid cell."""
    rows = [line.split(",") for line in content.decode().splitlines()]
    row = rows[int(rng.integers(len(rows)))]
    row[int(rng.integers(len(row)))] = str(STRANGE[int(rng.integers(len(STRANGE)))])
    return ("\n".join(map(",".join, rows)) + "\n").encode()


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress numpy's warnings about invalid numbers, and ours."""
    log = logging.getLogger("safexp")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
