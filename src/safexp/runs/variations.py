"""Settings of the runs of a sweep: combinations of varied settings, or a list of them, each with several seeds."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safexp.runs.config import OWN_LEARNERS, RunConfig
from safexp.runs.plugins import is_own

OF_THE_SHIELD = (
    *("quantifier", "quantifier_options", "calibrate", "calibration_options", "seed_data", "backup", "backup_options"),
    *("penalty", "largest_penalty", "moved_penalty", "replacement", "warm_start", "imitation"),
)
"""Settings that only `mase` uses, and user-defined methods may use."""


class SharedSettings(RunConfig):
    """Settings that the runs of a sweep share; they are checked only after they are varied."""

    def __post_init__(self) -> None:
        """Check nothing: a setting may be valid for one method and not for another."""


Choices = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]
"""Lists of values by setting, of which every combination is meant; or a list of settings."""


def variations(config: RunConfig, vary: Choices, seeds: int, out: Path) -> list[RunConfig]:
    """List the settings of every choice and every seed, counting up from that of `config`.

    Settings that a method ignores are left at their defaults, and what is then the same is run only once.

    Args:
        config: settings that all runs share.
        vary: lists of values by setting, {"penalty": [1, 2], "method": ["mase", "bare"]}, of which every combination is
            run; or a list of settings, [{"method": "mase", "penalty": 2}, {"method": "bare", "name": "PPO alone"}].
        seeds: number of seeds.
        out: parent folder of the run folders, which are named after the varied settings, or after their `name`.

    Example:
        >>> config = safexp.RunConfig(seed=1000)
        >>> configs = safexp.variations(config, {"method": ["mase", "bare"]}, seeds=2, out=Path("runs/both"))
        >>> [(config.method, config.seed) for config in configs]
        [('mase', 1000), ('mase', 1001), ('bare', 1000), ('bare', 1001)]
    """
    if seeds < 1:
        raise ValueError(f"seeds={seeds} must be at least 1.")
    found: dict[str, RunConfig] = {}
    for changes in _choices(vary):
        for seed in range(config.seed, config.seed + seeds):
            settings = {entry.name: getattr(config, entry.name) for entry in dataclasses.fields(config)}
            settings |= {**changes, "seed": seed}
            ignored = _ignored(settings["method"])
            used = RunConfig(**{name: value for name, value in settings.items() if name not in ignored})
            words = [f"{key}={_word(value)}" for key, value in changes.items() if key not in ignored]
            folder = "-".join([*([_word(changes["name"])] if changes.get("name") else words), str(seed)])
            key = json.dumps(used.settled().to_json(), sort_keys=True)
            found.setdefault(key, dataclasses.replace(used, out=out / folder))
    return list(found.values())


def read_choices(path: Path) -> list[dict[str, Any]]:
    """A list of settings from a JSON file.

    Raises:
        ValueError: if the file does not hold one.
    """
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(found, list) or not found or not all(isinstance(one, dict) for one in found):
        raise ValueError(f'{path} must hold a list of settings: [{{"method": "mase"}}, {{"method": "bare"}}].')
    return found


def _choices(vary: Choices) -> list[dict[str, Any]]:
    """Every choice as changed settings."""
    known = {entry.name for entry in dataclasses.fields(RunConfig)} - {"seed", "out"}
    single = not isinstance(vary, Mapping)
    for name in [name for one in vary for name in one] if single else vary:
        if name not in known:
            raise ValueError(f"vary has {name!r}, which is not a setting of a run: use {', '.join(sorted(known))}.")
    if isinstance(vary, Mapping):
        for name, values in vary.items():
            if not isinstance(values, list) or not values:
                raise ValueError(f"vary[{name!r}]={values!r} must be a list of one or more values.")
        return [dict(zip(vary, choice, strict=True)) for choice in itertools.product(*vary.values())]
    return [dict(one) for one in vary]


def _ignored(method: str) -> tuple[str, ...]:
    """Settings that a method does not use."""
    if method == "mase" or is_own(method):
        return ()
    return (*OF_THE_SHIELD, *(("learner",) if method in OWN_LEARNERS else ()))


def _word(value: Any) -> str:
    """A value as part of a folder's name."""
    return re.sub(r"[^\w.+-]+", "_", str(value)).strip("_")
