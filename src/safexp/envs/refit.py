"""End of an epoch: the quantifier learns from what was executed (Algorithm 1, line 15)."""

from __future__ import annotations

import logging
from typing import Any

from safexp.envs.guard import Guard
from safexp.envs.guarded import untested
from safexp.records.coverage import Coverage, measure, total
from safexp.records.input_shift import InputSample
from safexp.records.statistics import exact_interval

log = logging.getLogger("safexp")


class Refit:
    """Refit of a guard's quantifier at the end of every epoch, with its coverage before each.

    Args:
        guard: the environments.
        seed: seed of the sample of inputs.
    """

    def __init__(self, guard: Guard, seed: int | None) -> None:
        self.guard = guard
        self.coverage: list[Coverage] = []
        self.inputs = InputSample(seed or 0)
        self._latest: list[Coverage] = []
        self._reached: dict[str, Any] = guard.frontier.take()
        self._untested = untested(guard.constraint, guard.shield.quantifier)
        self._refuted = False

    def learn(self) -> bool:
        """Update the quantifier and the backup from the steps since the last call; False if nothing has changed."""
        guard, quantifier = self.guard, self.guard.shield.quantifier
        self._latest = []
        self._reached = guard.frontier.take()
        harvest = guard.harvest()
        if harvest is None:
            return False
        self.inputs.add(harvest.transitions.states, harvest.transitions.actions)
        if not guard.shielding:
            return False
        with guard.span("quantifier"):
            self._latest = [measure(quantifier, *harvest)]  # before it learns from them
            quantifier.update(harvest.transitions)
            guard.shield.refresh()
        self.coverage += self._latest
        if self._untested and self._latest[0].rows:
            self._untested = False
            _tell_misses(self._latest[0])
        elif not (self._refuted or self._untested or quantifier.looks_ahead):
            self._refuted = _tell_refuted(self._latest[0], quantifier.delta)
        guard.backup.learn()
        return True

    def metrics(self) -> dict[str, Any]:
        """Coverage of the quantifier before it last learned, progress of exploration, and metrics of the backup."""
        guard = self.guard
        counts = {f"coverage_{name}": count for name, count in total(self._latest)._asdict().items()}
        vouched = guard.shield.vouched
        promises = {} if vouched is None else vouched.metrics()
        drills = guard.drills.metrics() if guard.backup.horizon else {}
        told = {**self._reached, **guard.backup.metrics(), **drills, **promises}
        return {**counts, "delta": guard.shield.quantifier.delta, **told}


def _tell_misses(found: Coverage) -> None:
    """Log the miss rate of an uncalibrated quantifier in its first epoch."""
    log.warning(
        "uncalibrated widths missed %d of the first epoch's %d costs (%.1f%%), and covered %d of %d near the limit: "
        "Calibrated(...) measures them beforehand",
        found.exceeded,
        found.rows,
        100 * found.exceeded / max(found.rows, 1),
        found.near_covered,
        found.near,
    )


def _tell_refuted(found: Coverage, delta: float) -> bool:
    """Log a warning if an epoch refutes the widths near the limit: more than δ are missed, with 95% confidence."""
    missed = found.near - found.near_covered
    if not missed or exact_interval(missed, found.near)[0] <= delta:
        return False
    log.warning(
        "the widths missed %d of %d costs near the limit in one epoch, where delta allows %.3g%%: do not trust this "
        "quantifier here. Limit a measured signal (Within), give a bolder log, or look ahead to a backup",
        missed,
        found.near,
        100 * delta,
    )
    return True
