"""Results of the study's runs, small enough for a repository.

summary.csv        a line for every run after the epochs that it has, and after 500 and 1,000 of them if it has more
epochs/NAME.csv    a line for every epoch of a run, rounded
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from safexp.constraints.base import TOLERANCE
from safexp.core.files import write_bytes
from safexp.records.episodes import Episode
from safexp.runs.config import RunConfig
from safexp.runs.folder import Run
from safexp.runs.trajectories import Trajectories
from safexp.studies.safety_gym.study import FIGURE_3, SCALES, run_name

SUMMARY, EPOCHS = "summary.csv", "epochs"
HORIZONS = (SCALES["paper"][0], FIGURE_3)
"""Epochs after which the paper reports."""

FINAL = 1000
"""How many of a run's last episodes count as its final performance."""

DIGITS = 4
"""Of a number in the lines of epochs; summaries have six."""

LARGEST = 200_000
"""Bytes of a file."""

LATER = ("after_stop_violations",)
"""Columns of the summary that older results lack."""


@dataclass(frozen=True)
class Line:
    """A run after so many epochs.

    `violated` counts episodes that broke the run's constraint, `unfinished` of which had not ended, and `above` those
    that ended with a plain sum of costs above the limit, which is another thing under a discount. What is `final` is
    about the last 1,000 episodes, and `hundred_stopped` about the last 100; `deterministic` is the mean return without
    exploration. `commit` are all that the run was made with, and `settings` are those that differ from the defaults of
    `RunConfig`, as JSON. `after_stop_violations` counts episodes that violated only after their stop; None if stops
    were taken to be free.
    """

    task: str
    method: str
    seed: int
    epochs: int
    episodes: int
    violated: int
    unfinished: int
    above: int
    stops: int
    final_episodes: int
    final_return: float | None
    final_cost: float | None
    final_max_cost: float | None
    final_violated: int
    final_stopped: int
    hundred_stopped: int
    deterministic: float | None
    interventions: int
    takeovers: int
    seconds: float | None
    commit: str
    settings: str
    after_stop_violations: int | None = None

    @property
    def name(self) -> str:
        """The run's name."""
        return run_name(self.task, self.method, self.seed)

    @property
    def config(self) -> RunConfig:
        """The run's description."""
        return RunConfig.from_json(json.loads(self.settings))


@dataclass(frozen=True)
class Result:
    """Results of a run: its summary `lines` by epochs, and the metrics of its run folder, rounded."""

    lines: Mapping[int, Line]
    metrics: Sequence[Mapping[str, Any]]

    @property
    def name(self) -> str:
        """The run's name."""
        return next(iter(self.lines.values())).name

    def run(self, epochs: int) -> Run:
        """The run as it was after so many epochs, without its episodes."""
        return Run(
            path=Path(self.name),
            config=self.lines[epochs].config,
            versions={},
            command="",
            episodes=[],
            metrics=list(self.metrics[:epochs]),
            timing={"status": "finished"},
            trajectories=Trajectories(),
        )


def summary_line(run: Run, task: str, method: str, *, epochs: int, commit: str, deterministic: float | None) -> Line:
    """Summary of a run after a number of its epochs."""
    last = run.metrics[epochs - 1]
    episodes = [episode for episode in run.episodes if episode.end_step <= last["steps"]]
    final = episodes[-FINAL:]
    whole = epochs == len(run.metrics)
    usual = RunConfig().to_json()
    settings = {name: value for name, value in run.config.to_json().items() if value != usual[name]}
    return Line(
        task=task,
        method=method,
        seed=run.config.seed,
        epochs=epochs,
        episodes=len(episodes),
        violated=int(last["violations"]),
        unfinished=int(last["violations"]) - sum(episode.violated for episode in episodes),
        above=sum(episode.cost > (run.config.limit or 0.0) + TOLERANCE for episode in episodes),
        stops=sum(episode.stopped for episode in episodes),
        final_episodes=len(final),
        final_return=_mean(final, "true_return"),
        final_cost=_mean(final, "cost"),
        final_max_cost=max((episode.cost for episode in final), default=None),
        final_violated=sum(episode.violated for episode in final),
        final_stopped=sum(episode.stopped for episode in final),
        hundred_stopped=sum(episode.stopped for episode in episodes[-100:]),
        deterministic=deterministic,
        interventions=sum(episode.interventions for episode in episodes),
        takeovers=sum(episode.takeovers for episode in episodes),
        seconds=run.timing.get("seconds") if whole else None,
        commit=commit,
        settings=json.dumps(settings | {"steps": int(last["steps"])}, sort_keys=True),
        after_stop_violations=last.get("after_stop_violations"),
    )


def horizons(epochs: int) -> list[int]:
    """Numbers of epochs after which a run has a summary line."""
    return sorted({horizon for horizon in HORIZONS if horizon < epochs} | {epochs})


def read_results(folder: Path) -> dict[str, Result]:
    """Read the results of a folder, by the names of the runs.

    Raises:
        ValueError: where it keeps nothing, or a file of it cannot be read.
    """
    path = folder / SUMMARY
    if not path.is_file():
        raise ValueError(
            f"{folder} has no {SUMMARY}: it holds no results. `safexp reproduce safety-gym-results` writes them."
        )
    kinds = get_type_hints(Line)
    lines: dict[str, dict[int, Line]] = {}
    for number, row in enumerate(_rows(path), start=2):
        try:
            line = Line(**{name: _value(row[name], kinds[name]) for name in kinds if name in row or name not in LATER})
        except (KeyError, ValueError) as error:
            raise ValueError(f"line {number} of {path} is damaged ({type(error).__name__}: {error}).") from error
        lines.setdefault(line.name, {})[line.epochs] = line
    return {name: Result(found, read_metrics(folder / EPOCHS / f"{name}.csv")) for name, found in lines.items()}


def write_results(folder: Path, results: Iterable[Result]) -> None:
    """Write results over what a folder keeps of the same runs, beside those of others.

    Raises:
        ValueError: where a file would be too large.
    """
    kept = read_results(folder) if (folder / SUMMARY).exists() else {}
    for result in results:
        kept[result.name] = result
        _write(folder / EPOCHS / f"{result.name}.csv", metrics_text(result.metrics))
    lines = [result.lines[epochs] for _, result in sorted(kept.items()) for epochs in sorted(result.lines)]
    rows = [[_text(value, 6) for value in dataclasses.astuple(line)] for line in lines]
    _write(folder / SUMMARY, _csv([[field.name for field in dataclasses.fields(Line)], *rows]))


def metrics_text(metrics: Sequence[Mapping[str, Any]]) -> str:
    """A run's metrics as CSV, rounded; what is None is empty."""
    names = list(dict.fromkeys(name for line in metrics for name in line))
    return _csv([names, *([_text(line.get(name), DIGITS) for name in names] for line in metrics)])


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines that `metrics_text` wrote.

    Raises:
        ValueError: where there are none, or they are damaged.
    """
    if not path.is_file():
        raise ValueError(f"{path} is not there, though {SUMMARY} beside it has its run: export that run again.")
    lines = []
    for number, row in enumerate(_rows(path), start=2):
        try:
            line: dict[str, Any] = {name: _number(text) for name, text in row.items()}
            int(line["steps"]), int(line["stops"])
            lines.append(line)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"line {number} of {path} is damaged ({type(error).__name__}: {error}).") from error
    return lines


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        rows: list[Any] = list(csv.DictReader(file))
    for number, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise ValueError(f"line {number} of {path} has another number of values than the header.")
    return rows


def _value(text: str, kind: Any) -> Any:
    if kind is str:
        return text
    return _number(text) if text else None


def _number(text: str) -> int | float | None:
    if not text:
        return None
    value = float(text)
    if not np.isfinite(value):
        raise ValueError(f"{text} is not finite")
    return int(text) if text.lstrip("-").isdigit() else value


def _text(value: Any, digits: int) -> str:
    if value is None:
        return ""
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def _csv(rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _write(path: Path, text: str) -> None:
    content = text.encode()
    if len(content) > LARGEST:
        raise ValueError(f"{path} would have {len(content):,} bytes, more than the {LARGEST:,} that results may have.")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, content)


def _mean(episodes: Sequence[Episode], name: str) -> float | None:
    return float(np.mean([getattr(episode, name) for episode in episodes])) if episodes else None
