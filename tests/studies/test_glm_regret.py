from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from safexp.studies import glm_regret
from safexp.studies.glm_regret import GLMStudy, glm_table, regret_exponent


def test_the_glm_table(tmp_path: Path) -> None:
    table = glm_table(GLMStudy(episodes=80, seeds=2, seed=0))
    tight, forced, paper = table.variants
    assert [len(variant.curves) for variant in table.variants] == [2, 2, 0]
    for curve in (*tight.curves, *forced.curves):
        assert curve.violations == 0
        assert len(curve.regret) == len(curve.smallest_eigenvalue) == 80
        assert min(curve.regret) >= -1e-9
    assert paper.visits_needed > 20_000
    json.dumps(asdict(table))
    with Console(record=True, width=80) as console:
        console.print(glm_regret.rich_table(table))
    assert "certifies nothing" in console.export_text()
    glm_regret.write_figure(table, tmp_path / "regret.png")
    assert (tmp_path / "regret.png").stat().st_size > 10_000


def test_the_exponent_of_a_power() -> None:
    t = np.arange(1.0, 4001.0)
    assert regret_exponent(np.diff(t**0.5, prepend=0.0)) == pytest.approx(0.5)
    assert regret_exponent(np.zeros(100)) == 0.0


def test_a_study_of_few_episodes_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 40 episodes"):
        GLMStudy(episodes=10)
