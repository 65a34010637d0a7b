"""The commands of the examples' pages, shortened, and the promise of the kiln's own quantifier."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safexp.cli import main
from safexp.quantifiers.base import Transitions
from safexp.runs import folder as run_folder

KILN = Path(__file__).parents[2] / "examples" / "kiln"


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(KILN)
    monkeypatch.setattr(sys, "path", [*sys.path, str(KILN)])


def commands() -> list[list[str]]:
    blocks = re.findall(r"```\n(.*?)```", (KILN / "README.md").read_text(), flags=re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("safexp ")]


@pytest.mark.slow
def test_the_kiln_is_fired_as_its_page_says(tmp_path: Path) -> None:
    trained = []
    for words in commands():
        command, *rest = words
        short = [word.replace("runs/", f"{tmp_path}/") for word in rest]
        if command == "train":
            short[short.index("--steps") + 1] = "560"
            trained.append(Path(short[short.index("--out") + 1]))
        assert main([command, *short]) == 0
    runs = [run_folder.read(path) for path in trained]
    assert {run.config.method for run in runs} == {"mase", "bare", "own:vented"}
    for run in runs:
        assert run.metrics[-1]["steps"] == 560
        assert run.episodes
        if run.config.method != "bare":
            assert run.metrics[-1]["violations"] == 0


@given(st.integers(0, 2**32 - 1))
def test_slopes_never_miss_what_they_were_promised(seed: int) -> None:
    from own import Slopes

    rng = np.random.default_rng(seed)
    slopes = rng.uniform(0.0, 1.0, 4)
    centre, sign = rng.uniform(0.0, 1.0, 4), rng.choice([-1.0, 1.0], 4)

    def cost(inputs: np.ndarray) -> np.ndarray:
        return np.clip(0.5 + (slopes * sign * np.abs(inputs - centre)).sum(axis=-1) / 4, 0.0, 1.0)

    quantifier = Slopes((slopes / 4).tolist(), noise=0.02, capacity=50)
    logged, asked = rng.uniform(0.0, 1.0, (60, 4)), rng.uniform(0.0, 1.0, (5, 7, 4))
    nothing = quantifier.predict(asked[:, 0, :2], asked[:, :, 2:])
    assert nothing[0].tolist() == nothing[1].tolist() == np.full((5, 7), 0.5).tolist()
    noisy = np.clip(cost(logged) + rng.uniform(-0.01, 0.01, 60), 0.0, 1.0)
    quantifier.fit(Transitions(logged[:, :2], logged[:, 2:], noisy))
    asked[:, :, :2] = asked[:, :1, :2]  # one state for all actions of a row
    mean, width = quantifier.predict(asked[:, 0, :2], asked[:, :, 2:])
    assert np.all(np.abs(mean - cost(asked)) <= width + 1e-12)
    again = Slopes(**quantifier.settings())
    again.restore(quantifier.state())
    np.testing.assert_array_equal(again.predict(asked[:, 0, :2], asked[:, :, 2:])[0], mean)
