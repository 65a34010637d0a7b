"""Settings of a sweep: every combination of the varied settings, each with several seeds."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safexp.runs.config import RunConfig


def variations(config: RunConfig, vary: Mapping[str, Any], seeds: int, out: Path) -> list[RunConfig]:
    """Settings for every combination of the varied ones and every seed, counting up from that of `config`.

    Args:
        config: settings that all runs share.
        vary: lists of values by setting: {"penalty": [1, 2], "method": ["mase", "bare"]}.
        seeds: number of seeds.
        out: parent folder of the run folders, which are named after the varied settings.
    """
    if seeds < 1:
        raise ValueError(f"seeds={seeds} must be at least 1.")
    known = {entry.name for entry in dataclasses.fields(RunConfig)} - {"seed", "out"}
    for name, values in vary.items():
        if name not in known:
            raise ValueError(f"vary has {name!r}, which is not a setting of a run: use {', '.join(sorted(known))}.")
        if not isinstance(values, list) or not values:
            raise ValueError(f"vary[{name!r}]={values!r} must be a list of one or more values.")
    configs = []
    for choice in itertools.product(*vary.values()):
        changes = dict(zip(vary, choice, strict=True))
        for seed in range(config.seed, config.seed + seeds):
            name = "-".join([*(f"{key}={_word(value)}" for key, value in changes.items()), str(seed)])
            configs.append(dataclasses.replace(config, **changes, seed=seed, out=out / name))
    return configs


def _word(value: Any) -> str:
    """A value as part of a folder's name."""
    return re.sub(r"[^\w.+-]+", "_", str(value)).strip("_")
