"""Constraints as JSON, by name and settings; a function must be given again when loading."""

from __future__ import annotations

import dataclasses

from safexp import constraints
from safexp.constraints.all_of import AllOf
from safexp.constraints.base import Constraint
from safexp.core.files import CheckpointError, Document, class_named, plain


def describe_constraint(constraint: Constraint) -> Document:
    """A constraint as JSON; functions in it are named, and must be given again."""
    if isinstance(constraint, AllOf):
        return {"name": "AllOf", "parts": [describe_constraint(part) for part in constraint.parts]}
    if not hasattr(constraint, "__dataclass_fields__"):  # a user's own, which we cannot write down
        return {"name": type(constraint).__name__, "settings": {}, "functions": ["itself"]}
    fields = {field.name: getattr(constraint, field.name) for field in dataclasses.fields(constraint)}  # type: ignore[arg-type]
    functions = [name for name, value in fields.items() if _holds_function(value)]
    settings = {name: plain(value) for name, value in fields.items() if value is not None and name not in functions}
    return {"name": type(constraint).__name__, "settings": settings, "functions": functions}


def build_constraint(document: Document) -> Constraint:
    """The constraint that `describe_constraint` described."""
    if document["name"] == "AllOf":
        return AllOf(*(build_constraint(part) for part in document["parts"]))
    if document.get("functions"):
        raise CheckpointError(
            f"the file's {document['name']} has a function for {', '.join(map(str, document['functions']))}, which a "
            "file cannot hold: load it with constraint=<the same constraint>."
        )
    kind = class_named(constraints, document["name"], Constraint, "constraint")
    return kind(**document["settings"])


def has_functions(document: Document) -> bool:
    """Whether a described constraint held a function, which must be given again."""
    return bool(document.get("functions")) or any(has_functions(part) for part in document.get("parts", ()))


def _holds_function(value: object) -> bool:
    return callable(value) or (isinstance(value, tuple) and any(map(callable, value)))
