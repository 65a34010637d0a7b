"""Advice: further episodes that would help, and Python code that builds the recommended shield."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from safexp.constraints import Within
from safexp.core.arrays import Controller
from safexp.core.findings import listed, percent
from safexp.core.signals import SignalSource, name_of_signal
from safexp.doctor.actions import FEW, NEARLY, Actions
from safexp.doctor.coverage import ROOM, CoverageCheck, calibrated_model
from safexp.doctor.models import NOTABLE, Choice, Models
from safexp.doctor.nearness import STEPS_AWAY, Nearness
from safexp.quantifiers import Calibrated, Rollout

NEAR_ENOUGH = 0.8
"""Share of the way to a limit from which a log needs no bolder episodes there; within a large step is enough too."""

BOLD = 0.2
"""Recommended share of bolder episodes: as many as calibration holds out together."""

STEEP = 1.25
"""Ratio of a model's error with half of the episodes to that with all from which more episodes help."""


@dataclass(frozen=True)
class Need:
    """Further episodes that would help: number (None if it does not matter), kind, and reason."""

    episodes: int | None
    kind: str
    why: str


def needs_of(
    actions: Actions,
    nearness: Sequence[Nearness],
    coverages: Sequence[CoverageCheck],
    models: Sequence[Models],
    episodes: int,
) -> list[Need]:
    """Further episodes that would help."""
    found = []
    needed = max((one.needed for one in coverages), default=0)
    short = max((one.needed - one.stretches for one in coverages), default=0)
    if short > 0:
        found.append(Need(short, "like these", f"{needed} are needed for 95 % confidence"))
    for one in nearness:
        if one.way[-1] < NEAR_ENOUGH and one.nearest_in_steps > STEPS_AWAY:
            side = "upper" if one.side == "high" else "lower"
            found.append(
                Need(
                    max(math.ceil(BOLD * max(needed, episodes)), 1),
                    f"that are bolder, towards the {side} limit of {one.signal}",
                    f"the log went {percent(max(one.way[-1], 0.0))} of the way",
                )
            )
    if actions.open < NEARLY:
        found.append(
            Need(
                max(needed, episodes),
                "with exploration noise on the actions",
                f"only {percent(actions.open)} of their variance is independent of the state",
            )
        )
    rare = [*actions.never, *actions.few]
    if rare:
        found.append(
            Need(
                None,
                f"with the actions {listed(rare)}, each at least {FEW} times, where that is safe",
                "actions that were not taken are not certified",
            )
        )
    halves = [one.half for one in models if one.best.scores["bold"].error > NOTABLE]
    if max(halves, default=1.0) > STEEP:
        found.append(
            Need(
                episodes,
                "like these",
                f"with half of the episodes the bold error was {max(halves):.3g} times as large: twice as many should "
                "narrow the widths",
            )
        )
    return found


def shield_lines(
    parts: Sequence[tuple[Within, Choice, Calibrated]],
    *,
    path: str | None,
    observation_space: spaces.Space[Any],
    action_space: spaces.Box | spaces.Discrete,
    task: str | None,
    note: str = "",
) -> str:
    """Python code that builds and tries the recommended shield; `note` is a comment on its action space."""
    used = {"Calibrated", "ChangeModel", "Shield", "Within"} | {choice.kind for _, choice, _ in parts}
    if len(parts) > 1:
        used |= {"AllOf", "PerCost"}
    names = sorted(used)
    if path is not None:
        names.append("read_log")
    limits = [_limit(constraint) for constraint, _, _ in parts]
    models = [_model(choice, fitted) for _, choice, fitted in parts]
    imports = ["import gymnasium"] if task else ["import numpy as np", "from gymnasium import spaces"]
    lines = [
        *imports,
        f"from safexp import {', '.join(names)}",
        "",
        f"log = read_log({path!r})" if path is not None else "# log: the Log that was examined",
        *_assigned("constraint", "AllOf", limits),
        *_assigned("quantifier", "PerCost", models),
        *_space_lines(observation_space, action_space, task, note),
        "shield = Shield(quantifier, observations, actions, constraint=constraint)",
        "shield.fit(log)",
    ]
    return "\n".join(lines) + "\n"


def lookahead_lines(
    constraints: Sequence[Within],
    horizon: int,
    *,
    controller: Controller | None,
    delta: float,
    path: str | None,
    observation_space: spaces.Space[Any],
    action_space: spaces.Box | spaces.Discrete,
    task: str | None,
    note: str = "",
) -> str:
    """Python code of a shield that looks ahead to a backup; without a `controller`, which the reader must add."""
    names = ["Backup", "Calibrated", "Rollout", "Shield", "Within", *(["read_log"] if path is not None else [])]
    several = len(constraints) > 1
    imports = ["import numpy as np", "import gymnasium" if task else "from gymnasium import spaces"]
    wait = "  # at least; until it has come to rest" if controller is None else ""
    lines = [
        *imports,
        f"from safexp import {', '.join(['AllOf', *names] if several else names)}",
        *_controller_lines(controller),
        f"log = read_log({path!r})" if path is not None else "# log: the Log that was examined",
        *_assigned("constraint", "AllOf", [_limit(one) for one in constraints]),
        f"quantifier = {_calibrated('Rollout()', calibrated_model(Rollout(), delta))}",
        f"backup = Backup(controller, horizon={horizon}){wait}",
        *_space_lines(observation_space, action_space, task, note),
        "shield = Shield(quantifier, observations, actions, constraint=constraint, backup=backup)",
        "shield.fit(log)",
    ]
    return "\n".join(lines) + "\n"


def _controller_lines(controller: Controller | None) -> list[str]:
    """The backup controller: its import, if it can be imported; a function to complete if there is none."""
    if controller is None:
        return [
            "",
            "",
            "def controller(observations):  # of a batch (n, ...): the actions (n, ...) that bring the machine to rest",
            "    raise NotImplementedError",
            "",
            "",
        ]
    module, name = (getattr(controller, key, None) for key in ("__module__", "__qualname__"))
    if name is None or not name.isidentifier() or module in (None, "__main__"):
        return ["", "# controller: that of the Backup that was examined"]
    return [f"from {module} import {name}{'' if name == 'controller' else ' as controller'}", ""]


def _assigned(name: str, together: str, parts: Sequence[str]) -> list[str]:
    if len(parts) == 1:
        return [f"{name} = {parts[0]}"]
    return [f"{name} = {together}(", *(f"    {part}," for part in parts), ")"]


def _limit(constraint: Within) -> str:
    sources = [_source(source) for source in constraint.sources]
    signal = sources[0] if len(sources) == 1 else f"({', '.join(sources)})"
    given = [f"{name}={getattr(constraint, name)!r}" for name in ("low", "high", "scale")]
    return f"Within({', '.join([signal, *(one for one in given if not one.endswith('=None'))])})"


def _source(source: SignalSource) -> str:
    return name_of_signal(source) if callable(source) else repr(source)


def _model(choice: Choice, fitted: Calibrated) -> str:
    options = ", ".join(f"{name}={value!r}" for name, value in choice.options.items())
    return _calibrated(f"ChangeModel({choice.kind}({options}), inputs={choice.inputs!r})", fitted)


def _calibrated(inner: str, fitted: Calibrated) -> str:
    room = f", capacity={fitted.capacity}" if fitted.capacity > ROOM else ""
    return f"Calibrated({inner}, delta={fitted.delta!r}{room})"


def _space_lines(
    observation: spaces.Space[Any], action: spaces.Box | spaces.Discrete, task: str | None, note: str
) -> list[str]:
    if task:
        return [
            f"env = gymnasium.make({task!r})",
            "observations, actions = env.observation_space, env.action_space",
        ]
    comment = [f"# {note}"] if note else []
    return [f"observations = {_space(observation)}", *comment, f"actions = {_action_space(action)}"]


def _space(space: spaces.Space[Any]) -> str:
    if isinstance(space, spaces.Dict):
        inner = ", ".join(f"{key!r}: {_space(part)}" for key, part in space.spaces.items())
        return f"spaces.Dict({{{inner}}})"
    if isinstance(space, spaces.Discrete):
        return f"spaces.Discrete({int(space.n)}, start={int(space.start)})"
    if isinstance(space, spaces.Box):
        return f"spaces.Box(-np.inf, np.inf, {space.shape})"
    return f"spaces.{space}"


def _action_space(space: spaces.Box | spaces.Discrete) -> str:
    if isinstance(space, spaces.Discrete):
        return _space(space)
    dtype = np.dtype(space.dtype).name
    low, high = (f"np.array({end.tolist()!r}, np.{dtype})" for end in (space.low, space.high))
    return f"spaces.Box({low}, {high}, dtype=np.{dtype})"
