"""Quantifiers that users wrote: they come back from a file, or it is said before anything is trained."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from stable_baselines3 import PPO

import safexp
from safexp import MASE, Budget, Calibrated, PerCost, Unknown
from safexp.core import files
from safexp.core.files import CheckpointError
from support.line import Line

OPTIONS = {"n_steps": 16, "batch_size": 16, "policy_kwargs": {"net_arch": [4]}}


class Counting(Unknown):
    """Learns the number and the sum of the costs it was told, as arrays without an axis, which it insists on."""

    def __init__(self):
        self.count, self.total = np.array(0), np.array(0.0)

    def update(self, data):
        self.count, self.total = self.count + len(data.costs), np.asarray(self.total + data.costs.sum())

    def state(self):
        return {"count": np.asarray(self.count), "total": np.asarray(self.total)}

    def restore(self, state):
        if state["count"].shape != ():
            raise ValueError(f"count has shape {state['count'].shape}, expected ()")
        self.count, self.total = state["count"], state["total"]


class Flat(Counting):
    def restore(self, state):
        self.count, self.total = np.array(state["count"][0]), np.array(state["total"][0])


class Forgetful(Counting):
    def __init__(self):
        self.count, self.total = np.array(3), np.array(1.0)

    def restore(self, state):
        self.count = self.total = np.array(0)


class Renaming(Counting):
    def restore(self, state):
        self.extra = state["count"]

    def state(self):
        return super().state() | ({"extra": self.extra} if hasattr(self, "extra") else {})


class Speaking(Counting):
    def state(self):
        return {"words": np.array(["a", None])}


class Listing(Counting):
    def state(self):
        return [np.zeros(1)]


class Odd(Counting):
    def settings(self):
        return {"colour": object()}


class Locked(Counting):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


def agent_of(quantifier, constraint=None):
    return MASE(Line(), constraint or Budget(3.0), quantifier, PPO, learner_options=OPTIONS, seed=0)


def test_what_a_users_quantifier_learned_comes_back_in_its_shapes(tmp_path):
    agent = agent_of(Counting())
    agent.learn(32)
    agent.save(tmp_path / "a.safexp")
    loaded = MASE.load(tmp_path / "a.safexp", quantifier=Counting()).quantifier
    assert loaded.count.shape == loaded.total.shape == ()
    assert (loaded.count, loaded.total) == (32, agent.quantifier.total)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Flat, "IndexError: too many indices"),
        (Forgetful, "after restore its state has a different 'count'"),
        (Renaming, r"after restore its state has \['count', 'extra', 'total'\], before it had"),
        (Speaking, "words|dtype|object"),
        (Listing, "AttributeError: 'list' object"),
        (Odd, "TypeError: Object of type object is not JSON serializable"),
    ],
)
@pytest.mark.parametrize("around", [lambda one: one, Calibrated, lambda one: PerCost(one, Unknown())])
def test_one_that_does_not_come_back_is_named_before_training(kind, reason, around):
    quantifier = around(kind())
    both = safexp.AllOf(Budget(3.0), Budget(3.0)) if isinstance(quantifier, PerCost) else None
    with pytest.raises(ValueError, match=rf"^{kind.__name__} cannot be restored from a file.*\({reason}") as raised:
        agent_of(quantifier, both)
    assert f"{kind.__name__}.restore must accept them" in str(raised.value)


def test_trying_changes_nothing_and_one_that_cannot_be_copied_is_told(caplog):
    quantifier = Locked()
    before = vars(quantifier).copy()
    agent_of(quantifier)
    assert vars(quantifier) == before
    assert "Locked cannot be copied, so its restore is not tested before training" in caplog.text
    assert agent_of(quantifier).quantifier is quantifier


def test_a_file_that_a_users_quantifier_refuses_names_its_class(tmp_path):
    shield = safexp.Shield(Counting(), Line().observation_space, Line().action_space)
    shield.save(tmp_path / "a.safexp")
    for kind in (Flat, lambda: Calibrated(Flat())):
        with pytest.raises(CheckpointError, match=r"Flat cannot restore its state from the file \(\w+Error"):
            safexp.Shield.load(tmp_path / "a.safexp", quantifier=kind())


def test_arrays_go_through_a_file_unchanged():
    given = {"a": np.array(3), "b": np.zeros((0, 2)), "c": np.arange(6.0).reshape(2, 3).T}
    found = files.through_file(given)
    for name, part in given.items():
        assert (found[name].shape, found[name].dtype, found[name].flags.writeable) == (part.shape, part.dtype, True)
        np.testing.assert_array_equal(found[name], part)
