"""`safexp audit`."""

from __future__ import annotations

import sys
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import tyro

from safexp.commands.working_directory import import_from_working_directory
from safexp.runs.config import Options


def audit(
    checkpoint: Annotated[Path, tyro.conf.Positional],
    /,
    episodes: int = 300,
    seed: int = 1_000_000,
    task: Annotated[str | None, tyro.conf.arg(metavar="STR")] = None,
    task_options: Options = MappingProxyType({}),
    shield: bool = True,
    unshielded: bool = False,
    max_risk: float = 0.01,
    replay: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None,
    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
    json: bool = False,
) -> int:
    """Play episodes of a trained agent, and bound the probability that an episode violates the constraint.

    The exit code is 1 if the one-sided 95 % upper bound exceeds the allowed risk.

    Args:
        checkpoint: a run folder, an agent.safexp (without its run folder it needs --task), or the name of an agent that
            comes with safexp.
        episodes: number of episodes; 300 without a violation show a risk of at most 1 %.
        seed: seed of the first episode; each episode has its own.
        task: task to audit on, if not the one it was trained on.
        task_options: arguments of that task.
        shield: --no-shield executes every proposal of the same policy.
        unshielded: also play the same episodes without the shield, to see whether the policy needs it.
        max_risk: largest allowed risk.
        replay: only replay the episode of this seed.
        out: HTML page to write, which must not exist; by default audit.html, or else audit-2.html, and so on.
        json: print JSON instead of text.
    """
    import_from_working_directory()
    from safexp.audit import audit as auditing
    from safexp.report.audit import free_page, print_audit, print_replay, write_audit

    if replay is not None:
        print_replay(auditing.replay(checkpoint, replay, task, task_options, shield), json)
        return 0
    page = free_page(out)  # fails before hours of episodes, not after
    found = auditing.audit(
        checkpoint,
        episodes,
        seed,
        task,
        task_options,
        shield,
        max_risk,
        lambda line: print(line, file=sys.stderr),
        unshielded,
    )
    write_audit(page, found)
    print_audit(found, json)
    print(f"page: {page}", file=sys.stderr if json else sys.stdout)
    return 0 if found.passed else 1
