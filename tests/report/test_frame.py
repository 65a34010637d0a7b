"""Episodes of many runs as one data frame."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import safexp
from support.run_folders import MakeRun


def test_all_episodes_with_their_settings(make_run: MakeRun, tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="needs the extra 'pandas'")
    make_run("a", episodes=30, method="bare", name="PPO alone", learner_options={"n_steps": 64})
    make_run("b", episodes=20, violate=2, seed=7)
    frame = safexp.read_runs(tmp_path)
    assert len(frame) == 50
    assert frame.groupby("label")["violated"].sum().to_dict() == {"PPO alone": 0, "mase": 10}
    assert set(frame.loc[frame["label"] == "mase", "seed"]) == {7}
    assert set(frame.loc[frame["label"] == "PPO alone", "learner_options.n_steps"]) == {64}
    assert set(frame["status"]) == {"finished"}
    assert frame["cost"].dtype.kind == "f" and set(frame["settings.cost"]) == {"cost"}
    assert safexp.read_runs(tmp_path / "a", tmp_path / "b").equals(frame)


def test_what_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="given no folder"):
        safexp.read_runs()
    with pytest.raises(safexp.RunFolderError):
        safexp.read_runs(tmp_path / "nowhere")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"a data frame of runs needs pandas: pip install 'safexp\[pandas\]'"):
        safexp.read_runs(tmp_path)
