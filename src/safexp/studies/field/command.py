"""`safexp reproduce field`: its systems, its seeds, and a row for every run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import tyro

from safexp.report.terminal import print_rows
from safexp.studies.field.system import System
from safexp.studies.field.trial import AUDITED, trial

Name = Literal["motor", "pendulum", "highway", "maze", "reactor"]


@dataclass(frozen=True)
class FieldTrials:
    """Train on systems that others wrote, each from the log of a cautious controller.

    Args:
        systems: the systems to try.
        seeds: seeds of the runs.
        steps: environment steps of a run; each system's own number by default.
        out: folder with a JSON file for each run; finished runs are not repeated.
    """

    systems: tuple[Name, ...] = get_args(Name)
    seeds: tuple[int, ...] = (1000, 1001, 1002, 1003, 1004)
    steps: int | None = None
    out: Path = Path("runs/field")


def main(
    study: Annotated[FieldTrials, tyro.conf.arg(name="")],
    *,
    json_output: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> int:
    """Learn on foreign systems behind a shield from the log of a cautious controller."""
    study.out.mkdir(parents=True, exist_ok=True)
    rows = [row_of(study, name, seed) for name in study.systems for seed in study.seeds]
    print_rows(rows if json_output else [shown(row) for row in rows], json_output)
    return 0


def row_of(study: FieldTrials, name: Name, seed: int) -> dict[str, Any]:
    """Row of one run, from its file or from a new trial."""
    file = study.out / f"{name}-{seed}{'' if study.steps is None else f'-{study.steps}'}.json"
    if not file.exists():
        row = {"system": name, **trial(system_named(name), seed, study.steps)}
        file.write_text(json.dumps(row, indent=1))
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def system_named(name: Name) -> System:
    """A system, whose package is imported with its first environment."""
    from safexp.studies.field import highway, maze, motor, pendulum, reactor

    systems = {
        "motor": motor.MOTOR,
        "pendulum": pendulum.PENDULUM,
        "highway": highway.HIGHWAY,
        "maze": maze.MAZE,
        "reactor": reactor.REACTOR,
    }
    return systems[name]


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """Columns of the terminal's table."""
    return {
        "system": row["system"],
        "seed": row["seed"],
        "violated": f"{row['violations']} of {row['episodes']}",
        "first 20": row["violations_early"],
        "after stops": row["after_stop_violations"],
        "stops": row["stops"],
        "takeovers": row["takeover_steps"],
        "own": row["own_actions"],
        "return": row["return"],
        "cautious": row["cautious_return"],
        "gain from": row["gain_interval"][0],
        "to": row["gain_interval"][1],
        "bare": row["bare_return"],
        "bare violated": row["bare_training_violations"],
        "unshielded": row["unshielded_violations"] / AUDITED,
    }
