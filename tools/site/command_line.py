"""Site hook: the reference of the command line, from the `--help` of every command."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

PAGE = "reference/command-line.md"
CHOICES = re.compile(r"^usage: .*?\[-h\] \{([\w,\n -]+)\}", re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page."""
    parts = ["# Command line\n", "The output of `--help` for every command.\n"]
    for words in commands():
        depth = "#" * min(len(words) + 2, 3) if words else "##"
        parts += [f"{depth} `{' '.join(['safexp', *words])}`\n", f"```text\n{usage(words)}\n```\n"]
    files.append(File.generated(config, PAGE, content="\n".join(parts)))
    return files


def commands(words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command, below some words."""
    yield words
    if choices := CHOICES.match(usage(words)):
        for choice in choices[1].split(","):
            yield from commands((*words, choice.strip()))


def usage(words: tuple[str, ...]) -> str:
    """What a command prints for `--help`."""
    from safexp.cli import run_command

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        run_command([*words, "--help"])
    return printed.getvalue().strip()
