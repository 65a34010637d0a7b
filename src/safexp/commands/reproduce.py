"""`safexp reproduce`."""

from __future__ import annotations

from collections.abc import Callable


def reproduce() -> int:
    """Reproduce the paper: `grid-world` (Table 3), `glm` (its theorems), `safety-gym` (its figures); or our studies."""
    raise ValueError(f"name a study to reproduce: safexp reproduce {', '.join(reproductions())}.")


def reproductions() -> dict[str, Callable[..., int]]:
    """Commands of the studies, by name."""
    from safexp.studies import glm_regret, goal1, grid_world_table, instantaneous, pendulum, swimmer
    from safexp.studies.field import command as field
    from safexp.studies.safety_gym import command

    return {
        "grid-world": grid_world_table.main,
        "glm": glm_regret.main,
        "safety-gym": command.main,
        "safety-gym-results": command.results_main,
        "instantaneous": instantaneous.main,
        "pendulum": pendulum.main,
        "goal1": goal1.main,
        "swimmer": swimmer.main,
        "field": field.main,
    }
