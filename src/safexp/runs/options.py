"""Checks of options by name against the constructor that takes them."""

from __future__ import annotations

import difflib
import inspect
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm

from safexp.mase.learner import build_policy


def check_options(learner: type[BaseAlgorithm], options: Any) -> dict[str, Any]:
    """Check a learner's options, and replace names of classes by the classes."""
    given = {name: options[name] for name in options if name in ("env", "seed", "verbose", "tensorboard_log")}
    if given:
        raise ValueError(f"learner_options={given!r} are set by the run itself: leave them out.")
    return build_policy(check_settings(learner, dict(options)), given={})


def check_settings(owner: type, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings if the constructor takes them; raise `ValueError` otherwise."""
    known = options_of(owner)
    for name in settings:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"it takes {', '.join(known)}."
            raise ValueError(f"{owner.__name__} has no option {name!r}: {hint}")
    return settings


def options_of(owner: type) -> list[str]:
    """Names of a constructor's arguments, including those it passes on to its base class."""
    names: list[str] = []
    for kind in owner.__mro__:
        if "__init__" in vars(kind):
            parameters = inspect.signature(kind.__init__).parameters.values()  # type: ignore[misc]
            passed_on = [found for found in parameters if found.kind is found.VAR_KEYWORD]
            names += [found.name for found in parameters if found.name != "self" and found not in passed_on]
            if not passed_on:
                break
    return names
