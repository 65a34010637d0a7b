"""The table of a report in LaTeX, for a paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from safexp.report.groups import by_task, group_runs
from safexp.report.summary import GroupSummary, summarise_group
from safexp.runs.folder import Run

HEAD = r"""\begin{tabular}{lrrrr}
\toprule
Method & Return & Violations & Stops & Own actions \\
"""

SPECIAL = {
    "\\": r"\textbackslash{}",
    **{char: f"\\{char}" for char in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "≤": r"$\le$",
    "−": "$-$",
    "γ": r"$\gamma$",
    "δ": r"$\delta$",
    "é": r"\'e",
}
"""Characters that LaTeX would not print as they are."""


def write_latex(path: Path, runs: Sequence[Run]) -> None:
    """Write a table with a row for each method, which needs the package booktabs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(latex_table(runs))


def latex_table(runs: Sequence[Run]) -> str:
    """The table: return with standard deviation over seeds, violations, stops and own actions of each method."""
    lines = []
    for task, groups in by_task(group_runs(runs)).items():
        lines.append(rf"\midrule \multicolumn{{5}}{{l}}{{{escaped(task)}}} \\")
        lines += [f"{escaped(group.name)} & {_cells(summarise_group(group))} \\\\" for group in groups]
    return HEAD + "\n".join(lines) + "\n\\bottomrule\n\\end{tabular}\n"


def escaped(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return "".join(SPECIAL.get(char, char) for char in text)


def _cells(found: GroupSummary) -> str:
    deviation = "" if found.deviation is None else rf" \pm {found.deviation:.2f}"
    shown = "--" if found.final_return is None else f"${found.final_return:.2f}{deviation}$"
    violations = f"{found.violations:,} of {found.episodes:,}"
    return " & ".join([shown, violations, _percent(found.final_stops), _percent(found.own_actions)])


def _percent(share: float | None) -> str:
    return "--" if share is None else rf"{100 * share:.1f}\,\%"
