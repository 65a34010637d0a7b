"""Site hook: a public name without an entry in the API reference fails the build."""

from __future__ import annotations

from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.pages import Page
from mkdocs.structure.toc import AnchorLink

import safexp

REFERENCE = "reference/api/"
LOG = get_plugin_logger("public names")


class Entries:
    """Anchors of the API reference, collected while its pages are rendered."""

    found: set[str]


def on_pre_build(config: MkDocsConfig) -> None:
    """Forget the anchors of the last build."""
    Entries.found = set()


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Any) -> None:
    """Collect the anchors of a reference page."""
    if page.file.src_uri.startswith(REFERENCE):
        Entries.found |= {item.id for item in every(page.toc.items)}


def on_env(env: Any, config: MkDocsConfig, files: Any) -> None:
    """Compare them with the public names."""
    missing = [name for name in safexp.__all__ if f"safexp.{name}" not in Entries.found]
    if missing:
        LOG.warning(f"docs/{REFERENCE} has no entry for {', '.join(missing)}: add `::: safexp.NAME` to a page.")


def every(items: list[AnchorLink]) -> list[AnchorLink]:
    """Entries of a table of contents with all below them."""
    return [one for item in items for one in (item, *every(item.children))]
