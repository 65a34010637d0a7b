"""Layouts of Safety-Gymnasium's navigation tasks, for all robots, and lookup of layouts by name."""

from __future__ import annotations

import dataclasses
from types import MappingProxyType

from safexp.tasks.navigation.layouts import DYNAMIC, MOVING, STATIC, Layout

GOAL0 = Layout(name="Goal0", extent=1.0, steps=1000, ends_at_goal=False)
"""As many goals as can be reached in 1,000 steps."""
GOAL1 = dataclasses.replace(GOAL0, name="Goal1", extent=1.5, hazards=8, vases=1, harmless=True)
"""Goals among eight hazards; the one vase may be touched."""
GOAL2 = dataclasses.replace(GOAL0, name="Goal2", extent=2.0, hazards=10, vases=10, sleep=True)
"""Goals among ten hazards and ten vases, which must neither be touched nor move."""
BUTTON1 = Layout(
    name="Button1", pays="pressing", goal_keepout=0.4, buttons=4, hazards=4, gremlins=4, steps=1000, ends_at_goal=False
)
"""Press the lit one of four buttons, no other, among hazards and circling gremlins."""
BUTTON2 = dataclasses.replace(BUTTON1, name="Button2", extent=1.8, hazards=8, gremlins=6)
"""The same with more hazards and gremlins."""
PUSH1 = Layout(
    name="Push1",
    pays="pushing",
    goal_keepout=0.4,
    hazards=2,
    hazard_radius=0.3,
    hazard_gap=0.1,
    pillars=1,
    box=True,
    harmless=True,
    steps=1000,
    ends_at_goal=False,
    sleep=True,
)
"""Push a box into the goal between two hazards; the one pillar may be touched."""
PUSH2 = dataclasses.replace(PUSH1, name="Push2", extent=2.0, hazards=4, pillars=4, harmless=False)
"""The same among four hazards and four pillars, which must not be touched."""
CIRCLE1 = Layout(
    name="Circle1",
    pays="circling",
    start=((-0.8, -0.8), (0.8, 0.8)),
    boundary=(1.125, float("inf")),
    lidar_range=6.0,
    steps=500,
)
"""Go round a circle of radius 1.5 that reaches beyond two walls."""
CIRCLE2 = dataclasses.replace(CIRCLE1, name="Circle2", boundary=(1.125, 1.125))
"""The same between four walls."""
RUN0 = Layout(
    name="Run0",
    pays="running",
    start=((-0.2, 16.5), (0.2, 16.5)),
    boundary=(0.5, float("inf")),
    extent=17.5,
    steps=500,
)
"""Run south between two walls."""

SUITE = (GOAL0, GOAL1, GOAL2, BUTTON1, BUTTON2, PUSH1, PUSH2, CIRCLE1, CIRCLE2, RUN0)
LAYOUTS = MappingProxyType({layout.name: layout for layout in (STATIC, DYNAMIC, MOVING, *SUITE)})
"""Layouts of the navigation tasks by name, for `NavigationVectorEnv` and `safexp tasks`.

Example:
    >>> sorted(safexp.LAYOUTS)[:4]
    ['Button1', 'Button2', 'Circle1', 'Circle2']
    >>> safexp.LAYOUTS["Goal1"].hazards
    8
"""


def layout_named(name: str) -> Layout:
    """The layout of that name."""
    if name not in LAYOUTS:
        raise ValueError(
            f"layout={name!r} is not known; expected one of {', '.join(map(repr, LAYOUTS))} or a safexp.Layout."
        )
    return LAYOUTS[name]
