"""What `Quantifier` gives to one that defines `predict` and `update` alone."""

from __future__ import annotations

import numpy as np
import pytest

from safexp import ChangeModel, PerCost, Quantifier
from safexp.quantifiers import base
from safexp.quantifiers.base import Transitions


class Largest(Quantifier):
    """The largest cost so far, and a width that grows as δ falls."""

    def __init__(self, weights, *, delta=0.1):
        self.weights = np.asarray(weights)
        self.delta = delta
        self.largest = 0.0

    def predict(self, states, actions):
        return np.full(actions.shape[:2], self.largest), np.full(actions.shape[:2], 1 - self.delta)

    def update(self, data):
        if not np.isfinite(data.costs).all():
            raise ValueError("costs are not finite")
        self.largest = max(self.largest, float(data.costs.max()))


class Careless(Largest):
    """Does not keep its argument."""

    def __init__(self, path):
        super().__init__([1.0])


def data_of(*costs):
    return Transitions(np.zeros((len(costs), 2)), np.zeros((len(costs), 1)), np.array(costs))


def test_a_fit_forgets_what_was_learned():
    one = Largest([1.0], delta=0.2)
    one.update(data_of(0.9))
    one.fit(data_of(0.3, 0.4))
    assert (one.largest, one.delta) == (0.4, 0.2)


def test_a_fit_that_raises_changes_nothing():
    one = Largest([1.0])
    one.update(data_of(0.9))
    with pytest.raises(ValueError, match="not finite"):
        one.fit(data_of(np.nan))
    assert one.largest == 0.9


def test_settings_are_the_arguments_as_json():
    assert Largest(np.array([1.0, 2.0])).settings() == {"weights": [1.0, 2.0], "delta": 0.1}


def test_settings_name_an_argument_that_a_file_cannot_hold():
    one = Largest([1.0])
    one.weights = object()
    with pytest.raises(
        TypeError, match=r"Largest\(weights=...\) has the type object, which a file cannot store; pass the quant"
    ):
        one.settings()


@pytest.mark.parametrize(
    "use", [Quantifier.settings, lambda one: one.fit(data_of(0.1)), lambda one: one.with_delta(0.1)]
)
def test_an_argument_that_is_not_kept_is_named(use):
    with pytest.raises(
        TypeError, match=r"Careless does not store its argument path: set self.path in Careless.__init__"
    ):
        use(Careless("here"))


def test_variable_arguments_cannot_be_read_back():
    class Any(Largest):
        def __init__(self, **options):
            super().__init__([1.0])
            self.options = options

    with pytest.raises(TypeError, match="Any does not store its argument options"):
        Any().settings()


def test_another_delta_reaches_quantifiers_that_were_given():
    outer = ChangeModel(Largest([1.0]), inputs=(0, 2)).with_delta(0.01)
    assert outer.delta == outer.quantifier.delta == 0.01
    assert outer.settings() == {"inputs": (0, 2), "sides": None}


def test_nothing_is_saved_unless_it_is_said():
    one = Largest([1.0])
    one.update(data_of(0.9))
    assert one.state() == {}
    one.restore({})
    assert one.largest == 0.9


def test_inner_quantifiers():
    one, other = Largest([1.0]), Largest([2.0])
    assert base.inner_of(one) == ()
    assert base.inner_of(PerCost(one, other)) == (one, other)
    assert base.inner_of(ChangeModel(one)) == (one,)


def test_one_models_costs_and_knows_something_unless_it_says_otherwise():
    one, data = Largest([1.0]), data_of(0.2, 0.9)
    question = data.states, data.actions[:, None]
    for part, expected in zip(one.interval(*question), one.predict(*question), strict=True):
        np.testing.assert_array_equal(part, expected)
    np.testing.assert_array_equal(one.observed(data), data.costs)
    np.testing.assert_array_equal(one.error(np.array([0.5]), np.array([0.2])), [0.3])
    assert one.as_costs(1, 2) == (1, 2)
    assert one.knows
    assert one.promises_coverage
    with pytest.raises(TypeError, match="Largest models only costs"):
        one.as_regression(0.1)


def test_the_worst_of_several_costs_tells_how_near_a_step_came():
    one = Largest([1.0])
    np.testing.assert_array_equal(one.nearness(data_of(0.2, 0.9)), [0.2, 0.9])
    several = data_of(0.0, 0.0)._replace(costs=np.array([[0.1, 0.4], [0.3, 0.2]]))
    np.testing.assert_array_equal(one.nearness(several), [0.4, 0.3])
    assert one.nearness(data_of()).shape == (0,)


def test_what_is_inside_decides_whether_anything_is_known_or_promised():
    class Ignorant(Largest):
        knows = promises_coverage = False

    assert not PerCost(Largest([1.0]), Ignorant([1.0])).knows
    assert not PerCost(Largest([1.0]), Ignorant([1.0])).promises_coverage
    assert PerCost(Largest([1.0]), Largest([1.0])).promises_coverage
