"""Quantifiers as JSON, by name and settings; functions must be passed again when loading."""

from __future__ import annotations

from safexp import quantifiers
from safexp.core.files import CheckpointError, Document, class_named
from safexp.quantifiers.base import Quantifier, inner_of


def describe_quantifier(quantifier: Quantifier) -> Document:
    """Convert an untrained quantifier to JSON; one with a function has no settings."""
    document: Document = {
        "name": type(quantifier).__name__,
        "parts": list(map(describe_quantifier, inner_of(quantifier))),
    }
    try:
        return document | {"settings": quantifier.settings()}
    except TypeError:
        return document | {"settings": None}


def build_quantifier(document: Document) -> Quantifier:
    """Build an untrained quantifier from the JSON of `describe_quantifier`."""
    if document["settings"] is None or not hasattr(quantifiers, document["name"]):
        raise CheckpointError(
            f"the file's quantifier {document['name']} contains a function or is not part of safexp: load it with "
            "quantifier=<the same quantifier>."
        )
    kind = class_named(quantifiers, document["name"], Quantifier, "quantifier")
    return kind(*(build_quantifier(part) for part in document["parts"]), **document["settings"])
