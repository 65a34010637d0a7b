"""Metrics sent to Weights & Biases or MLflow, in addition to TensorBoard.

A tracker never stops a run: if it fails, that is reported once and the tracker is dropped.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, Protocol

import numpy as np
from stable_baselines3.common.logger import KVWriter

from safexp.core.extras import needed_for

TrackerName = Literal["wandb", "mlflow"]

log = logging.getLogger("safexp")


class Channel(Protocol):
    """A run's connection to a tracking service."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Send metrics by name, after `step` environment steps."""

    def finish(self, succeeded: bool) -> None:
        """Close the connection."""


Start = Callable[[str, Mapping[str, Any]], Channel]
"""Opens a channel for a run, given its name and its settings."""


class Wandb:
    """Channel to Weights & Biases; the options are arguments of `wandb.init`."""

    def __init__(self, wandb: Any, options: Mapping[str, Any], name: str, settings: Mapping[str, Any]) -> None:
        self._run = wandb.init(**{"project": "safexp", "name": name, "config": dict(settings), **options})

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def finish(self, succeeded: bool) -> None:
        self._run.finish(exit_code=0 if succeeded else 1)


class MLflow:
    """Channel to MLflow; the options are `tracking_uri`, `experiment` and `run_name`."""

    def __init__(self, mlflow: Any, options: Mapping[str, Any], name: str, settings: Mapping[str, Any]) -> None:
        unknown = sorted(set(options) - {"tracking_uri", "experiment", "run_name"})
        if unknown:
            raise ValueError(f"options {', '.join(unknown)} are not known; use tracking_uri, experiment, run_name")
        self._entities = mlflow.entities
        self._client = mlflow.MlflowClient(options.get("tracking_uri"))
        experiment = options.get("experiment", "safexp")
        found = self._client.get_experiment_by_name(experiment)
        number = self._client.create_experiment(experiment) if found is None else found.experiment_id
        self._run = self._client.create_run(number, run_name=options.get("run_name", name)).info.run_id
        texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in settings.items()}
        self._client.log_batch(self._run, params=[self._entities.Param(key, text) for key, text in texts.items()])

    def log(self, values: Mapping[str, float], step: int) -> None:
        now = int(time.time() * 1000)
        metrics = [self._entities.Metric(key, value, now, step) for key, value in values.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def finish(self, succeeded: bool) -> None:
        self._client.set_terminated(self._run, "FINISHED" if succeeded else "FAILED")


@dataclass(frozen=True)
class Service:
    """A tracking service with its options; opens a channel for every run, in this process or in others.

    Raises:
        ValueError: if its package is not installed or, when a channel is opened, if the service refuses it.
    """

    name: TrackerName
    options: dict[str, Any]

    def __post_init__(self) -> None:
        self._package()

    def __call__(self, run: str, settings: Mapping[str, Any]) -> Channel:
        kinds: dict[str, Callable[..., Channel]] = {"wandb": Wandb, "mlflow": MLflow}
        package = self._package()
        try:
            return kinds[self.name](package, self.options, run, settings)
        except Exception as error:
            raise ValueError(f"--track {self.name} with {self.options} failed to start: {error}") from error

    def _package(self) -> Any:
        with needed_for(f"--track {self.name}"):
            return import_module(self.name)


class Tracker(KVWriter):
    """Writer of Stable-Baselines3's logger that sends to a channel until that fails."""

    def __init__(self, channel: Channel) -> None:
        self._channel: Channel | None = channel

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Send all numbers that TensorBoard receives."""
        numbers = {
            key: float(value)
            for key, value in key_values.items()
            if isinstance(value, int | float | np.number) and "tensorboard" not in (key_excluded.get(key) or ())
        }
        self._send(lambda channel: channel.log(numbers, step))

    def finish(self, succeeded: bool) -> None:
        """Report how the run ended."""
        self._send(lambda channel: channel.finish(succeeded))
        self._channel = None

    def close(self) -> None:
        """Do nothing: `finish` closes the channel."""

    def _send(self, send: Callable[[Channel], None]) -> None:
        if self._channel is None:
            return
        try:
            send(self._channel)
        except Exception as error:
            name = type(self._channel).__name__
            self._channel = None
            log.warning("%s failed and receives nothing more from this run: %s: %s", name, type(error).__name__, error)


@contextmanager
def tracking(start: Start | None, name: str, settings: Mapping[str, Any]) -> Iterator[list[KVWriter]]:
    """Context with the log writers of a run's tracker, if it has one, which is told at the end whether it succeeded."""
    if start is None:
        yield []
        return
    tracker = Tracker(start(name, settings))
    succeeded = False
    try:
        yield [tracker]
        succeeded = True
    finally:
        tracker.finish(succeeded)
