"""Which commits made a run: recorded where it runs from a checkout, and no reason to refuse to go on."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from safexp.runs import commit as commits
from safexp.runs import folder as run_folder
from safexp.runs.config import RunConfig
from safexp.runs.run import run
from support.runs import interrupted_after

SETTINGS = {"num_envs": 4, "learner": "TRPO", "learner_options": {"n_steps": 32}}


def git(folder, *words):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout that the code seems to run from."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "commit.py").write_text("1\n")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    monkeypatch.setattr(commits, "__file__", str(folder / "commit.py"))
    return folder


def test_the_commit_is_told_and_whether_the_code_differs_from_it(checkout):
    first = git(checkout, "rev-parse", "HEAD").strip()
    assert commits.current_commit() == first
    (checkout / "commit.py").write_text("2\n")
    assert commits.current_commit() == f"{first}-dirty"


def test_the_checkout_of_another_project_is_none_of_ours(checkout, monkeypatch):
    installed = checkout / ".venv"
    installed.mkdir()
    (installed / "commit.py").touch()
    monkeypatch.setattr(commits, "__file__", str(installed / "commit.py"))
    assert commits.current_commit() is None


def test_without_git_there_is_none(checkout, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert commits.current_commit() is None


def versions(folder: Path) -> dict[str, str]:
    return json.loads((folder / run_folder.CONFIG).read_text())["versions"]


def test_a_run_records_every_commit_that_it_went_on_with(tmp_path, monkeypatch):
    def at(commit):
        monkeypatch.setattr(run_folder, "current_commit", lambda: commit)

    at("aaa")
    folder = run(RunConfig(**SETTINGS, steps=384, out=tmp_path / "run"))
    assert versions(folder) == run_folder.versions() | {"commit": "aaa"}
    longer = RunConfig(**SETTINGS, steps=768, out=folder)
    at("bbb")
    with interrupted_after(4):
        run(longer, resume=True)
    assert versions(folder)["commit"] == "aaa bbb"
    run(longer, resume=True)
    assert versions(folder)["commit"] == "aaa bbb"


def test_what_began_without_a_known_commit_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder, "current_commit", lambda: None)
    folder = run(RunConfig(**SETTINGS, steps=384, out=tmp_path / "run"))
    run(RunConfig(**SETTINGS, steps=512, out=folder), resume=True)
    assert versions(folder) == run_folder.versions()
    monkeypatch.setattr(run_folder, "current_commit", lambda: "ccc")
    run(RunConfig(**SETTINGS, steps=640, out=folder), resume=True)
    assert versions(folder)["commit"] == "unknown ccc"
