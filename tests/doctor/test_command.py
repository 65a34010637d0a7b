"""`safexp doctor`: text, JSON, a page, and exit codes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from safexp import examine
from safexp.cli import main
from safexp.constraints.parse import parse_limits, parse_within
from safexp.report.doctor import render
from support import browser
from support.browser import window
from support.heater import LIMIT, as_log, heater
from support.hoist import HORIZON, hoist


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """A log that is quickly examined: nothing can be made from it."""
    path = tmp_path_factory.mktemp("logs") / "small.npz"
    np.savez(path, **heater(episodes=4))
    return path


def write_csv(path: Path, columns) -> None:
    header = ["s0", "s1", "s2", "a0", "n0", "n1", "n2", "episode", "heat"]
    parts = ("states", "actions", "next_states", "episodes", "heat")
    table = np.concatenate([columns[name].reshape(len(columns["heat"]), -1) for name in parts], axis=1)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *table.tolist()])


def test_a_log_from_which_no_shield_can_be_made(small, capsys):
    assert main(["doctor", str(small), "--within", "heat:-16:16"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("No trustworthy shield")
    assert "Log more episodes." in said


def test_json_and_a_page(small, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["doctor", str(small), "--within", "heat::16", "--json", "--html", str(page)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["severity"] == "stop"
    assert found["rows"]["episodes"] == 4
    assert {"topic", "severity", "found", "means", "remedy"} == set(found["findings"][0])
    assert "No trustworthy shield" in page.read_text()


def test_a_good_log_ends_with_lines_and_exit_code_0(good, tmp_path, capsys):
    path = tmp_path / "good.csv"
    write_csv(path, good)
    quickly = ["--quantifiers", "FeatureRegression"]
    assert main(["doctor", str(path), "--within", "heat:-16:16", *quickly]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Good: a trustworthy shield")
    assert f"log = read_log({str(path)!r})" in said
    assert "Within('heat', low=-16.0, high=16.0)" in said


def test_a_log_that_needs_a_backup_has_its_own_exit_code(tmp_path, capsys):
    path = tmp_path / "late.csv"
    write_csv(path, heater(late=2))
    assert main(["doctor", str(path), "--within", "heat:-16:16", "--quantifiers", "FeatureRegression"]) == 3
    said = capsys.readouterr().out
    assert said.startswith("A shield that looks one step ahead is not enough here")
    assert "trustworthy" not in said
    assert "backup = Backup(controller, horizon=" in said


@pytest.mark.slow
def test_with_a_backup_the_shield_that_looks_ahead_is_examined(tmp_path, monkeypatch, capsys):
    log = hoist()
    np.savez(
        tmp_path / "hoist.npz",
        states=log.observations,
        actions=log.actions,
        next_states=log.next_observations,
        episodes=log.episodes,
    )
    (tmp_path / "my_hoist.py").write_text(
        "from support.hoist import brake as stop\n\n\ndef brake(o):\n    return stop(o)\n"
    )
    monkeypatch.chdir(tmp_path)
    command = ["doctor", "hoist.npz", "--within", "0:0:9"]
    assert main([*command, "--backup", "my_hoist:brake", "--horizon", str(HORIZON), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["look_ahead"]["logged"] > 0.9
    assert "from my_hoist import brake as controller\n" in found["lines"]
    assert f"backup = Backup(controller, horizon={HORIZON})\n" in found["lines"]


def test_a_backup_needs_a_horizon(small, capsys):
    assert main(["doctor", str(small), "--within", "heat::16", "--backup", "my_hoist:brake"]) == 2
    assert "give both --backup PACKAGE:CONTROLLER and --horizon STEPS, or neither." in capsys.readouterr().err


def test_missing_values_of_a_file_are_found_by_their_lines(good, tmp_path, capsys):
    path = tmp_path / "holes.csv"
    write_csv(path, {name: column[:300] for name, column in good.items()})
    lines = path.read_text().splitlines()
    lines[4] = ",".join(["", *lines[4].split(",")[1:]])
    lines[9] = ",".join(["nan", *lines[9].split(",")[1:]])
    path.write_text("\n".join(lines))
    assert main(["doctor", str(path), "--within", "heat:-16:16", "--json"]) == 1
    assert "s0 in 2 of 300 rows (line 5, 10)" in json.loads(capsys.readouterr().out)["findings"][0]["found"]


def test_without_limits_it_says_what_there_is(small, capsys):
    assert main(["doctor", str(small)]) == 2
    assert "has heat, observation entries 0 to 2" in capsys.readouterr().err


def test_a_task_tells_the_spaces(tmp_path, capsys):
    rng = np.random.default_rng(0)
    path = tmp_path / "robot.npz"
    env = gymnasium.make("safexp/PlanarRobot-v0")
    states = rng.normal(size=(40, *env.observation_space.shape))
    actions = rng.uniform(-1, 1, size=(40, *env.action_space.shape))
    np.savez(path, states=states, actions=actions, height=rng.random(40))
    main(["doctor", str(path), "--within", "height::0.5", "--task", env.spec.id, "--json"])
    assert "inferred" not in json.dumps(json.loads(capsys.readouterr().out)["spaces"])


@pytest.mark.parametrize("text", ["heat", "heat:1", "heat:1:2:3", "heat:a:b"])
def test_words_that_are_no_limit(text):
    with pytest.raises(ValueError, match="name:low:high"):
        parse_within(text)


def test_words_that_are_limits():
    assert parse_within("temperature::335").high == 335.0
    assert parse_within("2:-1:").signal == 2
    assert parse_limits(["heat:0:1", "cold::1"]).num_costs == 3


@pytest.mark.slow
@pytest.mark.skipif(browser.PROGRAM is None, reason="no chromium here: apt-get install chromium")
def test_the_page_fits_and_asks_for_nothing(good, tmp_path):
    found = examine(as_log(good), constraint=LIMIT, quantifiers=["FeatureRegression"])
    (tmp_path / "page.html").write_text(render(found))
    with browser.chromium() as opened:
        for width in (390, 1100):
            with window(opened, width) as page:
                page.open(tmp_path / "page.html")
                assert page.problems == []
                assert page.value("document.documentElement.scrollWidth") <= width
                assert page.find("figure svg").count() == 4
