"""Constraints as JSON, by name and settings; functions must be passed again when loading."""

from __future__ import annotations

import dataclasses
from typing import Any

from safexp import constraints
from safexp.constraints.all_of import AllOf
from safexp.constraints.base import Constraint
from safexp.core.files import CheckpointError, Document, class_named, plain
from safexp.core.obstacles import Obstacles


def describe_constraint(constraint: Constraint) -> Document:
    """Convert a constraint to JSON; functions in it are only named."""
    if isinstance(constraint, AllOf):
        return {"name": "AllOf", "parts": [describe_constraint(part) for part in constraint.parts]}
    if not hasattr(constraint, "__dataclass_fields__"):  # a user's class, which cannot be saved
        return {"name": type(constraint).__name__, "settings": {}, "functions": ["itself"]}
    fields = {field.name: getattr(constraint, field.name) for field in dataclasses.fields(constraint)}  # type: ignore[arg-type]
    functions = [name for name, value in fields.items() if _holds_function(value)]
    settings = {name: _as_json(value) for name, value in fields.items() if value is not None and name not in functions}
    return {"name": type(constraint).__name__, "settings": settings, "functions": functions}


def build_constraint(document: Document) -> Constraint:
    """Build a constraint from the JSON of `describe_constraint`."""
    if document["name"] == "AllOf":
        return AllOf(*(build_constraint(part) for part in document["parts"]))
    if document.get("functions"):
        raise CheckpointError(
            f"the file's {document['name']} has a function for {', '.join(map(str, document['functions']))}, which a "
            "file cannot store: load it with constraint=<the same constraint>."
        )
    kind = class_named(constraints, document["name"], Constraint, "constraint")
    return kind(**document["settings"])


def has_functions(document: Document) -> bool:
    """Whether a constraint in JSON had a function, which must be passed again."""
    return bool(document.get("functions")) or any(has_functions(part) for part in document.get("parts", ()))


def _as_json(value: Any) -> Any:
    return dataclasses.asdict(value) if isinstance(value, Obstacles) else plain(value)


def _holds_function(value: object) -> bool:
    return callable(value) or (isinstance(value, tuple) and any(map(callable, value)))
