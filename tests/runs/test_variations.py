"""Many runs from one description, and the command that does them."""

from __future__ import annotations

from pathlib import Path

import pytest

from safexp.cli import main
from safexp.runs.config import RunConfig
from safexp.runs.folder import read
from safexp.runs.variations import variations


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


@pytest.mark.slow
def test_the_command_runs_all_and_reports_them(tmp_path, capsys):
    words = ["sweep", "--vary", '{"method": ["mase", "bare"]}', "--seeds", "1", "--steps", "64", "--num-envs", "4"]
    words += ["--learner-options", '{"n_steps": 16, "batch_size": 32}', "--out", str(tmp_path)]
    assert main(words) == 0
    assert f"report: {tmp_path / 'report.html'}" in capsys.readouterr().out
    assert [read(tmp_path / f"method={method}-0").status for method in ("mase", "bare")] == ["finished"] * 2
    assert "method=mase" in (tmp_path / "report.html").read_text()
