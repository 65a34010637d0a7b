"""Quantifiers as JSON, by name and settings; a function must be given again when loading."""

from __future__ import annotations

from safexp import quantifiers
from safexp.core.files import CheckpointError, Document, class_named
from safexp.quantifiers.base import Quantifier, inner_of


def describe_quantifier(quantifier: Quantifier) -> Document:
    """A quantifier as JSON, without what it learned; one that holds a function has no settings."""
    document: Document = {
        "name": type(quantifier).__name__,
        "parts": list(map(describe_quantifier, inner_of(quantifier))),
    }
    try:
        return document | {"settings": quantifier.settings()}
    except TypeError:
        return document | {"settings": None}


def build_quantifier(document: Document) -> Quantifier:
    """The quantifier that `describe_quantifier` described, before it learned."""
    if document["settings"] is None or not hasattr(quantifiers, document["name"]):
        raise CheckpointError(
            f"the file's quantifier {document['name']} holds a function or is not one of safexp's: load it with "
            "quantifier=<the same quantifier>."
        )
    kind = class_named(quantifiers, document["name"], Quantifier, "quantifier")
    return kind(*(build_quantifier(part) for part in document["parts"]), **document["settings"])
