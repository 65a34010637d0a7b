import dataclasses
import re

import pytest

from safexp.audit.results import Audit, Judged, Latency, assumptions, risk_of
from safexp.records.episodes import Episode
from safexp.records.statistics import upper_bound
from safexp.report.audit import enough_episodes, numbers, render, standing, verdict


def audited(violations: int, episodes: int, max_risk: float, stops: int = 0, after: int | None = None) -> Audit:
    return Audit(
        checkpoint="runs/a",
        task="a task",
        method="mase",
        constraint="Budget(limit=3.0)",
        shielded=True,
        first_seed=1000,
        max_risk=max_risk,
        risk=risk_of([k < violations for k in range(episodes)]),
        mean_return=1.0,
        mean_cost=2.0,
        max_cost=3.0,
        max_step_cost=1.0,
        stops=stops,
        after_stop_violations=after,
        interventions=0,
        takeovers=0,
        own_actions=1.0,
        worst=(Judged(1000, Episode(0, 50, 50, 1.0, 1.0, 3.0, 0.5, False, False, 0)),),
        accuracy=None,
        shift=None,
        latency=Latency(1, 1.0, 1.0),
        seconds=1.0,
    )


@pytest.mark.parametrize("max_risk", [0.001, 0.01, 0.05, 0.5])
def test_so_many_episodes_without_a_violation_are_just_enough(max_risk: float) -> None:
    enough = enough_episodes(max_risk)
    assert upper_bound(0, enough, 0.95) <= max_risk < upper_bound(0, enough - 1, 0.95)


@pytest.mark.parametrize(
    ("violations", "max_risk", "expected"),
    [(0, 0.05, "safe"), (0, 0.01, "open"), (1, 0.01, "unsafe"), (0, 0, "unsafe")],
)
def test_too_few_episodes_are_told_from_violations(violations: int, max_risk: float, expected: str) -> None:
    found = audited(violations, 100, max_risk)
    assert standing(found) == expected
    told = "That takes 299 episodes without a violation: --episodes 299." in verdict(found)
    assert told == (expected == "open")
    assert f'<p class="verdict {expected}">' in render(found)


def test_the_drawing_has_axes() -> None:
    page = render(audited(0, 250, 0.02))
    texts = re.findall(r'<text x="(.*?)" y="(.*?)" text-anchor="\w+">(.*?)</text>', page)
    assert [text for _, _, text in texts] == ["100 %", "10 %", "1 %", "0", "50", "100", "150", "200", "250", "episodes"]
    assert [float(y) for _, y, _ in texts[:3]] == [4.0, 94.0, 184.0]
    assert [float(x) for x, _, _ in texts[3:-1]] == [0.0, 128.0, 256.0, 384.0, 512.0, 640.0]
    (points,) = re.findall(r'points="(.*?)"', page)
    first, *_, last = [tuple(map(float, point.split(","))) for point in points.split()]
    assert first == (0.0, 0.0)
    assert last[0] == 640.0 and 90 < last[1] < 180, "between 10 % and 1 %"


@pytest.mark.parametrize(("violations", "episodes", "max_risk"), [(3, 3, 1.0), (0, 1, 0.0)])
def test_the_drawing_bears_extremes(violations: int, episodes: int, max_risk: float) -> None:
    assert "10 %</text>" in render(audited(violations, episodes, max_risk))


def test_violations_after_stops_are_shown_apart() -> None:
    assert numbers(audited(5, 300, 0.01, stops=40, after=3))["violations"] == "5, of which 3 after one of 40 stops"
    assert numbers(audited(5, 300, 0.01))["violations"] == "5"
    judged, free = audited(5, 300, 0.01, stops=40, after=3), audited(5, 300, 0.01, stops=40)
    assert numbers(free)["violations"] == "5 (stops were taken to be free)"
    assert "After a stop a controller drove on" in " ".join(assumptions(judged))
    assert "A stop was taken to be free" in " ".join(assumptions(free))
    assert "of which 3 after one of 40 stops" in render(judged)


def test_an_episode_that_violated_after_its_stop_says_so() -> None:
    episode = Episode(0, 50, 50, 1.0, 1.0, 3.0, 0.5, False, True, 0, 0, 0, 0, 12, 4.5, True)
    found = dataclasses.replace(audited(1, 1, 0.01, stops=1, after=1), worst=(Judged(1000, episode),))
    assert "violated after its stop (cost 4.5 in 12 steps)" in render(found)
    assert found.to_json()["after_stop_violations"] == 1
    assert found.to_json()["worst"][0]["after_stop_violated"] is True
