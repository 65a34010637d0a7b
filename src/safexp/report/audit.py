"""Report of an audit: in the terminal, and as a self-contained HTML page."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

from safexp.audit.results import CONFIDENCE, Audit, Judged, assumptions
from safexp.core.files import write_bytes
from safexp.records.coverage import FACTORS
from safexp.records.episodes import Episode
from safexp.report.pages import page_template
from safexp.report.terminal import plain_console, print_rows

WIDTH, HEIGHT = 640, 180
"""Size of the drawing, in its own units."""

MOST_TICKS = 6
"""Number of labels on the axis of episodes, besides 0."""


Standing = Literal["safe", "open", "unsafe"]
STYLES: Mapping[Standing, str] = MappingProxyType({"safe": "bold green", "open": "bold yellow", "unsafe": "bold red"})
"""Styles in the terminal."""


class Tick(NamedTuple):
    """Position and label of a tick on an axis of the drawing."""

    place: float
    text: str


def free_page(wanted: Path | None) -> Path:
    """An unused path for the page: the wanted one, or the first free one of audit.html, audit-2.html and so on.

    Raises:
        ValueError: if the wanted one exists.
    """
    if wanted is None:
        numbered = (Path(f"audit-{number}.html") for number in itertools.count(2))
        return next(path for path in itertools.chain([Path("audit.html")], numbered) if not path.exists())
    if wanted.exists():
        raise ValueError(f"{wanted} exists already, maybe as another audit's page: remove it, or give another --out.")
    return wanted


def write_audit(path: Path, found: Audit) -> None:
    """Write the page."""
    write_bytes(path, render(found).encode())


def render(found: Audit) -> str:
    """The page as HTML."""
    return page_template("audit.html").render(
        found=found,
        verdict=verdict(found),
        numbers=numbers(found),
        worst=[_cells(one) for one in found.worst],
        assumptions=assumptions(found),
        standing=standing(found),
        line=_line(found),
        limit=_height(found.max_risk, _least(found)),
        risks=_risk_ticks(found),
        counts=_episode_ticks(found.risk.episodes),
        width=WIDTH,
        height=HEIGHT,
    )


def print_audit(found: Audit, as_json: bool) -> None:
    """Print the results and the assumptions."""
    if as_json:
        print(json.dumps(found.to_json(), indent=1))
        return
    console = plain_console()
    console.print(verdict(found), style=STYLES[standing(found)], markup=False)
    for name, value in numbers(found).items():
        console.print(f"  {name}: {value}", markup=False)
    console.print("worst episodes (play one again with --replay SEED):")
    print_rows([_cells(one) for one in found.worst], as_json=False)
    console.print("this holds if:")
    for line in assumptions(found):
        console.print(f"  - {line}", markup=False)


def print_replay(one: Judged, as_json: bool) -> None:
    """Print a replayed episode."""
    print_rows([one.to_json() if as_json else _cells(one)], as_json)


def standing(found: Audit) -> Standing:
    """Whether the risk is shown to be small enough; `open` if more episodes could show it."""
    if found.passed:
        return "safe"
    return "unsafe" if found.risk.violations or not found.max_risk else "open"


def verdict(found: Audit) -> str:
    """The verdict as a sentence, and the number of episodes that could change it."""
    risk = found.risk
    shown = "is shown to be" if found.passed else "is not shown to be"
    answer = (
        f"{risk.violations:,} of {risk.episodes:,} episodes violated the constraint: the risk {shown} at most "
        f"{_percent(found.max_risk)} (95 % upper bound {_percent(risk.upper)})."
    )
    if standing(found) != "open":
        return answer
    enough = enough_episodes(found.max_risk)
    return f"{answer} That takes {enough:,} episodes without a violation: --episodes {enough}."


def enough_episodes(max_risk: float) -> int:
    """Number of episodes without a violation for an exact upper bound of at most `max_risk`, which is above 0."""
    return math.ceil(math.log(1.0 - CONFIDENCE) / math.log1p(-max_risk))


def numbers(found: Audit) -> dict[str, str]:
    """The measured numbers by name."""
    risk = found.risk
    rows = {
        "agent": f"{found.checkpoint} ({found.method}, {'with its shield' if found.shielded else 'without a shield'})",
        "task": found.task,
        "constraint": found.constraint,
        "episodes": f"{risk.episodes:,}, seeds {found.first_seed} to {found.first_seed + risk.episodes - 1}",
        "violations": f"{risk.violations:,}{_after_stops(found)}",
        "risk, one-sided": f"at most {_percent(risk.upper)}; at least {_percent(risk.lower)} (exact, 95 % each)",
        "risk, two-sided": f"{_percent(risk.two_sided[0])} to {_percent(risk.two_sided[1])} (exact, 95 %)",
        "risk, at any time": f"{_percent(risk.anytime[0])} to {_percent(risk.anytime[1])} (95 %, however one stops)",
        "return": f"{found.mean_return:.4g} on average",
        "cost": f"{found.mean_cost:.4g} an episode on average, at most {found.max_cost:.4g}; "
        f"of a step at most {found.max_step_cost:.4g}",
        "stops": f"{found.stops:,} of {risk.episodes:,} episodes ({_percent(found.stops / risk.episodes)})",
        "interventions": f"{found.interventions:,} actions replaced, {found.takeovers:,} steps taken over; "
        f"{_percent(found.own_actions or 0.0)} of the actions were the policy's own",
    }
    rows |= _unshielded(found)
    rows |= _accuracy(found) | _shift(found)
    late = found.latency
    rows["latency"] = (
        f"p50 {late.p50_us:,.0f} µs, p99 {late.p99_us:,.0f} µs of {late.decisions:,} single decisions here"
    )
    rows["time"] = f"{found.seconds:.1f} s"
    return rows


def _unshielded(found: Audit) -> dict[str, str]:
    if found.unshielded is None:
        return {}
    risk = found.unshielded.risk
    return {
        "without the shield": f"{risk.violations:,} of {risk.episodes:,} episodes violated, risk "
        f"{_percent(risk.two_sided[0])} to {_percent(risk.two_sided[1])} (exact, 95 %); "
        f"return {found.unshielded.mean_return:.4g} on average"
    }


def _after_stops(found: Audit) -> str:
    """How many violations came after a stop."""
    if found.after_stop_violations is not None:
        return f", of which {found.after_stop_violations:,} after one of {found.stops:,} stops"
    return " (stops were taken to be free)" if found.stops else ""


def _accuracy(found: Audit) -> dict[str, str]:
    if found.drills is not None:
        missed = (
            f"{found.drills.missed:,} of {found.drills.judged:,} missed it" if found.drills.judged else "none was held"
        )
        return {"coverage": f"drills test a certificate that looks ahead, not single steps; in training {missed}"}
    if found.accuracy is None:
        return {"coverage": "no quantifier to measure"}
    counts, calibration = found.accuracy.counts, found.accuracy.calibration
    rows = {
        "coverage": f"{_share(counts.covered, counts.rows)} of {counts.rows:,} steps within mean ± width "
        f"(δ = {found.accuracy.delta:g}); {counts.exceeded:,} above; {_share(counts.vacuous, counts.rows)} say nothing",
        "coverage near the limit": f"{_share(counts.near_covered, counts.near)} of {counts.near:,} steps",
    }
    shares = (f"{_share(n, calibration.rows)} within {f:g}×" for f, n in zip(FACTORS, calibration.within, strict=True))
    told = f"of {calibration.rows:,} widths that say something: {', '.join(shares)}"
    return rows | {"calibration": told if calibration.rows else "no width says anything"}


def _shift(found: Audit) -> dict[str, str]:
    if found.shift is None:
        return {"inputs": "the file has no record of training's inputs to compare with"}
    most = ", ".join(f"{one.name} {one.distance:.2f}" for one in found.shift.most)
    return {
        "inputs": f"{_percent(found.shift.outside)} of {found.shift.audited:,} outside the range of "
        f"{found.shift.trained:,} in training; most shifted (0 the same, 1 apart): {most}"
    }


def _cells(one: Judged) -> dict[str, str]:
    episode = one.episode
    return {
        "seed": str(one.seed),
        "cost": f"{episode.cost:.4g}",
        "largest step": f"{episode.max_step_cost:.4g}",
        **({} if one.clearance is None else {"nearest to a limit": f"{one.clearance:.4g}"}),
        "return": f"{episode.true_return:.4g}",
        "steps": str(episode.length),
        "end": _end(episode),
    }


def _end(episode: Episode) -> str:
    if episode.violated:
        return "violated"
    if episode.after_stop_violated:
        return f"violated after its stop (cost {episode.after_stop_cost:.4g} in {episode.after_stop_steps} steps)"
    return "stopped" if episode.stopped else "kept"


def _line(found: Audit) -> str:
    """Upper ends of the anytime interval as points of the drawing, whose left edge is before the first episode."""
    path = (1.0, *found.risk.path)
    step, least = WIDTH / (len(path) - 1), _least(found)
    return " ".join(f"{k * step:.1f},{_height(upper, least):.1f}" for k, upper in enumerate(path))


def _least(found: Audit) -> float:
    """Risk at the bottom of the drawing: the power of ten below everything drawn, except an allowed risk of 0."""
    lowest = min(share for share in (0.1, found.max_risk, *found.risk.path) if share > 0)
    return 10.0 ** math.floor(math.log10(lowest))


def _height(share: float, least: float) -> float:
    """Position of a risk on a logarithmic axis from 1 at the top to `least` at the bottom."""
    return HEIGHT * math.log10(max(share, least)) / math.log10(least)


def _risk_ticks(found: Audit) -> list[Tick]:
    least = _least(found)
    shares = [10.0**-power for power in range(round(-math.log10(least)) + 1)]
    return [Tick(_height(share, least), _percent(share)) for share in shares]


def _episode_ticks(episodes: int) -> list[Tick]:
    """Round numbers of episodes, from 0."""
    steps = (digit * 10**power for power in itertools.count() for digit in (1, 2, 5))
    step = next(step for step in steps if episodes <= MOST_TICKS * step)
    return [Tick(WIDTH * count / episodes, f"{count:,}") for count in range(0, episodes + 1, step)]


def _share(count: int, total: int) -> str:
    return _percent(count / total) if total else "-"


def _percent(value: float) -> str:
    return f"{100 * value:.3g} %"
