"""`safexp check`."""

from __future__ import annotations

from types import MappingProxyType
from typing import Annotated

import tyro

from safexp.commands.working_directory import import_from_working_directory
from safexp.runs.config import ConstraintName, Options, RunConfig


def check(
    task: Annotated[str, tyro.conf.Positional],
    /,
    task_options: Options = MappingProxyType({}),
    constraint: ConstraintName = "budget",
    within: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME:LOW:HIGH")] = (),
    limit: Annotated[float | None, tyro.conf.arg(aliases=("--budget",), metavar="FLOAT")] = None,
    schedule: Options = MappingProxyType({}),
    cost: str = "cost",
    cost_max: float = 1.0,
    policy: Annotated[str | None, tyro.conf.arg(metavar="PACKAGE:FUNCTION")] = None,
    steps: int = 3000,
    seed: int = 0,
    json: bool = False,
) -> int:
    """Check an environment: Gymnasium's own checks, then what a safety constraint needs.

    The exit code is 1 if there is a fault; cautions do not change it.

    Args:
        task: a Gymnasium id; `package:Name-v0` imports the package first.
        task_options: arguments of the task.
        constraint: the constraint, as for `safexp train`.
        within: a limit on a signal, `current:-100:100`, as for `safexp train`. Repeat the option for further limits.
        limit: limit of the budget (default 3), or of every cost.
        schedule: the limits of a schedule by their first steps.
        cost: key of the cost in the task's info, or `package:function`.
        cost_max: largest cost that the task can return; for a margin, the distance at which the cost saturates.
        policy: controller that drives every second episode, a function of observations (n, ...) that returns actions;
            random actions otherwise.
        steps: about how many steps to play; repetitions take up to three times as many again.
        seed: seed of the first episode and of the random actions.
        json: print JSON instead of a table.
    """
    import_from_working_directory()
    import gymnasium

    from safexp.check.check_env import check_env
    from safexp.report.check import print_check
    from safexp.runs.build import make_constraint
    from safexp.runs.plugins import find_callable, find_task

    config = RunConfig(
        task=task,
        method="bare",  # no quantifier is needed
        constraint=constraint,
        within=within,
        limit=limit,
        schedule=schedule,
        cost=cost,
        cost_max=cost_max,
    ).settled()
    controller = None
    if policy is not None:
        controller = find_callable(
            policy, "policy", "a function of observations (n, ...) that returns actions (n, ...)"
        )
    find_task(task)
    try:
        env = gymnasium.make(task, disable_env_checker=True, **task_options)
    except Exception as error:  # from the user's class
        raise ValueError(f"cannot make task {task!r} with task_options={dict(task_options)}: {error}") from error
    found = check_env(env, make_constraint(config), policy=controller, steps=steps, seed=seed)
    env.close()
    print_check(found, json)
    return 1 if found.severity == "stop" else 0
