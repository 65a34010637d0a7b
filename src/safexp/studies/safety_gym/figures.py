"""The paper's Figures 2 to 4 from the study's results."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from matplotlib.figure import Figure

from safexp.report.figures import draw_converged, draw_curves, save_figures
from safexp.report.groups import RunGroup, by_task
from safexp.studies.safety_gym.comparison import Selection
from safexp.studies.safety_gym.study import ENTRIES, FIGURE_3
from safexp.studies.safety_gym.tables import label, task_label

NOT_IN_FIGURE_2 = ("early-termination", "mase-fallback")
FIGURE_4 = ("early-termination", "mase-published", "mase", "mase-fallback")


def write_study_figures(folder: Path, selection: Selection, epochs: int, figure_3: Selection) -> list[Path]:
    """Write the figures that there are runs for, and return their files.

    curves.* is Figure 2, early-termination.* Figure 4, both with ± one standard deviation and as *-iqm.* with the
    inter-quartile mean. boxes.* is like Figure 3, of the last tenth of the epochs; figure-3.* is Figure 3 itself.
    """
    groups, longest = _groups(selection, epochs), _groups(figure_3, FIGURE_3)
    names = dict.fromkeys([*map(label, ENTRIES), *(group.name for group in groups)])  # the same style in every figure
    drawn_as = {name: index for index, name in enumerate(names)}
    drawings: dict[str, Figure] = {}
    for name, members in [
        ("curves", [group for group in groups if group.name not in _labels(NOT_IN_FIGURE_2)]),
        ("early-termination", [group for group in groups if group.name in _labels(FIGURE_4)]),
    ]:
        if members and (name == "curves" or any(group.name == label("early-termination") for group in members)):
            drawings[name] = draw_curves(by_task(members), drawn_as)
            drawings[f"{name}-iqm"] = draw_curves(by_task(members), drawn_as, middle=True)
    drawings |= {
        name: draw_converged(by_task(found), drawn_as)
        for name, found in [("boxes", groups), ("figure-3", longest)]
        if found
    }
    return save_figures(folder, drawings, formats=("png", "pdf"))


def _groups(selection: Selection, epochs: int) -> list[RunGroup]:
    return [
        RunGroup(
            f"{task_label(task)}, {epochs:,} epochs", label(method), tuple(result.run(epochs) for result in results)
        )
        for (task, method), results in selection.items()
    ]


def _labels(methods: Collection[str]) -> set[str]:
    return {label(method) for method in methods}
