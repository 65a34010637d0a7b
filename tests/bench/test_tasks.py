"""The measurements themselves: their rows, not their numbers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from safexp.bench.tasks import measure


def test_one_row_for_each_case() -> None:
    rows = measure(robots=["Point"], layouts=["Static", "Goal1"], batches=[1, 4], threads=[1], rounds=1)
    assert [(row["task"], row["batch"], row["threads"]) for row in rows] == [
        ("Point Static", 1, 1),
        ("Point Static", 4, 1),
        ("Point Goal1", 1, 1),
        ("Point Goal1", 4, 1),
    ]
    for row in rows:
        assert row["steps_per_second"] > 0 and row["physics_steps_per_second"] > 0
        assert row["reset_microseconds"] > 0 and row["lone_reset_microseconds"] > 0
    json.dumps(rows)


STAND_IN = """
from types import SimpleNamespace

class Env:
    steps, done, task = 0, False, SimpleNamespace(num_steps=1000)
    def reset(self, seed=None): self.steps = 0
    def step(self, action): self.steps += 1; print("chatter"); sum(range(1000))

def make(name):
    if "Car" in name: raise RuntimeError("no such robot")
    return SimpleNamespace(unwrapped=Env())
"""


def test_the_peer_is_stepped_in_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "safety_gymnasium.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    few = {"batches": [2], "threads": [1], "rounds": 1, "peer": Path(sys.executable)}
    static, goal = measure(["Point"], ["Static", "Goal0"], **few)
    assert "times_peer" not in static, "it has no such task"
    assert goal["peer_steps_per_cpu_second"] > 0
    ratio = goal["steps_per_cpu_second"] / goal["peer_steps_per_cpu_second"]
    assert goal["times_peer"] == pytest.approx(ratio, rel=0.05, abs=0.01)
    with pytest.raises(ValueError, match="could not step SafetyCarGoal0-v0: RuntimeError: no such robot"):
        measure(["Car"], ["Goal0"], **few)
