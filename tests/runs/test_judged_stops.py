"""Runs whose stops are judged: their files, their resumption, their audit, and the command as a user types it."""

from __future__ import annotations

import json

import gymnasium as gym
import pytest

from safexp import Knowledge, Reset
from safexp.audit.audit import audit
from safexp.cli import main
from safexp.runs import folder as run_folder
from safexp.runs import resume
from safexp.runs.build import make_backup
from safexp.runs.config import RunConfig
from safexp.runs.parsing import COLUMNS
from safexp.runs.run import run
from support.runs import interrupted_after, reproducible
from support.sled import Sled, beyond, brake

SETTINGS = {
    "task": "Sled-v0",
    "constraint": "instantaneous",
    "limit": 0.5,
    "quantifier": "known",
    "learner": "TRPO",
    "learner_options": {"n_steps": 32, "policy_kwargs": {"log_std_init": 0.5}},
    "num_envs": 4,
    "steps": 640,
}
AFTER = {"backup_options": {"after": "backup"}}
LEDGERS: list[list[list[float]]] = []


class SledTask(Sled):
    """The sled from random places at random speeds, with its knowledge; its ledgers outlive it."""

    knowledge = Knowledge(cost=beyond(0.2), backup=(brake, 6), fallback=(brake, lambda seen: seen[:, 0]))

    def __init__(self) -> None:
        super().__init__(grip=0.2, steps=40)
        LEDGERS.append(self.ledger)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state[:] = self.np_random.uniform(-5.0, 0.0), self.np_random.uniform(0.5, 2.0)
        return self.state.copy(), {}


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(resume, "SHARE", 1e9)  # a checkpoint after every epoch
    monkeypatch.setitem(gym.registry, "Sled-v0", gym.envs.registration.EnvSpec("Sled-v0", SledTask))
    LEDGERS.clear()


@pytest.mark.slow
def test_the_counts_of_a_run_are_those_of_the_machine_s_own_ledger(tmp_path):
    found = run_folder.read(run(RunConfig(**SETTINGS, **AFTER, out=tmp_path / "run")))
    stopped = [episode for episode in found.episodes if episode.stopped]
    assert len(stopped) > 20
    driven = sum(len(places) for ledger in LEDGERS for places in ledger)
    assert driven == 640 + sum(episode.after_stop_steps for episode in stopped) == 640 + found.summary.after_stop_steps
    crossed = sum(max(places, default=0.0) > 10.0 for ledger in LEDGERS for places in ledger)
    assert found.summary.violations == 0
    assert found.summary.after_stop_violations == crossed > 0
    costs = sum(place > 10.0 for ledger in LEDGERS for places in ledger for place in places)
    assert sum(episode.after_stop_cost for episode in stopped) == costs
    assert found.metrics[-1]["after_stop_violations"] == crossed
    assert found.metrics[-1]["steps"] == 640


@pytest.mark.slow
def test_the_learner_trains_as_if_stops_were_free(tmp_path):
    free, judged = (
        run(RunConfig(**SETTINGS, **extra, out=tmp_path / name)) for name, extra in [("free", {}), ("judged", AFTER)]
    )
    lines = [(folder / run_folder.EPISODES).read_text().splitlines() for folder in (free, judged)]
    assert lines[0][0] == ",".join(COLUMNS)
    assert lines[0] == [line.rsplit(",", 3)[0] for line in lines[1]]
    assert reproducible(free)[2] == reproducible(judged)[2]
    added = [
        set(then) - set(now) for now, then in zip(*(run_folder.read(f).metrics for f in (free, judged)), strict=True)
    ]
    assert added == [{"after_stop_steps", "after_stop_violations"}] * 5


@pytest.mark.slow
def test_an_interrupted_run_and_an_extended_one_end_with_the_same_bytes(tmp_path):
    whole = run(RunConfig(**SETTINGS, **AFTER, out=tmp_path / "whole"))
    config = RunConfig(**SETTINGS, **AFTER, out=tmp_path / "parts")
    for epochs in (1, 3):
        with interrupted_after(epochs):
            run(config, resume=True)
        assert (config.folder / run_folder.CHECKPOINT).exists()
    run(config, resume=True)
    assert reproducible(config.folder) == reproducible(whole)
    for steps in (256, 640):
        run(RunConfig(**{**SETTINGS, "steps": steps}, **AFTER, out=tmp_path / "longer"), resume=True)
    assert reproducible(tmp_path / "longer") == reproducible(whole)
    assert run_folder.read(whole).summary.after_stop_violations > 0


@pytest.mark.slow
def test_an_audit_counts_what_happened_after_the_stop_and_says_how_much_of_it(tmp_path):
    judged = run(RunConfig(**SETTINGS, **AFTER, out=tmp_path / "judged"))
    free = run(RunConfig(**SETTINGS, out=tmp_path / "free"))
    found, old = audit(judged, 20), audit(free, 20)
    assert old.stops == found.stops > 0
    assert old.risk.violations == 0
    assert old.after_stop_violations is None
    assert found.risk.violations == found.after_stop_violations > 0
    assert audit(judged, 20, shielded=False).after_stop_violations is None


@pytest.mark.slow
def test_the_command_as_a_user_types_it(tmp_path, capsys):
    out = str(tmp_path / "run")
    words = ["train", "--task", "Sled-v0", "--constraint", "instantaneous", "--limit", "0.5", "--quantifier", "known"]
    words += ["--learner", "TRPO", "--learner-options", '{"n_steps": 32}', "--num-envs", "4", "--steps", "256"]
    assert main([*words, "--backup", "reset", "--backup-options", '{"after": "backup"}', "--out", out]) == 0
    assert main(["report", out, "--out", str(tmp_path / "report.html")]) == 0
    assert "after stops" in capsys.readouterr().out
    main(["audit", out, "--episodes", "10", "--json", "--out", str(tmp_path / "audit.html")])
    assert json.loads(capsys.readouterr().out)["after_stop_violations"] is not None


def backup_of(knowledge=SledTask.knowledge, **options):
    return make_backup(RunConfig(backup_options=options), knowledge)


def test_the_controller_is_named():
    assert (backup_of().after, backup_of().steps) == (None, 0)
    for options, steps in [
        ({"after": "backup"}, 6),
        ({"after": "backup", "steps": 9}, 9),
        ({"after": "fallback", "steps": 8}, 8),
        ({"after": "support.sled:brake", "steps": 7}, 7),
    ]:
        found = backup_of(**options)
        assert isinstance(found, Reset)
        assert (found.after, found.steps) == (brake, steps)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"after": "brake"}, "after='brake' must name the task's controller .* backup or fallback, or your own"),
        ({"after": 3}, "after=3 must name the task's controller"),
        ({"after": "fallback"}, r"Reset\(steps=0\) must be a whole number, at least 1"),
        ({"after": "support.sled:WALL", "steps": 3}, "expected a function of observations"),
        ({"steps": 3}, r"Reset\(steps=3\) needs after=<the controller"),
        ({"aftr": "backup"}, "did you mean after"),
    ],
)
def test_wrong_options_are_explained(options, message):
    with pytest.raises(ValueError, match=message):
        backup_of(**options)


def test_a_task_without_a_controller_is_told_what_to_give():
    with pytest.raises(ValueError, match=r"has no such controller\. .* knowledge=safexp\.Knowledge\(backup=") as raised:
        backup_of(Knowledge(), after="backup")
    assert "takes the stop to be free" in str(raised.value)


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        ({"after": 3, "steps": 1}, TypeError, r"Reset\(after=3\) must be a function of observations"),
        ({"after": brake}, ValueError, r"Reset\(steps=0\) must be a whole number"),
        ({"after": brake, "steps": 1.5}, ValueError, r"Reset\(steps=1.5\) must be a whole number"),
    ],
)
def test_wrong_arguments_are_explained(wrong, kind, message):
    with pytest.raises(kind, match=message):
        Reset(**wrong)
