"""Behaviour cloning: supervised regression of a policy onto logged actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch as th
from numpy.typing import NDArray
from torch import Tensor

PASSES, LEAST_STEPS = 20, 1000
"""Passes through the log, or more for at least this many gradient steps."""

BATCH, RATE = 256, 1e-3
"""Rows of a gradient step, and the first learning rate, which falls linearly to 0."""


class Cloned(NamedTuple):
    """Mean loss on the log before and after cloning."""

    before: float
    after: float


def clone(loss: Callable[[Any], Tensor], parameters: Sequence[Tensor], rows: int, rng: np.random.Generator) -> Cloned:
    """Minimise the mean of a `loss` of logged rows, a function from their indices (k,) to (k,), by Adam."""
    before = _mean(loss, rows)
    optimizer = th.optim.Adam(parameters, RATE)
    batches = max(rows // BATCH, 1)
    total = max(PASSES * batches, LEAST_STEPS)
    order: list[NDArray[np.int64]] = []
    for step in range(total):
        order = order or np.array_split(rng.permutation(rows), batches)
        optimizer.param_groups[0]["lr"] = RATE * (1 - step / total)
        optimizer.zero_grad()
        loss(th.as_tensor(order.pop())).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    optimizer.zero_grad()
    return Cloned(before, _mean(loss, rows))


@th.no_grad()
def _mean(loss: Callable[[Any], Tensor], rows: int) -> float:
    return float(loss(slice(None)).mean()) if rows else 0.0
