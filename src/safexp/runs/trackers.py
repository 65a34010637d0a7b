"""What TensorBoard gets, sent to Weights & Biases or MLflow too.

A tracker never stops a run: one that fails is reported once and then left out.
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
    """One run's line to a tracking service."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Numbers by their names, after so many environment steps."""

    def finish(self, succeeded: bool) -> None:
        """Nothing more will come."""


Start = Callable[[str, Mapping[str, Any]], Channel]
"""Opens a channel for a run, given its name and all its settings."""


class Wandb:
    """A run of Weights & Biases; the options are arguments of `wandb.init`."""

    def __init__(self, wandb: Any, options: Mapping[str, Any], name: str, settings: Mapping[str, Any]) -> None:
        self._run = wandb.init(**{"project": "safexp", "name": name, "config": dict(settings), **options})

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def finish(self, succeeded: bool) -> None:
        self._run.finish(exit_code=0 if succeeded else 1)


class MLflow:
    """A run of MLflow; the options are `tracking_uri`, `experiment` and `run_name`."""

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
    """A tracking service by its name, with its options; opens a channel for every run, in this process or in others.

    Raises:
        ValueError: where its package is not installed, and, when a channel is opened, where the service says no.
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
            raise ValueError(f"--track {self.name} with {self.options} does not start: {error}") from error

    def _package(self) -> Any:
        with needed_for(f"--track {self.name}"):
            return import_module(self.name)


class Tracker(KVWriter):
    """What Stable-Baselines3 logs, sent through a channel until that fails."""

    def __init__(self, channel: Channel) -> None:
        self._channel: Channel | None = channel

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Send all numbers that TensorBoard gets."""
        numbers = {
            key: float(value)
            for key, value in key_values.items()
            if isinstance(value, int | float | np.number) and "tensorboard" not in (key_excluded.get(key) or ())
        }
        self._send(lambda channel: channel.log(numbers, step))

    def finish(self, succeeded: bool) -> None:
        """Say how the run ended."""
        self._send(lambda channel: channel.finish(succeeded))
        self._channel = None

    def close(self) -> None:
        """Nothing is open beside the channel, which `finish` ends."""

    def _send(self, send: Callable[[Channel], None]) -> None:
        if self._channel is None:
            return
        try:
            send(self._channel)
        except Exception as error:
            name = type(self._channel).__name__
            self._channel = None
            log.warning("%s failed and gets nothing more of this run: %s: %s", name, type(error).__name__, error)


@contextmanager
def tracking(start: Start | None, name: str, settings: Mapping[str, Any]) -> Iterator[list[KVWriter]]:
    """What a run must log to, a tracker or nothing; it is told in the end how the run came out."""
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
