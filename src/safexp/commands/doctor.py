"""`safexp doctor`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from safexp.commands.working_directory import import_from_working_directory

NEEDS_BACKUP = 3
"""Exit code if only a shield with a backup can be made, and none was given."""


def doctor(
    log: Annotated[Path, tyro.conf.Positional],
    /,
    within: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME:LOW:HIGH")] = (),
    task: Annotated[str | None, tyro.conf.arg(metavar="ID")] = None,
    delta: float = 0.05,
    resets: bool = False,
    backup: Annotated[str | None, tyro.conf.arg(metavar="PACKAGE:CONTROLLER")] = None,
    horizon: int | None = None,
    quantifiers: tuple[Literal["SparseGP", "FeatureRegression", "ExactGP"], ...] = (
        "SparseGP",
        "FeatureRegression",
        "ExactGP",
    ),
    json: bool = False,
    html: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
) -> int:
    """Check whether a log suffices for a trustworthy shield: which one, and what is missing.

    The exit code is 1 if the log does not suffice, and 3 if it suffices only for a shield with a backup, which was not
    given: with --backup and --horizon that shield is examined.

    Args:
        log: .csv, .parquet or .npz file of logged steps, as `read_log` describes.
        within: a limit on a signal, `current:-100:100`, or `temperature::335` for an upper limit only; a number in
            place of the name is an index into the observation. Repeat the option for further limits.
        task: Gymnasium task that the log is from, for its spaces; otherwise they are inferred from the log.
        delta: share of stretches in which a certificate may be wrong.
        resets: an episode can be stopped at any step without harm, as in a simulator: one step ahead is then enough.
        backup: your backup controller, a function from observations (n, ...) to actions (n, ...): the shield that looks
            ahead to it is examined in place of one that looks one step ahead.
        horizon: number of steps within which the backup has come to rest.
        quantifiers: models to compare; the exact Gaussian process is tried only on small logs.
        json: print JSON instead of text.
        html: HTML page with figures to write.
    """
    import_from_working_directory()
    from safexp.backups.backup import Backup
    from safexp.constraints.parse import parse_limits
    from safexp.doctor.examine import examine
    from safexp.report.doctor import print_examination, write_examination
    from safexp.runs.plugins import find_callable
    from safexp.shield.logs import read_log, signal_names

    if not within:
        names = ", ".join(signal_names(read_log(log, finite=False)))
        raise ValueError(f"name a limited signal: --within NAME:LOW:HIGH; {log} has {names}.")
    if (backup is None) != (horizon is None):
        raise ValueError("give both --backup PACKAGE:CONTROLLER and --horizon STEPS, or neither.")
    driver = None
    if backup is not None and horizon is not None:
        takes = "a function from observations (n, ...) to actions (n, ...)"
        driver = Backup(find_callable(backup, "backup", takes), horizon)
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
        backup=driver,
    )
    if html is not None:
        write_examination(html, found)
    print_examination(found, json)
    if html is not None:
        print(f"page: {html}", file=sys.stderr if json else sys.stdout)
    if found.needs_backup:
        return NEEDS_BACKUP
    return 1 if found.severity == "stop" else 0
