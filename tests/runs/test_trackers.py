from __future__ import annotations

import logging
import pickle
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from safexp.cli import main
from safexp.runs import folder as run_folder
from safexp.runs import resume
from safexp.runs.config import RunConfig
from safexp.runs.run import run
from safexp.runs.sweep import sweep
from safexp.runs.trackers import Service, Tracker

TINY: dict[str, Any] = {"num_envs": 2, "steps": 256, "learner": "TRPO", "learner_options": {"n_steps": 64}}


class Notes:
    """A channel that writes down what it gets, and fails at its n-th line."""

    def __init__(self, fails_at: int = 10**9) -> None:
        self.lines: list[tuple[dict[str, float], int]] = []
        self.ends: list[bool] = []
        self.fails_at = fails_at

    def log(self, values: Mapping[str, float], step: int) -> None:
        if len(self.lines) == self.fails_at:
            raise ConnectionError("the line is dead")
        self.lines.append((dict(values), step))

    def finish(self, succeeded: bool) -> None:
        self.ends.append(succeeded)


def test_a_tracker_gets_what_tensorboard_gets(tmp_path: Path) -> None:
    notes, started = Notes(), []

    def start(name: str, settings: Mapping[str, Any]) -> Notes:
        started.append((name, settings["learner"]))
        return notes

    folder = run(RunConfig(**TINY, out=tmp_path / "a"), track=start)
    assert started == [("a", "TRPO")]
    assert notes.ends == [True]
    epochs = [(step, values["epoch/violations"]) for values, step in notes.lines if "epoch/violations" in values]
    metrics = run_folder.read(folder).metrics
    assert epochs == [(line["steps"], line["violations"]) for line in metrics]


def test_only_numbers_that_are_not_excluded_are_sent() -> None:
    notes = Notes()
    values = {"a": np.float32(2.0), "b": "text", "c": 3, "d": np.zeros(2)}
    Tracker(notes).write(values, {"a": None, "b": None, "c": ("tensorboard",), "d": None}, 7)  # type: ignore[dict-item]
    assert notes.lines == [({"a": 2.0}, 7)]


def test_a_tracker_that_fails_is_heard_of_once_and_the_run_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    notes = Notes(fails_at=1)
    with caplog.at_level(logging.WARNING, logger="safexp"):
        folder = run(RunConfig(**TINY, out=tmp_path / "a"), track=lambda name, settings: notes)
    assert run_folder.read(folder).status == "finished"
    assert (len(notes.lines), notes.ends) == (1, [])
    (record,) = [record for record in caplog.records if "Notes" in record.getMessage()]
    assert "Notes failed and receives nothing more from this run: ConnectionError" in record.getMessage()


def test_a_tracker_hears_of_a_run_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = Notes()
    monkeypatch.setattr("safexp.mase.mase.MASE.update", lambda self: 1 / 0)
    with pytest.raises(run_folder.RunFailedError):
        run(RunConfig(**TINY, out=tmp_path / "a"), track=lambda name, settings: notes)
    assert notes.ends == [False]


def test_a_tracker_hears_of_a_folder_that_another_process_works_on(tmp_path: Path) -> None:
    notes = Notes()
    (tmp_path / "a").mkdir()
    with (
        resume.locked(tmp_path / "a"),
        pytest.raises(run_folder.RunFolderError, match="another process is working on"),
    ):
        run(RunConfig(**TINY, out=tmp_path / "a"), resume=True, track=lambda name, settings: notes)
    assert notes.ends == [False]


@dataclass(frozen=True)
class Diary:
    """Opens channels in any process, and each writes what it hears into a file of its own."""

    folder: Path

    def __call__(self, name: str, settings: Mapping[str, Any]) -> Diary:
        return Diary(self.folder / f"{name}.txt")

    def log(self, values: Mapping[str, float], step: int) -> None:
        if "epoch/violations" in values:
            with self.folder.open("a") as file:
                file.write(f"{step} ")

    def finish(self, succeeded: bool) -> None:
        with self.folder.open("a") as file:
            file.write(str(succeeded))


@pytest.mark.slow
def test_every_run_of_a_sweep_is_tracked(tmp_path: Path) -> None:
    configs = [RunConfig(**TINY, seed=seed, out=tmp_path / f"run{seed}") for seed in (0, 1)]
    sweep(configs, workers=2, track=Diary(tmp_path))
    assert [(tmp_path / f"run{seed}.txt").read_text() for seed in (0, 1)] == ["128 256 True"] * 2


def test_the_command_sweep_gives_every_run_its_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace())
    monkeypatch.setattr("safexp.report.watch.sweep", lambda *_, track, **__: given.append(track) or [])
    words = ["sweep", "--seeds", "1", "--track", "wandb", "--track-options", '{"group": "b"}', "--out", str(tmp_path)]
    assert main(words) == 0
    assert given == [Service("wandb", {"group": "b"})]
    assert pickle.loads(pickle.dumps(given[0])) == given[0]


def test_tensorboard_shows_every_epoch_of_a_resumed_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = RunConfig(**{**TINY, "steps": 512}, out=tmp_path / "a")
    write, lines = run_folder.append_metrics, []

    def fail_once(folder: Path, line: dict[str, Any]) -> None:
        write(folder, line)
        lines.append(line["steps"])
        if len(lines) == 3:
            raise OSError("no space left")

    monkeypatch.setattr(run_folder, "append_metrics", fail_once)
    monkeypatch.setattr("safexp.runs.resume.SHARE", 1e-9)  # one checkpoint, after the first epoch
    with pytest.raises(run_folder.RunFailedError):
        run(config)
    run(config, resume=True)
    assert lines == [128, 256, 384, 256, 384, 512]
    events = EventAccumulator(str(tmp_path / "a" / run_folder.TENSORBOARD)).Reload()
    assert [event.step for event in events.Scalars("epoch/violations")] == [128, 256, 384, 512]


def test_wandb_is_given_the_run_and_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    fake = SimpleNamespace(
        init=lambda **given: (
            calls.append(given)
            or SimpleNamespace(
                log=lambda values, step: calls.append((values, step)), finish=lambda exit_code: calls.append(exit_code)
            )
        )
    )
    monkeypatch.setitem(sys.modules, "wandb", fake)
    channel = Service("wandb", {"mode": "offline", "project": "kilns"})("a", {"seed": 1})
    channel.log({"epoch/stops": 2.0}, 64)
    channel.finish(False)
    init = {"project": "kilns", "name": "a", "config": {"seed": 1}, "mode": "offline"}
    assert calls == [init, ({"epoch/stops": 2.0}, 64), 1]


def test_a_missing_package_is_named_before_anything_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert main(["train", "--track", "wandb", "--out", str(tmp_path / "a")]) == 2
    assert "--track wandb needs wandb: pip install 'safexp[wandb]'" in capsys.readouterr().err
    assert main(["train", "--track-options", '{"project": "b"}', "--out", str(tmp_path / "a")]) == 2
    assert "need --track wandb or --track mlflow" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


def test_a_service_that_says_no_stops_the_run_before_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def init(**given: Any) -> None:
        raise RuntimeError("no API key")

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    with pytest.raises(ValueError, match=r"--track wandb with {} failed to start: no API key"):
        run(RunConfig(**TINY, out=tmp_path / "a"), track=Service("wandb", {}))
    assert not (tmp_path / "a").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_the_real_wandb_offline(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    start = Service("wandb", {"mode": "offline", "dir": str(tmp_path)})
    run(RunConfig(**TINY, out=tmp_path / "a"), track=start)
    (written,) = (tmp_path / "wandb").glob("offline-run-*/run-*.wandb")
    while b"epoch/violations" not in written.read_bytes():  # by a process of its own, after the run has finished
        time.sleep(0.05)


@pytest.mark.filterwarnings("default")
def test_the_real_mlflow_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    where = {"tracking_uri": (tmp_path / "mlruns").as_uri(), "experiment": "kilns"}
    run(RunConfig(**TINY, out=tmp_path / "a"), track=Service("mlflow", where))
    client = mlflow.MlflowClient(where["tracking_uri"])
    (found,) = client.search_runs([client.get_experiment_by_name("kilns").experiment_id])
    assert (found.info.status, found.info.run_name, found.data.params["learner"]) == ("FINISHED", "a", "TRPO")
    history = client.get_metric_history(found.info.run_id, "epoch/violations")
    assert [point.step for point in history] == [128, 256]
    with pytest.raises(ValueError, match="options colour are not known; use tracking_uri, experiment, run_name"):
        Service("mlflow", {"colour": "blue"})("a", {})
