"""All episodes of many runs with their settings, as one data frame."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safexp.core.extras import needed_for
from safexp.records.episodes import Episode
from safexp.report.groups import group_runs
from safexp.runs.folder import folders_of, read

if TYPE_CHECKING:
    import pandas


def read_runs(*paths: str | Path) -> pandas.DataFrame:
    """Read run folders, or their parent folders, into a data frame with a row for each finished episode.

    Columns are those of `Episode` (`true_return`, `cost`, `violated`, ...), then `run` (the folder), `status`, `label`
    (the name of the method, as in reports) and every setting; those in options have names such as
    `learner_options.n_steps`, and the setting `cost`, which would hide the cost of an episode, is `settings.cost`.

    Raises:
        MissingExtraError: if pandas is not installed.
        RunFolderError: if a folder cannot be read.

    Example:
        >>> options = {"n_steps": 16, "batch_size": 64, "n_epochs": 1}
        >>> config = safexp.RunConfig(steps=512, num_envs=4, learner_options=options, out=Path("runs/first"))
        >>> frame = safexp.read_runs(safexp.run(config))
        >>> int(frame["violated"].sum())
        0
    """
    with needed_for("a data frame of runs"):
        import pandas as pd
    if not paths:
        raise ValueError("read_runs() was given no folder: read_runs('runs').")
    runs = [read(folder) for folder in folders_of(Path(path) for path in paths)]
    frames = []
    for group in group_runs(runs):
        for run in group.runs:
            about = {"run": str(run.path), "status": run.status, "label": group.name, **_flat(run.config.to_json())}
            episodes = pd.DataFrame(run.episodes, columns=list(Episode._fields))
            named = {f"settings.{name}" if name in episodes else name: value for name, value in about.items()}
            frames.append(episodes.assign(**{name: [value] * len(episodes) for name, value in named.items()}))
    return pd.concat(frames, ignore_index=True)


def _flat(settings: Mapping[str, Any], within: str = "") -> dict[str, Any]:
    """Nested settings by their full names."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat |= _flat(value, f"{within}{name}.") if isinstance(value, Mapping) else {f"{within}{name}": value}
    return flat
