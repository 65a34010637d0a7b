"""The command line: `safexp train | tasks | report`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
from gymnasium import spaces

from safexp.studies.config import RunConfig
from safexp.studies.folder import Run, RunFailedError, RunFolderError, read

# Everything that needs torch, plotly or scipy is imported by the command that uses it: help must appear at once.


def train(config: Annotated[RunConfig, tyro.conf.arg(name="")]) -> int:
    """Train a policy on a task and write a run folder."""
    here = str(Path.cwd())
    if here not in sys.path:  # so that --task my_package:MyEnv-v0 finds a package that lies here
        sys.path.append(here)
    from safexp.studies.run import run

    try:
        folder = run(config, progress_bar=True)
    except KeyboardInterrupt:
        print(f"interrupted. {on_disk(config.folder)}", file=sys.stderr)
        return 130
    print(f"run folder: {folder}")
    return 0


def tasks() -> int:
    """List the tasks that come with safexp."""
    import gymnasium as gym
    from rich.table import Table

    from safexp.report.terminal import plain_console

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("task", "observation", "action", "what it is"):
        table.add_column(heading, no_wrap=heading == "task")
    for name in sorted(name for name in gym.registry if name.startswith("safexp/")):
        env = gym.make(name)
        about = (inspect.getdoc(type(env.unwrapped)) or "").partition("\n")[0]
        table.add_row(name, shape(env.observation_space), shape(env.action_space), about)
        env.close()
    plain_console().print(table)
    return 0


def report(runs: Annotated[tuple[Path, ...], tyro.conf.Positional], /, out: Path = Path("report.html")) -> int:
    """Compare runs in one HTML file that opens offline, and in a table here.

    Args:
        runs: run folders; one that cannot be read is named, and the others are still reported.
        out: the file to write.
    """
    from safexp.report.html import write_report
    from safexp.report.terminal import print_summary

    if not runs:
        raise ValueError("nothing to report: give one or more run folders, such as runs/*.")
    readable: list[Run] = []
    problems: list[str] = []
    for path in runs:
        try:
            readable.append(read(path))
        except RunFolderError as error:
            problems.append(str(error))
            print(f"left out: {error}", file=sys.stderr)
    if not readable:
        raise ValueError("none of these is a run folder that can be read; `safexp train` writes one.")
    write_report(out, readable, problems)
    print_summary(readable)
    print(f"report: {out}")
    return 1 if problems else 0


def shape(space: spaces.Space[Any]) -> str:
    """A space in a word or two."""
    if isinstance(space, spaces.Discrete):
        return f"{space.n} choices"
    if isinstance(space, spaces.Dict):
        return ", ".join(f"{key} {shape(part)}" for key, part in space.spaces.items())
    return "x".join(map(str, space.shape or ())) + " reals" if isinstance(space, spaces.Box) else str(space)


def on_disk(folder: Path) -> str:
    """What an interrupted run left behind, in a sentence."""
    try:
        run = read(folder)
    except RunFolderError:
        return "Nothing was written."
    return (
        f"{run.path} holds the {len(run.metrics)} epochs and {len(run.episodes)} episodes that were finished, and no "
        "agent; `safexp report` can read it."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; mistakes that can be foreseen end in one line on stderr and exit code 2."""
    commands: dict[str, Callable[..., int]] = {"train": train, "tasks": tasks, "report": report}
    try:
        return tyro.extras.subcommand_cli_from_dict(
            commands, prog="safexp", description="Learn without breaking the constraint.", args=arguments
        )
    except KeyboardInterrupt:
        print("interrupted.", file=sys.stderr)
        return 130
    except (ValueError, OSError, RunFailedError) as error:
        print(f"safexp: {error}", file=sys.stderr)
        return 2
