"""Groups of runs that differ only in the seed: one method on one task."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from safexp.runs.config import RunConfig
from safexp.runs.folder import Run

NOT_COMPARED = ("task", "task_options", "method", "seed", "name")
"""Settings that are not used to name a method: they are in the heading or in its name already."""


@dataclass(frozen=True)
class RunGroup:
    """Runs with the same settings except the seed; `name` is unique on its `task`."""

    task: str
    name: str
    runs: tuple[Run, ...]

    @property
    def config(self) -> RunConfig:
        """The settings, with the seed of the first run."""
        return self.runs[0].config

    @property
    def trained(self) -> tuple[Run, ...]:
        """The finished runs, whose last episodes are comparable; all runs if none has finished."""
        return tuple(run for run in self.runs if run.status == "finished") or self.runs


def group_runs(runs: Sequence[Run]) -> list[RunGroup]:
    """Group runs, in the order of their first runs, by task.

    The second run of a seed goes to another group: counted twice it would make intervals too narrow.
    """
    sorted_out: defaultdict[tuple[str, str, int], list[Run]] = defaultdict(list)
    seen: Counter[tuple[str, int]] = Counter()
    for run in runs:
        description = json.dumps({**run.config.to_json(), "seed": None}, sort_keys=True)
        occurrence = seen[description, run.config.seed]
        seen[description, run.config.seed] += 1
        sorted_out[task_of(run.config), description, occurrence].append(run)
    tasks: defaultdict[str, list[list[Run]]] = defaultdict(list)
    for (task, _, _), members in sorted_out.items():
        tasks[task].append(members)
    return [
        RunGroup(task, name, tuple(members))
        for task, groups in tasks.items()
        for name, members in zip(names([group[0].config for group in groups]), groups, strict=True)
    ]


def by_task(groups: Sequence[RunGroup]) -> dict[str, list[RunGroup]]:
    """The groups on each task."""
    tasks: defaultdict[str, list[RunGroup]] = defaultdict(list)
    for group in groups:
        tasks[group.task].append(group)
    return dict(tasks)


def task_of(config: RunConfig) -> str:
    """A task with its options, if it has any."""
    return config.task + (f" {json.dumps(dict(config.task_options))}" if config.task_options else "")


def names(configs: Sequence[RunConfig]) -> list[str]:
    """A name for each of the settings on one task: the user's name or the method, and the settings that tell it apart.

    A value that more than half of them share is omitted.
    """
    found: list[str] = []
    for config in configs:
        title = config.name or config.method
        same = [_flat(other.to_json()) for other in configs if (other.name or other.method) == title]
        own = _flat(config.to_json())
        rare = [key for key in own if 2 * sum(other.get(key) == own[key] for other in same) <= len(same)]
        told = ", ".join(f"{key.rpartition('.')[2]} {_short(own[key])}" for key in rare if own[key] is not None)
        name = f"{title} ({told})" if told else title
        again = sum(other == name or other.startswith(f"{name}, run ") for other in found)
        found.append(f"{name}, run {again + 1}" if again else name)
    return found


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _flat(settings: Mapping[str, Any], within: str = "") -> dict[str, Any]:
    """Nested settings by their full names."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if within or name not in NOT_COMPARED:
            nested = isinstance(value, Mapping)
            flat |= _flat(value, f"{within}{name}.") if nested else {f"{within}{name}": value}
    return flat
