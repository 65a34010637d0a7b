"""Griffe extension: `Example:` in a docstring starts a section of code, as `Examples:` does."""

from __future__ import annotations

from typing import Any

from griffe import Extension, Object


class ExamplesSections(Extension):
    """Rename the sections, so that their doctests are shown as code."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Rename those of one docstring."""
        if obj.docstring:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
