"""The table in LaTeX."""

from __future__ import annotations

from safexp.report.latex import escaped, latex_table
from support.run_folders import MakeRun


def test_a_row_for_each_method(make_run: MakeRun) -> None:
    runs = [
        make_run("a", method="bare", name="PPO & co", violate=2),
        make_run("b", paid=1.0),
        make_run("c", paid=2.0, seed=1),
    ]
    lines = latex_table(runs).splitlines()
    assert lines[0] == r"\begin{tabular}{lrrrr}"
    assert lines[-1] == r"\end{tabular}"
    assert r"\midrule \multicolumn{5}{l}{safexp/PlanarRobot-v0} \\" in lines
    assert r"PPO \& co & $2.00$ & 60 of 120 & 0.0\,\% & 96.0\,\% \\" in lines
    assert r"mase & $1.50 \pm 0.50$ & 0 of 240 & 0.0\,\% & 96.0\,\% \\" in lines


def test_special_characters_are_escaped() -> None:
    assert escaped("a_b $5 50% {x} #1 ^~") == r"a\_b \$5 50\% \{x\} \#1 \textasciicircum{}\textasciitilde{}"
    assert escaped("Sauté ≤ \\") == r"Saut\'e $\le$ \textbackslash{}"
