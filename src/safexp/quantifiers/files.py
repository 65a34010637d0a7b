"""Quantifiers as JSON, by name and settings; a function must be given again when loading."""

from __future__ import annotations

from safexp import quantifiers
from safexp.core.files import CheckpointError, Document, class_named
from safexp.quantifiers.base import Quantifier
from safexp.quantifiers.calibrated import Calibrated
from safexp.quantifiers.from_margin import FromMargin
from safexp.quantifiers.per_cost import Each
from safexp.quantifiers.projected import Projected


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
        around = class_named(quantifiers, document["name"], Quantifier, "quantifier")
        return around(build_quantifier(document["parts"][0]), **document["settings"])
    if document["settings"] is None or not hasattr(quantifiers, document["name"]):
        raise CheckpointError(
            f"the file's quantifier {document['name']} holds a function or is not one of safexp's: load it with "
            "quantifier=<the same quantifier>."
        )
    return class_named(quantifiers, document["name"], Quantifier, "quantifier")(**document["settings"])
