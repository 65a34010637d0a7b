"""Tuned settings by name: those that come with safexp, and the files that tuning writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SHIPPED = Path(__file__).parent / "presets"
"""Folder of the tuned settings that come with safexp."""


def preset_names() -> list[str]:
    """Names of the tuned settings that come with safexp."""
    return sorted(path.stem for path in SHIPPED.glob("*.json"))


def preset(name: str) -> dict[str, Any]:
    """The settings of this name, or in the file of this path, as arguments of `RunConfig`.

    Example:
        >>> from safexp.runs.config import RunConfig
        >>> RunConfig(**preset("planar-robot-ppo")).learner
        'PPO'

    Raises:
        ValueError: if there are none.
    """
    path = Path(name) if name.endswith(".json") else SHIPPED / f"{name}.json"
    if not path.is_file():
        known = ", ".join(preset_names())
        raise ValueError(f"there is no preset {name!r}: use {known}, or the path of a tuned.json.")
    try:
        settings = json.loads(path.read_text())["settings"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} does not hold tuned settings: {error!r}.") from error
    if not isinstance(settings, dict) or not settings:
        raise ValueError(f"{path} holds no settings: no trial was without a violation.")
    return settings
