"""All numbers of a report as CSV, for other tools."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safexp.report.curves import CURVES, spread
from safexp.report.groups import RunGroup, group_runs
from safexp.report.summary import labels, reference_for, reference_name, summarise_group
from safexp.report.times import PARTS, group_seconds, seconds_in
from safexp.runs.folder import Run


def write_tables(folder: Path, runs: Sequence[Run], reference: str | None = None) -> list[Path]:
    """Write runs.csv, groups.csv and curves.csv (every epoch of every group) into a folder; returns the files."""
    groups = group_runs(runs)
    folder.mkdir(parents=True, exist_ok=True)
    compared = reference_name(groups, reference)
    tables: dict[str, Iterable[Mapping[str, Any]]] = {
        "runs.csv": run_rows(runs, groups),
        "groups.csv": (group_row(group, reference_for(group, groups, compared)) for group in groups),
        "curves.csv": (row for group in groups for row in curve_rows(group)),
    }
    for name, rows in tables.items():
        write_csv(folder / name, list(rows))
    return [folder / name for name in tables]


def run_rows(runs: Sequence[Run], groups: Sequence[RunGroup]) -> list[dict[str, Any]]:
    """A row for each run."""
    named = {id(run): group.name for group in groups for run in group.runs}
    return [
        {
            "run": label,
            "folder": str(run.path),
            "task": run.config.task,
            "group": named[id(run)],
            "method": run.config.method,
            "learner": run.config.learner,
            "seed": run.config.seed,
            "status": run.status,
            **_flat(asdict(run.summary)),
            "seconds": run.timing.get("seconds"),
            **_seconds(seconds_in(run), "seconds"),
        }
        for label, run in zip(labels(runs), runs, strict=True)
    ]


def group_row(group: RunGroup, reference: RunGroup | None) -> dict[str, Any]:
    """The row of a group; its seconds are per 100,000 steps."""
    return {
        "task": group.task,
        "group": group.name,
        "reference": reference.name if reference else None,
        **_flat(asdict(summarise_group(group, reference))),
        **_seconds(group_seconds(group), "seconds_per_100k_steps"),
    }


def curve_rows(group: RunGroup) -> list[dict[str, Any]]:
    """A row for each metric and epoch of a group."""
    rows = []
    for curve in CURVES:
        found = spread(group, curve, points=None)
        rows += [
            {
                "task": group.task,
                "group": group.name,
                "metric": curve.key,
                **dict(zip(found._fields, values, strict=True)),
            }
            for values in zip(*(part.tolist() for part in found), strict=True)
        ]
    return rows


def _flat(summary: Mapping[str, Any]) -> dict[str, Any]:
    """A summary in columns: intervals in two, coverage in its counts."""
    flat: dict[str, Any] = {}
    for name, value in summary.items():
        if name == "coverage":
            flat |= {f"coverage_{part}": count for part, count in value._asdict().items()}
        elif name.endswith("interval"):
            flat |= dict(zip((f"{name}_low", f"{name}_high"), value or (None, None), strict=True))
        else:
            flat[name] = value
    return flat


def _seconds(spent: Mapping[str, float], prefix: str) -> dict[str, float | None]:
    return {f"{prefix}_in_{name}": spent.get(name) for name in PARTS}


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of equal keys."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys() if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
