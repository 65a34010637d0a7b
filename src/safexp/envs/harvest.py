"""Executed steps of an epoch as transitions for a quantifier."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp.core.encoding import ActionSpace, encode_actions
from safexp.envs.recording import Harvest
from safexp.quantifiers.base import Transitions, rows_of


def harvest_of(steps: Iterable[tuple[NDArray[Any], ...]], action_space: ActionSpace) -> Harvest:
    """Transitions of vector steps, and the thresholds of their costs.

    A step is a tuple of columns of n rows: states, executed actions, costs, thresholds, episodes, signals, next states
    and, if the task reports them, margins. Rows whose signals are unknown, as in a first state, are left out.
    """
    columns = [np.concatenate(parts) for parts in zip(*steps, strict=True)]
    states, actions, costs, thresholds, episodes, signals, following, *margins = columns
    told = Transitions(
        states,
        encode_actions(action_space, actions),
        costs,
        margins[0] if margins else None,
        episodes,
        signals if signals.shape[1] else None,
        following if following.shape[1] else None,
    )
    known = np.isfinite(states).all(axis=1)
    return Harvest(told, thresholds) if known.all() else Harvest(rows_of(told, known), thresholds[known])
