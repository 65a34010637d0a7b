"""The command line: `safexp train | reproduce | report | audit | tasks | bench`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import gymnasium
import tyro
from gymnasium import spaces

from safexp.studies.config import Options, RunConfig
from safexp.studies.folder import Run, RunFailedError, RunFolderError, read
from safexp.tasks import catalogue

# Everything that needs torch, plotly or scipy is imported by the command that uses it: help must appear at once.


def train(config: Annotated[RunConfig, tyro.conf.arg(name="")]) -> int:
    """Train a policy on a task and write a run folder."""
    use_packages_here()
    from safexp.studies.run import run

    try:
        folder = run(config, progress_bar=True)
    except KeyboardInterrupt:
        print(f"interrupted. {on_disk(config.folder)}", file=sys.stderr)
        return 130
    print(f"run folder: {folder}")
    return 0


def tasks(
    what: Annotated[Literal["list", "verify"], tyro.conf.Positional] = "list",
    files: Annotated[tuple[Path, ...], tyro.conf.Positional] = (),
    /,
    json: bool = False,
) -> int:
    """List the tasks that come with safexp, or replay recorded transitions on them.

    Args:
        what: `list`, or `verify` to replay recordings of Safety-Gymnasium and compare; it ends with exit code 1 where
            an observation differs by more than 1e-8 or anything mismatches.
        files: the recordings to verify, .npz.
        json: print JSON instead of a table.
    """
    from safexp.report.terminal import print_rows

    if what == "list":
        if files:
            raise ValueError(f"listing takes no files; did you mean `safexp tasks verify {files[0]}`?")
        print_rows(task_rows(), json)
        return 0
    if not files:
        raise ValueError("nothing to verify: give one or more recordings, such as tests/data/static_point.npz.")
    from safexp.tasks.recordings import verify

    found = [verify(file) for file in files]
    print_rows([{"file": str(file), **one.row()} for file, one in zip(files, found, strict=True)], json)
    return 0 if all(one.ok for one in found) else 1


def bench(
    what: Annotated[Literal["tasks", "learners", "quantifiers", "shield"], tyro.conf.Positional],
    /,
    decisions: int | None = None,
    json: bool = False,
) -> int:
    """Measure speed as ratios within one run.

    Args:
        what: `tasks`: steps per second of the Goal tasks beside the bare physics of the same model; `learners`: TRPO's
            policy step beside sb3-contrib's, the critics' schedules, and steps per second of whole training;
            `quantifiers`: microseconds of an answer, beside gpytorch's, of a refit, and of a shield's decision;
            `shield`: the latency of a deployed shield and its memory, in absolute numbers.
        decisions: how many decisions of the shield are measured, a million if not given.
        json: print JSON instead of a table.
    """
    from safexp.report.terminal import print_rows

    if decisions is not None and what != "shield":
        raise ValueError(f"--decisions {decisions} is for `safexp bench shield`: leave it out.")
    try:
        rows = import_module(f"safexp.bench.{what}").measure(**({} if decisions is None else {"decisions": decisions}))
    except ModuleNotFoundError as error:
        raise ValueError(f"this measurement needs {error.name}: pip install {error.name}.") from error
    print_rows(rows, json)
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


def audit(
    checkpoint: Annotated[Path, tyro.conf.Positional],
    /,
    episodes: int = 300,
    seed: int = 1_000_000,
    task: str | None = None,
    task_options: Options = MappingProxyType({}),
    shield: bool = True,
    max_risk: float = 0.01,
    replay: int | None = None,
    out: Path = Path("audit.html"),
    json: bool = False,
) -> int:
    """Play episodes of a trained agent, and bound how often one violates the constraint.

    Ends with exit code 1 where the one-sided 95 % upper bound is above the risk that is allowed.

    Args:
        checkpoint: a run folder, or an agent.safexp (without its run folder it needs --task).
        episodes: how many; 300 without a violation show a risk of at most 1 %.
        seed: of the first episode; every episode has its own.
        task: another task than it was trained on.
        task_options: that task's arguments.
        shield: --no-shield executes every proposal of the same policy.
        max_risk: the risk that is allowed.
        replay: play the episode of this seed again, and nothing else.
        out: the HTML page to write.
        json: print JSON instead of text.
    """
    use_packages_here()
    from safexp import audit as auditing
    from safexp.report.audit import print_audit, print_replay, write_audit

    if replay is not None:
        print_replay(auditing.replay(checkpoint, replay, task, task_options, shield), json)
        return 0
    found = auditing.audit(
        checkpoint, episodes, seed, task, task_options, shield, max_risk, lambda line: print(line, file=sys.stderr)
    )
    write_audit(out, found)
    print_audit(found, json)
    if not json:
        print(f"page: {out}")
    return 0 if found.passed else 1


def task_rows() -> list[dict[str, Any]]:
    """One row for each of our tasks."""
    rows = []
    for spec, about in catalogue():
        try:
            env = gymnasium.make(spec.id)
        except gymnasium.error.DependencyNotInstalled as error:
            rows.append({"task": spec.id, "observation": "?", "action": "?", "what to do": f"{about} ({error})"})
            continue
        observation, action = shape(env.observation_space), shape(env.action_space)
        rows.append({"task": spec.id, "observation": observation, "action": action, "what to do": about})
        env.close()
    return rows


def shape(space: spaces.Space[Any]) -> str:
    """A space in a word or two."""
    if isinstance(space, spaces.Discrete):
        return f"{space.n} choices"
    if isinstance(space, spaces.Dict):
        return ", ".join(f"{key} {shape(part)}" for key, part in space.spaces.items())
    return "x".join(map(str, space.shape or ())) + " reals" if isinstance(space, spaces.Box) else str(space)


def use_packages_here() -> None:
    """Let --task my_package:MyEnv-v0 find a package that lies here."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)


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


def reproduce() -> int:
    """Reproduce the paper: `grid-world` (Table 3), `glm` (its theorems), `safety-gym` (its figures); or our studies."""
    raise ValueError(f"say what to reproduce: safexp reproduce {', '.join(reproductions())}.")


def reproductions() -> dict[str, Callable[..., int]]:
    """What `safexp reproduce` can do."""
    from safexp.studies import glm_regret, grid_world_table, instantaneous, paper

    return {
        "grid-world": grid_world_table.main,
        "glm": glm_regret.main,
        "safety-gym": paper.main,
        "instantaneous": instantaneous.main,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; mistakes that can be foreseen end in one line on stderr and exit code 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    commands: dict[str, Callable[..., int]] = {
        "train": train,
        "reproduce": reproduce,
        "report": report,
        "audit": audit,
        "tasks": tasks,
        "bench": bench,
    }
    program = "safexp"
    try:
        if words[:1] == ["reproduce"] and len(words) > 1:
            program, words, commands = "safexp reproduce", words[1:], reproductions()
        return tyro.extras.subcommand_cli_from_dict(
            commands, prog=program, description="Learn without breaking the constraint.", args=words
        )
    except KeyboardInterrupt:
        print("interrupted.", file=sys.stderr)
        return 130
    except (ValueError, OSError, RunFailedError) as error:
        print(f"safexp: {error}", file=sys.stderr)
        return 2
