"""`safexp check`: the table, JSON, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from safexp.cli import main

OWN = """
import gymnasium as gym
import numpy as np
from support.cars import Road
gym.register("Road-v0", entry_point=Road)
def full_throttle(observations):
    return np.full((len(observations), 1), 4.0)
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "checked_package.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("own")
def test_one_table_and_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["check", "checked_package:Road-v0", "--constraint", "instantaneous", "--limit", "0.5", "--steps", "600"]
    assert main([*words, "--policy", "checked_package:full_throttle"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["check", "result", "found"]
    assert lines[-1] == "Good: no fault found."
    assert main([*words, "--task-options", '{"fault": "nan"}']) == 1
    said = capsys.readouterr().out
    assert "STOP" in said
    assert "Remedy: Fix the environment or its sensors." in " ".join(said.split())
    assert said.splitlines()[-1].startswith("Faults found")


@pytest.mark.usefixtures("own")
def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "checked_package:Road-v0", "--within", "x:-2:2", "--steps", "600", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["severity"] == "ok"
    assert {"topic", "severity", "found", "means", "remedy"} == set(found["findings"][0])


@pytest.mark.usefixtures("own")
def test_what_cannot_be_made_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "checked_package:Road-v0", "--task-options", '{"wheels": 3}']) == 2
    assert "cannot make task 'checked_package:Road-v0' with task_options={'wheels': 3}" in capsys.readouterr().err
    assert main(["check", "checked_package:Road-v0", "--policy", "checked_package:none"]) == 2
    assert "checked_package has no 'none'" in capsys.readouterr().err
