"""Many runs from one description, and the command that does them."""

from __future__ import annotations

from pathlib import Path

import pytest

from safexp.cli import main
from safexp.runs.config import RunConfig
from safexp.runs.folder import read
from safexp.runs.variations import SharedSettings, read_choices, variations


def test_every_choice_meets_every_seed():
    vary = {"method": ["mase", "bare"], "learner_options": [{"gamma": 0.9}, {}]}
    configs = variations(RunConfig(seed=7, steps=5), vary, 2, Path("there"))
    assert len(configs) == len({config.folder for config in configs}) == 8
    assert {(config.method, config.seed, config.steps) for config in configs} == {
        (method, seed, 5) for method in ("mase", "bare") for seed in (7, 8)
    }
    assert configs[0].folder == Path("there/method=mase-learner_options=gamma_0.9-7")


@pytest.mark.parametrize(
    ("vary", "seeds", "message"),
    [
        ({"penalties": [1]}, 1, "vary has 'penalties', which is not a setting"),
        ({"seed": [1]}, 1, "vary has 'seed', which is not a setting"),
        ({"penalty": 1}, 1, r"vary\['penalty'\]=1 must be a list"),
        ({"penalty": []}, 1, "must be a list of one or more"),
        ({}, 0, "seeds=0 must be at least 1"),
    ],
)
def test_what_cannot_be_varied_is_named(vary, seeds, message):
    with pytest.raises(ValueError, match=message):
        variations(RunConfig(), vary, seeds, Path("there"))


def test_what_a_method_ignores_is_not_run_again():
    vary = {"method": ["mase", "bare", "trpo"], "penalty": [1.0, 2.0], "learner": ["PPO", "TRPO"]}
    configs = variations(RunConfig(), vary, 1, Path("there"))
    assert [config.folder.name for config in configs if config.method == "bare"] == [
        "method=bare-learner=PPO-0",
        "method=bare-learner=TRPO-0",
    ]
    assert [config.folder.name for config in configs if config.method == "trpo"] == ["method=trpo-0"]
    assert len([config for config in configs if config.method == "mase"]) == 4


def test_settings_are_checked_after_they_are_varied():
    shared = SharedSettings(constraint="instantaneous", limit=0.3, backup="fallback")
    vary = {"method": ["mase", "bare"], "quantifier": ["known", "exact-gp"]}
    configs = variations(shared, vary, 1, Path("there"))
    assert [(config.method, config.quantifier, config.backup) for config in configs] == [
        ("mase", "known", "fallback"),
        ("mase", "exact-gp", "fallback"),
        ("bare", "unknown", "reset"),
    ]
    with pytest.raises(ValueError, match="quantifier='unknown' certifies nothing"):
        variations(shared, {"quantifier": ["unknown"]}, 1, Path("there"))


def test_a_list_of_settings_is_run_as_it_is(tmp_path):
    path = tmp_path / "configs.json"
    path.write_text('[{"method": "mase", "penalty": 2.0}, {"method": "bare", "name": "PPO alone"}]')
    configs = variations(RunConfig(seed=3), read_choices(path), 2, Path("there"))
    assert [config.folder.name for config in configs] == [
        *("method=mase-penalty=2.0-3", "method=mase-penalty=2.0-4"),
        *("PPO_alone-3", "PPO_alone-4"),
    ]
    assert [config.name for config in configs] == [None, None, "PPO alone", "PPO alone"]
    with pytest.raises(ValueError, match="vary has 'colour', which is not a setting"):
        variations(RunConfig(), [{"colour": "red"}], 1, Path("there"))


@pytest.mark.parametrize(("text", "message"), [("{}", "must hold a list of settings"), ("[", "cannot be read as JSON")])
def test_a_file_without_a_list_is_refused(text, message, tmp_path):
    path = tmp_path / "configs.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_choices(path)


def test_the_command_takes_products_or_a_list(tmp_path, capsys):
    words = ["sweep", "--vary", '{"penalty": [1]}', "--configs", str(tmp_path / "configs.json")]
    assert main(words) == 2
    assert "exclude each other: give one of them" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_runs_all_and_reports_them(tmp_path, capsys):
    words = ["sweep", "--vary", '{"method": ["mase", "bare"]}', "--seeds", "1", "--steps", "64", "--num-envs", "4"]
    words += ["--learner-options", '{"n_steps": 16, "batch_size": 32}', "--out", str(tmp_path)]
    assert main(words) == 0
    assert f"report: {tmp_path / 'report.html'}" in capsys.readouterr().out
    assert [read(tmp_path / f"method={method}-0").status for method in ("mase", "bare")] == ["finished"] * 2
    assert "method=mase" in (tmp_path / "report.html").read_text()
