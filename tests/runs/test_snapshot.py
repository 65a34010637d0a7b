"""What a snapshot keeps, what it refuses, and that reading one makes nothing but plain things."""

from __future__ import annotations

import copy
import random
from collections import OrderedDict, deque
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
import torch as th
from hypothesis import given
from hypothesis import strategies as st

from safexp.core.files import CheckpointError
from safexp.records.episodes import Episode
from safexp.runs import snapshot

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
        | st.tuples(inner, inner)
    ),
    max_leaves=12,
)


def holder(**held):
    return SimpleNamespace(**held)


def carried(live, fresh):
    """`fresh`, with what a snapshot of `live` says."""
    snapshot.restore(fresh, *snapshot.take(live))
    return fresh


@given(plain, plain)
def test_plain_values_come_back_whatever_was_there(value, other):
    assert carried(holder(value=value), holder(value=other)).value == value


def test_arrays_keep_type_shape_and_place():
    place = np.zeros((2, 3))
    fresh = holder(a=place, b=np.zeros(1), c=np.float32(0), d=np.zeros(()))
    live = holder(a=np.arange(6.0).reshape(2, 3), b=np.array([True, False]), c=np.float32(0.1), d=np.array(3))
    carried(live, fresh)
    assert fresh.a is place
    np.testing.assert_array_equal(place, live.a)
    assert fresh.b.tolist() == [True, False]
    assert (type(fresh.c), fresh.c, fresh.d.shape, fresh.d.dtype) == (np.float32, np.float32(0.1), (), live.d.dtype)


def test_things_shared_stay_shared_and_things_apart_come_apart():
    together = np.arange(3.0)
    fresh = carried(holder(a=together, b=together), holder(a=np.zeros(3), b=np.zeros(3)))
    assert fresh.a is fresh.b
    one = np.zeros(3)
    fresh = carried(holder(a=np.ones(3), b=np.full(3, 2.0)), holder(a=one, b=one))
    assert (fresh.a.tolist(), fresh.b.tolist()) == ([1.0] * 3, [2.0] * 3)


def test_circles_and_containers():
    live = holder(items=[1, deque([2, 3], maxlen=2), OrderedDict(x=np.ones(2))], where=Path("a"), part=slice(1, 2))
    live.items.append(live)
    fresh = carried(live, holder(items=[], where=None, part=None))
    assert fresh.items[3] is fresh
    assert fresh.items[1] == deque([2, 3]) and fresh.items[1].maxlen == 2
    assert isinstance(fresh.items[2], OrderedDict)
    assert (fresh.where, fresh.part) == (Path("a"), slice(1, 2))


def test_generators_go_on():
    live = holder(a=np.random.default_rng(1), b=random.Random(2), c=th.Generator().manual_seed(3), d=None)
    live.a.normal(size=5), live.b.random(), th.rand(2, generator=live.c)
    live.d = np.random.default_rng(9)
    fresh = carried(live, holder(a=np.random.default_rng(5), b=random.Random(), c=th.Generator(), d=None))
    assert fresh.a.normal() == live.a.normal()
    assert fresh.b.random() == live.b.random()
    assert th.equal(th.rand(3, generator=fresh.c), th.rand(3, generator=live.c))
    assert fresh.d.normal() == live.d.normal()


@pytest.mark.parametrize("name", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_every_generator_goes_on_and_so_does_what_it_spawns(name):
    def built(seed):
        bits = getattr(np.random, name)(seed)
        return holder(generator=np.random.Generator(bits), bits=bits)

    live = built(1)
    live.generator.normal(size=5), live.generator.spawn(2)
    for fresh in (built(1), built(8), holder(generator=None, bits=None)):
        carried(live, fresh)
        assert fresh.generator.bit_generator is fresh.bits, "what was shared stays shared"
        expected = copy.deepcopy(live.generator)
        assert fresh.generator.normal() == expected.normal()
        assert [one.normal() for one in fresh.generator.spawn(2)] == [one.normal() for one in expected.spawn(2)]


@pytest.mark.parametrize("entropy", [5, 2**100, [1, 2, 3], np.array([4, 5], dtype=np.uint32), None])
def test_a_seed_goes_on_spawning(entropy):
    seed = np.random.SeedSequence(entropy, spawn_key=(3,), pool_size=8)
    live = holder(seed=seed, generator=np.random.default_rng(seed))
    live.seed.spawn(2)
    fresh = carried(live, holder(seed=np.random.SeedSequence(9), generator=np.random.default_rng(9)))
    assert fresh.generator.bit_generator.seed_seq is fresh.seed
    assert (fresh.seed.spawn_key, fresh.seed.pool_size, fresh.seed.n_children_spawned) == ((3,), 8, 2)
    expected, found = (one.seed.spawn(1)[0].generate_state(4) for one in (live, fresh))
    np.testing.assert_array_equal(found, expected)
    assert fresh.generator.spawn(1)[0].normal() == live.generator.spawn(1)[0].normal()


def test_randomness_of_the_system_has_no_state():
    system = random.SystemRandom()
    assert carried(holder(a=random.SystemRandom()), holder(a=system)).a is system


def test_a_seed_in_a_file_cannot_ask_for_memory():
    document, arrays = snapshot.take(holder(a=np.random.SeedSequence(1)))
    state = document["state"]["a"]["state"]
    state["items"] = [[key, 10**9 if key == "pool_size" else value] for key, value in state["items"]]
    with pytest.raises(CheckpointError, match=r"pool size=1000000000; expected a whole number of at most"):
        snapshot.restore(holder(a=None), document, arrays)


def test_networks_and_optimisers_go_on():
    def learner(seed):
        th.manual_seed(seed)
        net = th.nn.Linear(3, 1)
        return holder(net=net, optimiser=th.optim.Adam(net.parameters()))

    def learn(one):
        one.optimiser.zero_grad()
        one.net(th.ones(4, 3)).square().sum().backward()
        one.optimiser.step()

    live = learner(0)
    learn(live)
    fresh = carried(live, learner(1))
    for one in (live, fresh):
        learn(one)
    assert th.equal(live.net.weight, fresh.net.weight)
    assert isinstance(fresh.net.weight, th.nn.Parameter)


def test_records_of_ours_are_made_anew():
    episode = Episode(0, 1, 1, 0.5, 0.5, 0.0, 0.0, False, False, 0)
    assert carried(holder(a=[episode]), holder(a=[])).a == [episode]


class Foreign(NamedTuple):
    x: int


class Thing:
    pass


@pytest.mark.parametrize("value", [Foreign(1), Thing()])
def test_no_other_class_is_made_from_a_file(value):
    with pytest.raises(CheckpointError, match="only safexp's own classes can be restored from a file"):
        carried(holder(a=value), holder(a=None))


def test_what_cannot_be_read_is_named():
    with pytest.raises(CheckpointError, match=r"SimpleNamespace.a\[0\] is a generator"):
        snapshot.take(holder(a=[(x for x in ())]))


@pytest.mark.parametrize(
    "name", ["os:system", "safexp.nowhere:Thing", "safexp.cli:main", "safexp.core.files:Path", "builtins:eval"]
)
def test_a_file_cannot_name_what_it_likes(name):
    document = {"is": "object", "at": 0, "class": name, "state": {}}
    with pytest.raises(CheckpointError):
        snapshot.restore(
            holder(a=None), {"is": "object", "at": 1, "class": "types:SimpleNamespace"} | {"state": {"a": document}}, {}
        )


def test_rows_that_are_not_filled_are_not_kept():
    live, fresh = (holder(rows=np.full((1000, 2), fill), filled=0) for fill in (1.0, 7.0))
    live.filled = 3
    _, arrays = snapshot.take(live)
    assert [part.size for part in arrays.values()] == [6]
    carried(live, fresh)
    assert (fresh.rows[:3] == 1.0).all() and (fresh.rows[3:] == 7.0).all()
