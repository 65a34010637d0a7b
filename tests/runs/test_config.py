import dataclasses
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import tyro

from safexp.runs.config import RunConfig


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"limit": -1.0}, r"limit=-1\.0 \(--budget, --limit\) must be finite and at least 0"),
        ({"limit": float("nan")}, "limit=nan"),
        ({"discount": 0.0}, r"discount=0\.0 must lie in \(0, 1\]"),
        ({"cost_max": 0.0}, r"cost_max=0\.0 must be finite and above 0"),
        ({"steps": 0}, "steps=0 must be at least 1"),
        ({"num_envs": 0}, "num_envs=0 must be at least 1"),
        ({"seed": -1}, "seed=-1 must be at least 0"),
        ({"method": "magic"}, "method='magic' is not one of mase, bare"),
        ({"constraint": "chance"}, "constraint='chance' is not one of budget, instantaneous, margin"),
        ({"quantifier": "oracle"}, "quantifier='oracle' is not one of unknown, known, exact-gp"),
        ({"constraint": "instantaneous"}, "needs a limit"),
        ({"constraint": "margin", "limit": 1.0}, "a margin has no limit"),
        ({"constraint": "margin", "quantifier": "known", "discount": 0.9}, r"discount=0\.9 is for a budget"),
        ({"constraint": "instantaneous", "limit": 0.3}, "quantifier='unknown' certifies nothing .* 'instantaneous'"),
        ({"learner_options": {"policy_kwargs": object()}}, "learner_options=.* must be a mapping of JSON values"),
        ({"method": "cpo", "learner": "SAC"}, "learner='SAC': method 'cpo' is a learner itself; leave --learner out"),
        ({"method": "cpo", "constraint": "margin"}, "method='cpo' supports only budgets, not 'margin'"),
        (
            {"method_options": {"shield": False}},
            "method_options has 'shield', which method 'mase' does not take: it takes",
        ),
        ({"method": "trpo", "method_options": {"levels": [0, 1]}}, "method 'trpo' does not take: it takes none"),
        ({"method": "saute", "limit": 0.0}, "method='saute' divides by its budget, which must be above 0"),
        ({"backup": "parachute"}, "backup='parachute' is not one of reset, controller, fallback, learned-reset"),
        ({"method": "trpo", "backup": "fallback"}, "backup='fallback' is an option of method 'mase', not of 'trpo'"),
        ({"penalty": -1.0}, r"c=-1\.0.*penalties are given as positive numbers"),
    ],
)
def test_a_bad_value_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RunConfig(**settings)


def test_the_bare_learner_needs_no_quantifier() -> None:
    assert RunConfig(method="bare", constraint="instantaneous", limit=0.3).limit == 0.3


def test_defaults_that_depend_on_other_values_are_written_out() -> None:
    settled = RunConfig(learner_options={"gamma": 0.9}).settled()
    assert settled.limit == 3.0
    assert settled.learner_options == {"n_steps": 128, "batch_size": 256, "learning_rate": 1e-3, "gamma": 0.9}
    assert settled.settled() == settled


def test_other_learners_keep_their_own_defaults_and_margins_have_no_limit() -> None:
    settled = RunConfig(learner="A2C", constraint="margin", quantifier="known").settled()
    assert settled.learner_options == {}
    assert settled.limit is None


def test_a_method_that_is_a_learner_names_it() -> None:
    settled = RunConfig(method="trpo-lagrangian").settled()
    assert (settled.learner, settled.learner_options) == ("TRPOLagrangian", {"n_steps": 128})
    assert settled.settled() == settled


def test_json_gives_the_same_description() -> None:
    config = RunConfig(penalty=2.0, learner_options={"gamma": 0.9}, out=Path("somewhere"))
    document = json.loads(json.dumps(config.to_json()))
    assert "out" not in document, "where a folder lies does not determine the run"
    assert RunConfig.from_json(document, out=Path("somewhere")) == config


def test_json_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown settings colour, out"):
        RunConfig.from_json({"colour": "red", "out": "x"})
    with pytest.raises(ValueError, match=r"penalty={'c': 1.0} has the wrong type: expected a value like 0.5"):
        RunConfig.from_json({"penalty": {"c": 1.0}})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("penalty", "a"), ("penalty", None), ("steps", "a"), ("num_envs", 2.5), ("limit", "x"), ("cost_max", "1")),
        *(("discount", None), ("calibrate", "yes"), ("task", 3), ("learner_options", [1]), ("seed", True)),
    ],
)
def test_settings_of_the_wrong_kind_are_named(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name}={re.escape(repr(value))} has the wrong type"):
        RunConfig(**{name: value})


def test_the_command_names_what_differs_from_the_defaults() -> None:
    config = RunConfig(
        method="bare", limit=5.0, learner_options={"gamma": 0.9}, largest_penalty=2.0, out=Path("my runs/a")
    )
    assert shlex.split(config.command()) == [
        *("safexp", "train", "--method", "bare", "--limit", "5.0", "--learner-options", '{"gamma": 0.9}'),
        *("--largest-penalty", "2.0", "--out", "my runs/a"),
    ]
    assert RunConfig().command() == "safexp train"


def test_every_seed_has_its_own_folder() -> None:
    config = RunConfig(task="mine:My-v0")
    assert config.folder == Path("runs/mine-My-v0-mase-0")
    assert dataclasses.replace(config, seed=1).folder == Path("runs/mine-My-v0-mase-1")


@pytest.mark.parametrize(("words", "calibrate"), [([], None), (["--calibrate"], True), (["--no-calibrate"], False)])
def test_calibration_is_a_flag_on_the_command_line(words: list[str], calibrate: bool | None) -> None:
    assert tyro.cli(RunConfig, args=words).calibrate is calibrate
