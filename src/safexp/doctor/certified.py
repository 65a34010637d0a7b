"""Actions that the recommended shield would certify: logged and random ones by the size of the limit; first states."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from gymnasium import spaces

from safexp.core.arrays import Array, Flags
from safexp.core.encoding import encode_actions
from safexp.core.findings import Finding, listed, percent
from safexp.doctor.subject import LimitedSignals
from safexp.quantifiers import Calibrated

FACTORS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 2.0)
"""Limits to try, as multiples of the given ones' distance from the signal's median."""

MOST_STATES, FRESH = 1000, 32
"""Numbers of logged states, and of random actions in each."""

LITTLE, FIRST = 0.5, 0.95
"""Shares of certified logged actions, and of first states with a certified action, below which there is a caution."""


@dataclass(frozen=True)
class Certified:
    """Certified actions.

    Attributes:
        factors: limits as multiples of the given ones' distance from the signal's median.
        logged: share of certified logged actions, for each factor.
        fresh: share of certified actions among uniform random ones in logged states.
        first_states: number of first states of episodes in the log.
        first_certified: number of them with a certified action at the given limits.
    """

    factors: tuple[float, ...]
    logged: tuple[float, ...]
    fresh: tuple[float, ...]
    first_states: int
    first_certified: int


def examine_certified(
    subject: LimitedSignals, model: Calibrated, space: spaces.Box | spaces.Discrete, seed: int = 0
) -> Certified:
    """Apply a fitted model to logged and random actions."""
    rng = np.random.default_rng(seed)
    data, count = subject.data, len(subject.data.costs)
    rows = np.sort(rng.permutation(count)[:MOST_STATES])
    logged = _limits_kept(subject, model, data.states[rows], data.actions[rows][:, None])
    fresh = _limits_kept(subject, model, data.states[rows], _fresh(space, len(rows), rng))
    episodes = subject.episodes
    first = np.flatnonzero(np.concatenate([[True], episodes[1:] != episodes[:-1]]))[:MOST_STATES]
    own = np.concatenate([data.actions[first][:, None], _fresh(space, len(first), rng)], axis=1)
    at_first = _limits_kept(subject, model, data.states[first], own)[FACTORS.index(1.0)]
    return Certified(
        FACTORS,
        tuple(logged.mean(axis=(1, 2)).tolist()),
        tuple(fresh.mean(axis=(1, 2)).tolist()),
        len(first),
        int(at_first.any(axis=1).sum()),
    )


def certified_findings(subject: LimitedSignals, found: Certified) -> list[Finding]:
    """Findings on the certified actions."""
    signal = listed(subject.names)
    at = found.factors.index(1.0)
    logged, fresh = found.logged[at], found.fresh[at]
    facts = f"Certified: {percent(logged)} of logged actions, and {percent(fresh)} of random ones in logged states."
    if logged == 0 and fresh == 0:
        shares = Finding(
            f"{signal}, certified",
            "stop",
            facts,
            "A shield from this log stops immediately.",
            "See the findings on the model and on calibration.",
        )
    elif logged < LITTLE:
        shares = Finding(
            f"{signal}, certified",
            "caution",
            facts,
            "The shield would interfere with actions that the logged controller took safely: its widths are large "
            "compared with the distance to the limits.",
            "Log more episodes, above all bolder ones.",
        )
    else:
        shares = Finding(f"{signal}, certified", "ok", facts)
    share = found.first_certified / max(found.first_states, 1)
    told = f"{found.first_certified:,} of {found.first_states:,} first states have a certified action."
    first = Finding(f"{signal}, first states", "ok", told)
    if share < FIRST and shares.severity != "stop":
        first = Finding(
            f"{signal}, first states",
            "caution",
            told,
            "From the others an episode cannot start under the shield alone.",
            "Give the controller that drove the log as seed_controller (Shield, MASE), or as backup of rehearse: it "
            "drives until something is certified.",
        )
    return [shares, first]


def _fresh(space: spaces.Box | spaces.Discrete, count: int, rng: np.random.Generator) -> Array:
    """Encoded actions (count, m, da): all discrete ones, or uniform random ones of a box."""
    if isinstance(space, spaces.Discrete):
        return np.broadcast_to(np.eye(int(space.n)), (count, int(space.n), int(space.n))).copy()
    drawn = rng.uniform(space.low, space.high, size=(count * FRESH, *space.shape))
    return encode_actions(space, drawn).reshape(count, FRESH, -1)


def _limits_kept(subject: LimitedSignals, model: Calibrated, states: Array, actions: Array) -> Flags:
    """Whether actions (n, m, da) are certified, (factors, n, m)."""
    mean, width = (np.asarray(part) for part in model.interval(states, actions))
    sides = subject.constraint.sides
    middle = np.median(subject.after, axis=0)[sides.which]
    kept = []
    for factor in FACTORS:
        limits = middle + factor * (sides.reference - middle)
        outer = sides.sign * mean[..., sides.which] + width[..., sides.which]
        kept.append((outer <= sides.sign * limits + 1e-9 * sides.scale).all(axis=-1))
    return np.stack(kept)
