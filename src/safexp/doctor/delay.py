"""Delay of the actions' effect on a signal, and whether looking one step ahead is enough to stop it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.core.findings import Finding, percent

FURTHEST = 30
"""Largest number of steps examined."""

MOST_ROWS = 8000
"""Number of rows examined, in whole episodes."""

SURE = 4.0
"""Number of standard errors from which an effect is significant."""

CLEAR = 0.1
"""Smallest clear effect of one standard deviation of an action, as a share of the signal's usual change."""

OVER = 0.1
"""Share of the largest effect below which an action has stopped acting."""

HISTORY = 5
"""Number of earlier actions that also count as state: their effect may still be to come."""

ALL = 0.99
"""Share of logged states in which a signal must be stoppable within one step for one step to be enough."""


@dataclass(frozen=True)
class Response:
    """Response of a signal to an action in the following steps.

    Attributes:
        signal: name of the signal.
        action: entry of the action with the largest effect.
        effects: effect of one standard deviation of the action on the change in each following step, with all later
            actions held fixed, in the signal's units.
        errors: standard errors of the effects.
        usual: standard deviation of the signal's changes.
        dead: number of steps before it clearly acts; None if there is no clear effect.
        lasts: last step in which it still acts; `horizon` if it continues to act.
        first: share of the first step in the largest total effect.
        stoppable: share of logged states from which some logged action stops the signal from moving further outwards
            in the next step, on the worst side.
        stop: number of steps within which 99 % of logged states can be stopped by holding one action; `horizon` + 1 if
            they cannot.
        horizon: number of steps examined.
    """

    signal: str
    action: str
    effects: tuple[float, ...]
    errors: tuple[float, ...]
    usual: float
    dead: int | None
    lasts: int
    first: float
    stoppable: float
    stop: int
    horizon: int

    @property
    def one_step(self) -> bool:
        """Whether a certificate for one step is enough."""
        return self.dead == 0 and self.stoppable >= ALL

    @property
    def look_ahead(self) -> int:
        """Steps that a backup's certificate must reach at least; above `horizon` where that was not far enough."""
        return max(self.stop, self.lasts if self.lasts < self.horizon else self.horizon + 1)


class _Steps(NamedTuple):
    """Consecutive steps: standardised states with a one (n, d), actions (n, da), the signal before and after (n,).

    The states include the last `HISTORY` actions, so that an action is not taken for an earlier one like it.
    """

    states: Array
    actions: Array
    now: Array
    after: Array
    episodes: NDArray[np.int64]


def examine_delay(
    signal: str,
    states: Array,
    actions: Array,
    *,
    now: Array,
    after: Array,
    episodes: NDArray[np.int64],
    names: tuple[str, ...],
    signs: tuple[float, ...],
) -> Response | None:
    """Look at a signal (n,) before and after consecutive steps; `signs` are +1 for an upper limit, −1 for a lower.

    The change in the step k after (s, a) is regressed on s, a, all actions since, and the last ones before: the
    coefficient of a is its effect with the others held. None where there are too few steps in a row.
    """
    steps, columns = _prepared(states, actions, now, after, episodes)
    lengths = np.unique(steps.episodes, return_counts=True)[1]
    horizon = int(min(FURTHEST, np.median(lengths) // 3, len(steps.now) // (8 * max(len(columns), 1)) - 1))
    if horizon < 2 or not len(columns):
        return None
    fits = [_regress(steps, k) for k in range(horizon)]
    effects, errors = (np.array([fit[part] for fit in fits]) for part in (1, 2))  # (horizon, da)
    furthest = np.abs(np.cumsum(effects, axis=0)).max(axis=0)
    main = int(np.argmax(furthest))
    effect, error = effects[:, main], errors[:, main]
    sure = np.abs(effect) > SURE * error
    peak = float(np.abs(effect[sure]).max(initial=0.0))
    usual = float(np.std(after - now))
    acting = np.flatnonzero(sure & (np.abs(effect) >= CLEAR * usual))
    lasting = np.flatnonzero(sure & (np.abs(effect) >= OVER * peak))
    when = np.concatenate([_stopping(steps, fits, sign) for sign in signs], axis=1)
    return Response(
        signal,
        names[columns[main]],
        tuple(effect.tolist()),
        tuple(error.tolist()),
        usual,
        int(acting[0]) if len(acting) else None,
        int(lasting[-1]) + 1 if len(lasting) else 0,
        float(abs(effect[0]) / furthest[main]) if furthest[main] else 0.0,
        float((when == 1).mean(axis=0).min()),
        int(np.quantile(when, ALL, axis=0).max()),
        horizon,
    )


def delay_findings(found: Response | None, signal: str, resets: bool, horizon: int | None = None) -> list[Finding]:
    """What that means for a shield; with `resets` an episode can be stopped at any step without cost.

    `horizon` is that of the backup to which the shield looks ahead, if there is one.
    """
    topic = f"{signal}, delay"
    if found is None:
        return [
            Finding(
                topic,
                "caution",
                "There are too few consecutive steps to see how long an action acts.",
                "It is not known whether one step ahead is enough.",
                "Log longer episodes, with episode numbers.",
            )
        ]
    if found.one_step:
        return [
            Finding(
                topic,
                "ok",
                f"One step is enough: {found.action} acts in the step in which it is taken ({percent(found.first)} of "
                f"the furthest that it moves {signal}), and in {percent(found.stoppable)} of logged states some logged "
                "action keeps the signal from moving on outwards.",
            )
        ]
    ahead = f"more than {found.horizon}" if found.look_ahead > found.horizon else f"at least {found.look_ahead}"
    if horizon is not None:
        return [_ahead_finding(found, topic, horizon, ahead)]
    return [
        Finding(
            topic,
            "caution" if resets else "stop",
            f"One step is not enough: {_why(found)}.",
            "A certificate for the next step does not cover the steps after it: an action may be certified, and then "
            "every action may be too late."
            + (" Since an episode can be stopped at any step, that costs episodes, not violations." if resets else ""),
            f"Give a backup controller and certify this action followed by the backup, over {ahead} steps; or log a "
            "signal that reacts at once, such as the speed at which this one moves."
            + "".join(f" {one}" for one in _memory(found))
            + (
                ""
                if resets
                else " If an episode can be stopped at any step without harm, as in a simulator, add --resets."
            ),
        )
    ]


def _ahead_finding(found: Response, topic: str, horizon: int, ahead: str) -> Finding:
    """What it means for a shield that looks ahead to a backup with this horizon."""
    enough = horizon >= found.look_ahead
    return Finding(
        topic,
        "ok" if enough else "caution",
        f"One step is not enough: {_why(found)}.",
        f"The shield looks ahead to the backup, over {horizon} steps"
        + ("." if enough else f", and {ahead} are needed: a limit may be exceeded after them."),
        " ".join([*([] if enough else ["Give a longer horizon: until the backup has come to rest."]), *_memory(found)]),
    )


def _why(found: Response) -> str:
    stoppable = (
        f"from {percent(1 - found.stoppable)} of logged states it moves on outwards in the next step, whatever logged "
        "action is taken"
    )
    lasts = f"for {'more than ' if found.lasts >= found.horizon else ''}{found.lasts} steps"
    if found.dead is None:
        return (
            f"the effect of an action on {found.signal} is too small or too slow to be seen in the log (in none of "
            f"{found.horizon} steps is it over {percent(CLEAR)} of the usual change, though it may add up), and "
            f"{stoppable}"
        )
    if found.dead:
        return f"{found.action} moves {found.signal} only from step {found.dead + 1} on, and {stoppable}"
    if found.lasts > 1:
        first = f"in the first by {percent(found.first)} of all"
        return f"{found.action} moves {found.signal} {lasts}, {first}, and {stoppable}"
    return f"{found.action} acts at once, but not strongly enough: {stoppable}"


def _memory(found: Response) -> list[str]:
    """What the observation needs where actions are still on their way."""
    if not found.dead:
        return []
    last, they = ("the last action", "it has") if found.dead == 1 else (f"the last {found.dead} actions", "they have")
    return [
        f"Add {last} to the observation, unless it already shows what {they} set in motion, such as a speed: otherwise "
        "a model that looks ahead cannot know what is still to come."
    ]


def _prepared(
    states: Array, actions: Array, now: Array, after: Array, episodes: NDArray[np.int64]
) -> tuple[_Steps, NDArray[np.int64]]:
    """Some whole episodes, with inputs that vary alone; of choices the most frequent one is the reference."""
    rows = np.arange(len(now))
    if len(rows) > MOST_ROWS:
        numbers, first, counts = np.unique(episodes, return_index=True, return_counts=True)
        order = np.random.default_rng(0).permutation(len(numbers))
        some = order[: max(int((np.cumsum(counts[order]) <= MOST_ROWS).sum()), 1)]
        rows = np.sort(np.concatenate([np.arange(first[k], first[k] + counts[k]) for k in some]))[:MOST_ROWS]
    inputs = np.column_stack([states[rows], now[rows]])
    spread = inputs.std(axis=0)
    inputs = (inputs - inputs.mean(axis=0))[:, spread > 0] / spread[spread > 0]
    columns = np.flatnonzero(actions[rows].std(axis=0) > 0)
    chosen = actions[rows][:, columns]
    if len(columns) > 1 and np.array_equal(chosen.sum(axis=1), np.ones(len(rows))) and np.isin(chosen, (0, 1)).all():
        columns = np.delete(columns, chosen.sum(axis=0).argmax())
    taken, known = actions[rows][:, columns], np.arange(len(rows))
    history = min(HISTORY, int(np.median(np.unique(episodes[rows], return_counts=True)[1])) // 6)
    known = known[history:][episodes[rows][history:] == episodes[rows][: len(rows) - history]]
    earlier = [taken[known - k] for k in range(1, history + 1)]
    design = np.column_stack([inputs[known], *earlier, np.ones(len(known))])
    return _Steps(design, taken[known], now[rows][known], after[rows][known], episodes[rows][known]), columns


def _regress(steps: _Steps, k: int) -> tuple[Array, Array, Array]:
    """Weights of the change k steps later on all actions since (k + 1, da) and the state, flat; effects and errors."""
    first = np.arange(len(steps.now) - k)
    first = first[steps.episodes[first] == steps.episodes[first + k]]
    change = steps.after[first + k] - steps.now[first + k]
    size = steps.actions.shape[1]
    design = np.concatenate([*(steps.actions[first + j] for j in range(k + 1)), steps.states[first]], axis=1)
    gram = design.T @ design
    inverse = np.linalg.pinv(gram, rcond=1e-10, hermitian=True)
    weights = inverse @ (design.T @ change)
    left = change - design @ weights
    noise = float((left**2).sum()) / max(len(first) - len(weights), 1)
    spread = steps.actions.std(axis=0)
    errors = np.sqrt(np.maximum(noise * np.diagonal(inverse)[:size], 0.0)) * spread
    return weights, weights[:size] * spread, errors + 1e-12 * float(np.std(change))


def _stopping(steps: _Steps, fits: list[tuple[Array, Array, Array]], sign: float) -> NDArray[np.int64]:
    """After how many steps (n, 1) the signal moves outwards no more if the best logged action is held from now on."""
    lowest, highest = steps.actions.min(axis=0), steps.actions.max(axis=0)
    size = len(lowest)
    when = np.full((len(steps.now), 1), len(fits) + 1)
    for k, (weights, _, _) in reversed(list(enumerate(fits))):
        held = sign * weights[: (k + 1) * size].reshape(k + 1, size).sum(axis=0)
        best = float(np.minimum(held * lowest, held * highest).sum())
        outwards = sign * (steps.states @ weights[(k + 1) * size :]) + best
        when[outwards <= 0] = k + 1
    return when
