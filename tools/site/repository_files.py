"""Site hook: repository files that pages link to become pages of the site, and the README its home page.

Links are written as a code host resolves them, relative to the file they stand in. A linked Markdown file or picture is
shown as it is, any other file as a listing.
"""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
HOME, HOME_URI = "README.md", "index.md"
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)")
PICTURES = (".png", ".gif", ".svg")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the README, and what it and the pages link to outside of `docs`."""
    waiting, added = [HOME], set()
    for page in (ROOT / "docs").rglob("*.md"):
        waiting += targets(page.relative_to(ROOT).as_posix())
    while waiting:
        path = waiting.pop()
        if path in added or path.startswith("docs/"):
            continue
        added.add(path)
        files.append(site_file(path, config))
        if path.endswith(".md"):
            waiting += targets(path)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at the site's own copies."""
    uri = page.file.src_uri
    if uri == HOME_URI:
        page.meta["hide"] = ["navigation"]  # it would list this page alone
    here, base = dirname(repository_path(uri)), dirname(uri)

    def moved(link: re.Match[str]) -> str:
        path = normpath(join(here, link[1]))
        return relpath(site_uri(path), base or ".") if (ROOT / path).is_file() else link[1]

    return LINK.sub(moved, markdown)


def targets(path: str) -> list[str]:
    """The repository files to which a Markdown file links."""
    links = LINK.findall((ROOT / path).read_text())
    paths = (normpath(join(dirname(path), link)) for link in links)
    return [one for one in paths if (ROOT / one).is_file()]


def site_file(path: str, config: MkDocsConfig) -> File:
    """A repository file as a file of the site."""
    if path.endswith((*PICTURES, ".md")):
        return File.generated(config, site_uri(path), abs_src_path=str(ROOT / path))
    language = {".py": "python", ".c": "c", ".h": "c"}.get(Path(path).suffix, "text")
    listing = f"---\nsearch: {{exclude: true}}\n---\n\n# `{path}`\n\n~~~~{language}\n{(ROOT / path).read_text()}~~~~\n"
    return File.generated(config, site_uri(path), content=listing)


def site_uri(path: str) -> str:
    """Where the site has a repository file."""
    if path == HOME:
        return HOME_URI
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"repository/{path}" if path.endswith((*PICTURES, ".md")) else f"repository/{path}.md"


def repository_path(uri: str) -> str:
    """Where the repository has a file of the site."""
    if uri == HOME_URI:
        return HOME
    return uri.removeprefix("repository/") if uri.startswith("repository/") else f"docs/{uri}"
