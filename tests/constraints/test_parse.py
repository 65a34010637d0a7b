"""Limits as text, and limits that one model answers for."""

from __future__ import annotations

from safexp import AllOf, Within
from safexp.constraints.parse import parse_limits, parse_within, together


def test_constant_limits_of_the_same_sides_are_one_constraint():
    found = parse_limits(["x:-0.3:0.3", "angle:-0.12:0.12"])
    assert found == Within(("x", "angle"), [-0.3, -0.12], [0.3, 0.12])
    assert found.num_costs == 4


def test_other_limits_stay_apart():
    parts = [parse_within(text) for text in ("heat::5", "level::4,50=3", "x:-1:1", "cold::2")]
    found = together(parts)
    assert found == [parts[1], Within(("heat", "cold"), high=[5.0, 2.0]), parts[2]]
    assert isinstance(parse_limits(["heat::5", "x:-1:1"]), AllOf)


def test_a_single_limit_is_itself():
    assert parse_limits(["2::5"]) == Within(2, high=5.0)
