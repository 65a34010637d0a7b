"""Random layouts: keep-outs hold, places are uniform where they should be, impossible demands are refused."""

from __future__ import annotations

import numpy as np
import pytest

from safexp.tasks.navigation import placement
from safexp.tasks.navigation.layouts import DYNAMIC, MOVING, STATIC, Layout
from safexp.tasks.navigation.placement import Things
from safexp.tasks.navigation.resets import StartSupply
from safexp.tasks.navigation.robots import POINT
from safexp.tasks.navigation.suite import GOAL1


def starts(layout: Layout, count: int) -> np.ndarray:
    return StartSupply(layout, POINT).take(np.random.default_rng(0), count).layouts


@pytest.mark.parametrize("layout", [STATIC, DYNAMIC, GOAL1, MOVING], ids=lambda layout: layout.name)
def test_things_keep_their_distance_and_stay_inside(layout: Layout) -> None:
    things, places = layout.things(POINT), starts(layout, 400)
    distances = np.linalg.norm(places[:, :, None] - places[:, None], axis=3)
    distances[:, *np.diag_indices(len(things.keepouts))] = np.inf
    assert (distances >= things.separation() - 1e-12).all()
    loose = [k for k, place in enumerate(things.places) if place is None]
    low, high = things.room()[loose].swapaxes(0, 1)
    assert (places[:, loose] >= low - 1e-12).all() and (places[:, loose] <= high + 1e-12).all()


def test_the_published_keepouts() -> None:
    assert STATIC.things(POINT).separation()[0] == pytest.approx([0.8, 0.705, 1.105])
    assert GOAL1.things(POINT).keepouts == pytest.approx([0.4, 0.305, *[0.18] * 8, 0.15])
    assert DYNAMIC.things(POINT).keepouts == pytest.approx([0.4, 0.305, 0.305, 0.305, 0.305])


def test_static_starts_are_uniform_on_what_is_free() -> None:
    robots = starts(STATIC, 6000)[:, 0]
    grid = np.random.default_rng(1).uniform(-1.1, 1.1, (200_000, 2))
    free = grid[(np.linalg.norm(grid, axis=1) >= 1.105) & (np.linalg.norm(grid - 1.1, axis=1) >= 0.705)]
    for low, high in (((-1.1, -1.1), (0.0, 0.0)), ((0.0, -1.1), (1.1, 0.0)), ((0.9, 0.0), (1.1, 0.4))):
        ours = ((robots >= low) & (robots <= high)).all(axis=1).mean()
        theirs = ((free >= low) & (free <= high)).all(axis=1).mean()
        assert ours == pytest.approx(theirs, abs=0.025)


def test_starts_do_not_depend_on_how_many_are_asked_for_at_once() -> None:
    together = StartSupply(GOAL1, POINT).take(np.random.default_rng(3), 20)
    rng, supply = np.random.default_rng(3), StartSupply(GOAL1, POINT)
    apart = [supply.take(rng, count) for count in (1, 5, 14)]
    for field, whole in enumerate(together):
        assert np.array_equal(whole, np.concatenate([part[field] for part in apart]))


def test_a_thing_moves_clear_of_the_others() -> None:
    layouts = starts(GOAL1, 100)
    goals, found = placement.move(GOAL1.things(POINT), np.random.default_rng(0), 1, layouts)
    assert found.all()
    others = np.delete(layouts, 1, axis=1)
    separation = np.delete(GOAL1.things(POINT).separation()[1], 1)
    assert (np.linalg.norm(others - goals[:, None], axis=2) >= separation).all()


def test_no_room_is_reported_and_never_silently_filled() -> None:
    crowded = Things((0.4, 0.4), (None, (0.0, 0.0)), 0.5)
    with pytest.raises(ValueError, match="do not fit into a square"):
        placement.sample(crowded, np.random.default_rng(0), 2)
    _, found = placement.move(crowded, np.random.default_rng(0), 0, np.zeros((3, 2, 2)))
    assert not found.any()
