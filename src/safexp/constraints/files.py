"""Constraints as JSON, by name and settings; a function must be given again when loading."""

from __future__ import annotations

import dataclasses

from safexp import constraints
from safexp.constraints.all_of import AllOf
from safexp.constraints.base import Constraint
from safexp.core.files import CheckpointError, Document, class_named, plain


def describe_constraint(constraint: Constraint) -> Document:
    """A constraint as JSON; functions in it become null and must be given again."""
    if isinstance(constraint, AllOf):
        return {"name": "AllOf", "parts": [describe_constraint(part) for part in constraint.parts]}
    if not hasattr(constraint, "__dataclass_fields__"):  # a user's own, which we cannot write down
        return {"name": type(constraint).__name__, "settings": {"itself": None}}
    fields = {field.name: getattr(constraint, field.name) for field in dataclasses.fields(constraint)}  # type: ignore[arg-type]
    return {
        "name": type(constraint).__name__,
        "settings": {name: None if callable(value) else plain(value) for name, value in fields.items()},
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
    kind = class_named(constraints, document["name"], Constraint, "constraint")
    return kind(**document["settings"])
