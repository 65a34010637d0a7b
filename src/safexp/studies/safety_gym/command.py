"""The commands `safexp reproduce safety-gym` (train or draw) and `safety-gym-results` (export finished runs)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from safexp.report.terminal import print_rows
from safexp.report.watch import watched_sweep
from safexp.runs import folder as run_folder
from safexp.runs.commit import UNKNOWN
from safexp.runs.folder import Run
from safexp.studies.safety_gym.comparison import Selection, compare, select
from safexp.studies.safety_gym.export import collect, export
from safexp.studies.safety_gym.results import Result, read_results
from safexp.studies.safety_gym.study import FIGURE_3, SafetyGymStudy
from safexp.studies.safety_gym.tables import all_tables, fill

SHOWN = (
    *("task", "method", "seeds", "violated", "episodes", "stops", "returns", "deviation", "share", "deterministic"),
    *("cost", "max_cost", "stopped", "last_hundred"),
)
"""The columns that fit a terminal."""


def main(
    study: Annotated[SafetyGymStudy, tyro.conf.arg(name="")],
    *,
    json_output: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> int:
    """Reproduce the paper's comparison on PointGoal and CarGoal: train all methods, or draw what is kept of them.

    The folder then holds comparison.csv (the table that is printed), tables.md (the same in Markdown, beside the
    paper's Table 2) and figures/: curves.* is the paper's Figure 2, early-termination.* its Figure 4, boxes.* its
    Figure 3; and, where it trained, report.html.
    """
    failed: dict[Path, str] = {}
    if study.source is not None:
        results = read_results(study.source)
    else:
        results, failed = train(study)
    if results or not failed:
        draw(study, results, json_output)
    return 1 if failed else 0


def results_main(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional],
    /,
    into: Path = Path("results/safety-gym"),
    commit: Annotated[str | None, tyro.conf.arg(metavar="HASH")] = None,
    evaluation: int = 100,
    agents: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
) -> int:
    """Export the finished runs of the study, small enough for a repository: metrics by epoch, and a summary.

    `safexp reproduce safety-gym --from` draws from it. Runs that are there already cost nothing.

    Args:
        runs: run folders that `safexp reproduce safety-gym` wrote, or folders of them.
        into: where to keep them.
        commit: of safexp, that made those runs which do not record it.
        evaluation: episodes without exploration.
        agents: folder for the agents of MASE as single files, such as results/agents, whose agents come with safexp.
    """
    if not runs:
        raise ValueError("nothing to keep: give one or more run folders, such as runs/safety-gym.")
    if evaluation < 1:
        raise ValueError(f"evaluation={evaluation} must be at least 1.")
    changed = export(runs, into, commit=commit, evaluation=evaluation, tell=tell, agents=agents)
    print(f"{changed} new or longer runs in {into}")
    return 0


def train(study: SafetyGymStudy) -> tuple[dict[str, Result], dict[Path, str]]:
    """Make and report all runs of a study; returns their comparison, and the problems by folder."""
    groups = study.configs()
    configs = study.in_order()
    if not study.resume:
        for config in configs:
            run_folder.refuse_existing(config.folder)
    outcomes = watched_sweep(configs, study.workers, study.ray)
    failed = {outcome.folder: outcome.problem for outcome in outcomes if outcome.problem}
    results, runs = {}, []
    for (task, method), group in groups.items():
        for config in group:
            if config.folder not in failed:
                runs.append(run := run_folder.read(config.folder))
                commit = run.versions.get(run_folder.COMMIT, UNKNOWN)
                result = collect(run, task, method, evaluation=study.evaluation, commit=commit)
                results[result.name] = result
    if runs:
        write_report(study.out, runs, [f"{folder}: {problem}" for folder, problem in failed.items()])
    return results, failed


def write_report(out: Path, runs: Sequence[Run], problems: Sequence[str]) -> None:
    """Write report.html and all numbers as CSV."""
    from safexp.report import html
    from safexp.report.tables import write_tables

    write_tables(out / "figures", runs)
    html.write_report(out / "report.html", runs, problems)
    tell(f"report: {out / 'report.html'}")


def draw(study: SafetyGymStudy, results: Mapping[str, Result], json_output: bool) -> None:
    """Write and print the tables and figures of the available runs, and list the missing ones."""
    from safexp.report.tables import write_csv
    from safexp.studies.safety_gym.figures import write_study_figures

    selection, missing = select(study, results, study.length)
    if not selection:
        raise ValueError(f"no run of the study is there with {study.length:,} epochs: {' | '.join(missing)}.")
    rows = compare(selection, study.length)
    table = [{name: _rounded(value) for name, value in asdict(row).items()} for row in rows]
    figure_3: Selection = {}
    if study.scale == "paper" and study.epochs is None and "car" in study.tasks:
        figure_3, short = select(replace(study, tasks=("car",)), results, FIGURE_3)
        missing += [f"Figure 3, {line}" for line in short if line not in missing]
    tables = all_tables(rows, missing)
    study.out.mkdir(parents=True, exist_ok=True)
    write_csv(study.out / "comparison.csv", table)
    (study.out / "tables.md").write_text("\n".join(tables.values()))
    write_study_figures(study.out / "figures", selection, study.length, figure_3)
    print_rows(table if json_output else [{name: row[name] for name in SHOWN} for row in table], json_output)
    for page in study.fill:
        tell(f"filled {page}: {', '.join(fill(page, tables))}")
    for line in missing:
        tell(f"missing: {line}")
    tell(f"tables and figures: {study.out}")


def tell(line: str) -> None:
    """Print a remark to stderr, apart from results."""
    print(line, file=sys.stderr)


def _rounded(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value
