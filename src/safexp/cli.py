"""The command line: `safexp train | sweep | play | reproduce | report | audit | doctor | tasks | bench`."""

from __future__ import annotations

import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from safexp.core.extras import MissingExtraError, needed_for
from safexp.runs.config import Options, RunConfig
from safexp.runs.folder import Run, RunFailedError, RunFolderError, folders_of, read
from safexp.runs.interrupts import ending_on_sigterm, exit_code

if TYPE_CHECKING:
    from safexp.runs.trackers import Service

# Everything that needs torch, plotly or scipy is imported by the command that uses it: help must appear at once.


MaybeInt = Annotated[int | None, tyro.conf.arg(metavar="INT")]
TrackerName = Annotated[Literal["wandb", "mlflow"] | None, tyro.conf.arg(metavar="{wandb,mlflow}")]


def train(
    config: Annotated[RunConfig, tyro.conf.arg(name="")],
    resume: bool = False,
    track: TrackerName = None,
    track_options: Options = MappingProxyType({}),
) -> int:
    """Train a policy on a task and write a run folder.

    Args:
        config: what to run.
        resume: go on with a run of the same description that was interrupted, or that finished with fewer steps, from
            its last checkpoint.
        track: a service that gets the run's numbers, too; TensorBoard always does.
        track_options: arguments of `wandb.init`, or of MLflow `tracking_uri`, `experiment` and `run_name`.
    """
    look_here()
    from safexp.runs.run import run

    try:
        folder = run(config, progress_bar=True, resume=resume, track=tracker(track, track_options))
    except KeyboardInterrupt as reason:
        print(f"interrupted. {on_disk(config.folder)}", file=sys.stderr)
        return exit_code(reason)
    print(f"run folder: {folder}")
    return 0


def sweep(
    config: Annotated[RunConfig, tyro.conf.arg(name="")],
    vary: Options = MappingProxyType({}),
    seeds: int = 3,
    workers: int = 2,
    ray: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")] = None,
    track: TrackerName = None,
    track_options: Options = MappingProxyType({}),
) -> int:
    """Do many runs and report them together: every combination of some settings, each with several seeds.

    What is finished in the folder is not done again, and what was interrupted goes on from its last checkpoint.

    Args:
        config: what all runs share; --out is the folder of their folders, and --seed the first seed.
        vary: lists of values by the names of settings, such as {"method": ["mase", "bare"], "penalty": [1, 2]}.
        seeds: how many seeds.
        workers: how many runs at a time.
        ray: address of a Ray cluster to run them on; "local" starts one here.
        track: a service that gets the numbers of every run, too.
        track_options: those of `safexp train`; {"group": "kilns"} keeps a sweep together in Weights & Biases.
    """
    look_here()
    from safexp.report.html import write_report
    from safexp.report.terminal import print_summary
    from safexp.report.watch import watched_sweep
    from safexp.runs.variations import variations

    out = config.out or Path("runs/sweep")
    configs = variations(config, vary, seeds, out)
    outcomes = watched_sweep(configs, workers, ray, tracker(track, track_options))
    problems = [f"{outcome.folder}: {outcome.problem}" for outcome in outcomes if outcome.problem]
    runs = [read(outcome.folder) for outcome in outcomes if not outcome.problem]
    if runs:
        write_report(out / "report.html", runs, problems)
        print_summary(runs)
        print(f"report: {out / 'report.html'}")
    return 1 if problems else 0


def play(
    run: Annotated[Path, tyro.conf.Positional],
    /,
    video: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
    episodes: int = 5,
    seed: MaybeInt = None,
    stochastic: bool = False,
    shield: bool = True,
    fps: int = 30,
    json: bool = False,
) -> int:
    """Let a trained agent play, print how its episodes went, and film them.

    Args:
        run: a run folder, or the agent.safexp in it.
        video: the film to write, .mp4 or .gif: the map, what remains, and the actions that the shield certifies.
        episodes: how many.
        seed: of the episodes; by default one that the agent was not trained on.
        stochastic: let the policy explore as it did in training.
        shield: with the run's shield; without it every proposal is executed, and the film shows what it would allow.
        fps: pictures a second.
        json: print JSON instead of a table.
    """
    for name, given, least in [("episodes", episodes, 1), ("fps", fps, 1), ("seed", seed or 0, 0)]:
        if given < least:
            raise ValueError(f"{name}={given} must be at least {least}.")
    look_here()
    from safexp.report.terminal import print_rows
    from safexp.report.video import film, writer_for
    from safexp.runs.play import Player

    write = None if video is None else writer_for(video)
    player = Player.load(run, shield, filmed=video is not None)
    moments = player.play(episodes, seed, not stochastic)
    if write is None:
        deque(moments, maxlen=0)
    else:
        config = player.config
        title = f"{config.method}{'' if shield else ' without its shield'}, {config.learner}\n{config.task}"
        write(film(moments, player.agent.envs.constraint, title, fps), fps)
    columns = ("length", "true_return", "cost", "max_step_cost", "violated", "stopped", "interventions")
    rows = player.agent.envs.recorder.episodes[:episodes]
    print_rows([{"episode": row.episode + 1} | {name: getattr(row, name) for name in columns} for row in rows], json)
    if video is not None:
        print(f"film: {video}", file=sys.stderr if json else sys.stdout)
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
    from safexp.tasks.listing import task_rows

    if what == "list":
        if files:
            raise ValueError(f"listing takes no files; did you mean `safexp tasks verify {files[0]}`?")
        print_rows(task_rows(), json)
        return 0
    if not files:
        raise ValueError("nothing to verify: give one or more recordings, such as tests/data/static_point.npz.")
    from safexp.tasks.navigation.recordings import verify

    found = [verify(file) for file in files]
    print_rows([{"file": str(file), **one.row()} for file, one in zip(files, found, strict=True)], json)
    return 0 if all(one.ok for one in found) else 1


def bench(
    what: Annotated[Literal["tasks", "learners", "quantifiers", "coverage", "shield"], tyro.conf.Positional],
    /,
    decisions: MaybeInt = None,
    peer: Annotated[Path | None, tyro.conf.arg(metavar="PYTHON")] = None,
    logs: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="FILE...")] = (),
    within: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME:LOW:HIGH...")] = (),
    splits: Annotated[tuple[str, ...], tyro.conf.arg(metavar="{bold,random}...")] = (),
    quantifiers: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME...")] = (),
    json: bool = False,
) -> int:
    """Measure speed as ratios within one run, or how often quantifiers are right.

    Args:
        what: `tasks`: steps per second of the navigation tasks beside the bare physics of the model; `learners`: TRPO's
            policy step beside sb3-contrib's, the critics' schedules, and steps per second of whole training;
            `quantifiers`: microseconds of an answer, beside gpytorch's, of a refit, and of a shield's decision;
            `coverage`: how often they miss on episodes that they have not seen, random ones and the boldest, as they
            are and calibrated;
            `shield`: the latency of a deployed shield and its memory, in absolute numbers.
        decisions: how many decisions of the shield are measured, a million if not given.
        peer: of `tasks`: a Python interpreter that has Safety-Gymnasium, whose tasks are then stepped in the same run.
        logs: of `coverage`: logs to measure instead of our tasks.
        within: limits on signals of the logs, such as current:-100:100 or temperature::335, each measured by itself.
        splits: of `coverage`: which episodes to ask about; both kinds if not given.
        quantifiers: of `coverage`: which to measure, such as SparseGP; all of them if not given.
        json: print JSON instead of a table.
    """
    from safexp.report.terminal import print_rows

    options = {"decisions": decisions, "peer": peer, "logs": logs, "within": within}
    options |= {"splits": splits, "quantifiers": quantifiers}
    given = {name: value for name, value in options.items() if value not in (None, ())}
    for name, value in given.items():
        if what != (belongs := {"decisions": "shield", "peer": "tasks"}.get(name, "coverage")):
            raise ValueError(f"--{name} {value} is for `safexp bench {belongs}`: leave it out.")
    try:
        rows = import_module(f"safexp.bench.{what}").measure(**given)
    except ModuleNotFoundError as error:
        if error.name != "gpytorch":  # the reference of some measurements, which no extra brings
            raise
        raise ValueError("this measurement needs gpytorch: pip install gpytorch.") from error
    print_rows(rows, json)
    return 0


def report(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional],
    /,
    out: Path = Path("report.html"),
    figures: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
    reference: Annotated[str | None, tyro.conf.arg(metavar="METHOD")] = None,
) -> int:
    """Compare runs in one HTML file that opens offline, and in a table here.

    Args:
        runs: run folders, or folders of them; one that cannot be read is named, and the others are still reported.
            Runs that differ in their seeds alone are drawn and counted together.
        out: the file to write.
        figures: a folder for figures in the paper's style (PNG, SVG, PDF) and for all numbers (CSV).
        reference: the method that the others are compared with; by default the one that most tasks have.
    """
    from safexp.report.html import write_report
    from safexp.report.terminal import print_summary

    if not runs:
        raise ValueError("nothing to report: give one or more run folders, such as runs/*.")
    readable: list[Run] = []
    problems: list[str] = []
    for path in folders_of(runs):
        try:
            readable.append(read(path))
        except RunFolderError as error:
            problems.append(str(error))
            print(f"left out: {error}", file=sys.stderr)
    if not readable:
        raise ValueError("none of these is a run folder that can be read; `safexp train` writes one.")
    write_report(out, readable, problems, reference)
    print_summary(readable)
    if figures is not None:
        from safexp.report.figures import write_figures
        from safexp.report.tables import write_tables

        write_figures(figures, readable)
        write_tables(figures, readable, reference)
        print(f"figures and tables: {figures}")
    print(f"report: {out}")
    return 1 if problems else 0


def audit(
    checkpoint: Annotated[Path, tyro.conf.Positional],
    /,
    episodes: int = 300,
    seed: int = 1_000_000,
    task: Annotated[str | None, tyro.conf.arg(metavar="STR")] = None,
    task_options: Options = MappingProxyType({}),
    shield: bool = True,
    max_risk: float = 0.01,
    replay: MaybeInt = None,
    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
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
        out: the HTML page to write, which must not exist; by default audit.html, or else audit-2.html, and so on.
        json: print JSON instead of text.
    """
    look_here()
    from safexp.audit import audit as auditing
    from safexp.report.audit import free_page, print_audit, print_replay, write_audit

    if replay is not None:
        print_replay(auditing.replay(checkpoint, replay, task, task_options, shield), json)
        return 0
    page = free_page(out)  # before hours of episodes
    found = auditing.audit(
        checkpoint, episodes, seed, task, task_options, shield, max_risk, lambda line: print(line, file=sys.stderr)
    )
    write_audit(page, found)
    print_audit(found, json)
    print(f"page: {page}", file=sys.stderr if json else sys.stdout)
    return 0 if found.passed else 1


def doctor(
    log: Annotated[Path, tyro.conf.Positional],
    /,
    within: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME:LOW:HIGH")] = (),
    task: Annotated[str | None, tyro.conf.arg(metavar="ID")] = None,
    delta: float = 0.05,
    resets: bool = False,
    quantifiers: tuple[Literal["SparseGP", "FeatureRegression", "ExactGP"], ...] = (
        "SparseGP",
        "FeatureRegression",
        "ExactGP",
    ),
    json: bool = False,
    html: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
) -> int:
    """Examine a log: can an honest shield be made from it, which one, and what is missing?

    Ends with exit code 1 where none can.

    Args:
        log: a .csv, .parquet or .npz file of logged steps; `read_log` says what is in it.
        within: a limit on a signal, `current:-100:100`, or `temperature::335` for an upper limit alone; a number in
            place of the name is an entry of the observation. Give it again for further limits.
        task: the Gymnasium task that the log is from, for its spaces; otherwise they are inferred from the log.
        delta: the share of stretches in which a certificate may be wrong.
        resets: an episode can be stopped at any step without harm, as in a simulator: one step ahead is then enough.
        quantifiers: those that are compared; the exact Gaussian process only where the log is small.
        json: print JSON instead of text.
        html: a page with pictures to write.
    """
    look_here()
    from safexp.constraints.parse import parse_limits
    from safexp.doctor.examine import examine
    from safexp.report.doctor import print_examination, write_examination
    from safexp.shield.logs import read_log, signal_names

    if not within:
        names = ", ".join(signal_names(read_log(log, finite=False)))
        raise ValueError(f"say what is limited: --within NAME:LOW:HIGH; {log} has {names}.")
    observation_space = action_space = None
    if task is not None:
        import gymnasium

        env = gymnasium.make(task)
        observation_space, action_space = env.observation_space, env.action_space
        env.close()
    found = examine(
        log,
        constraint=parse_limits(within),
        observation_space=observation_space,
        action_space=action_space,
        delta=delta,
        resets=resets,
        quantifiers=quantifiers,
        task=task,
    )
    if html is not None:
        write_examination(html, found)
    print_examination(found, json)
    if html is not None:
        print(f"page: {html}", file=sys.stderr if json else sys.stdout)
    return 1 if found.severity == "stop" else 0


def tracker(name: TrackerName, options: Options) -> Service | None:
    """The service that is named, if one is."""
    if name is None and options:
        raise ValueError(f"track_options={dict(options)} need --track wandb or --track mlflow.")
    from safexp.runs.trackers import Service

    return None if name is None else Service(name, dict(options))


def on_disk(folder: Path) -> str:
    """What an interrupted run left behind, in a sentence."""
    try:
        run = read(folder)
    except RunFolderError:
        return "Nothing was written."
    return (
        f"{run.path} holds the {len(run.metrics)} epochs and {len(run.episodes)} episodes that were finished; the same "
        "command with --resume goes on, and `safexp report` can read it."
    )


def look_here() -> None:
    """Let `my_package:Name` be found where the user stands."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)


def reproduce() -> int:
    """Reproduce the paper: `grid-world` (Table 3), `glm` (its theorems), `safety-gym` (its figures); or our studies."""
    raise ValueError(f"say what to reproduce: safexp reproduce {', '.join(reproductions())}.")


def reproductions() -> dict[str, Callable[..., int]]:
    """What `safexp reproduce` can do."""
    from safexp.studies import glm_regret, grid_world_table, instantaneous
    from safexp.studies.safety_gym import command

    return {
        "grid-world": grid_world_table.main,
        "glm": glm_regret.main,
        "safety-gym": command.main,
        "safety-gym-results": command.results_main,
        "instantaneous": instantaneous.main,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; mistakes that can be foreseen end in one line on stderr and exit code 2."""
    with ending_on_sigterm():
        return run_command(list(sys.argv[1:] if arguments is None else arguments))


def run_command(words: list[str]) -> int:
    """Run a command, and return its exit code."""
    commands: dict[str, Callable[..., int]] = {
        "train": train,
        "sweep": sweep,
        "play": play,
        "reproduce": reproduce,
        "report": report,
        "audit": audit,
        "doctor": doctor,
        "tasks": tasks,
        "bench": bench,
    }
    program = "safexp"
    try:
        if words[:1] == ["reproduce"] and len(words) > 1:
            look_here()
            program, words, commands = "safexp reproduce", words[1:], reproductions()
        with needed_for(f"`{' '.join([program, *words[:1]])}`"):
            code = tyro.extras.subcommand_cli_from_dict(
                commands, prog=program, description="Learn without breaking the constraint.", args=words
            )
        sys.stdout.flush()
        return code
    except KeyboardInterrupt as reason:
        print("interrupted.", file=sys.stderr)
        return exit_code(reason)
    except BrokenPipeError:  # whoever read has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it flushes at its end
        return 128 + signal.SIGPIPE
    except (ValueError, OSError, RunFailedError, MissingExtraError) as error:
        print(f"safexp: {error}", file=sys.stderr)
        return 2
