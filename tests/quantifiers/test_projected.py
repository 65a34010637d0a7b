"""Projected inputs: the algebra, a margin's model within, files, and failing safe."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from safexp import Calibrated, ExactGP, FromMargin, Known, Log, Projected, Shield, Unknown
from safexp.core import files
from safexp.quantifiers import Transitions

STATES = spaces.Box(-1.0, 1.0, (3,), np.float64)
ACTIONS = spaces.Box(-1.0, 1.0, (1,), np.float64)


def soft_cost(margin, softness=0.1):
    return 1.0 / (1.0 + np.exp(margin / softness))


def test_a_projected_quantifier_is_the_quantifier_of_the_projection():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(2, 3))
    states, actions, costs = rng.normal(size=(40, 3)), rng.normal(size=(40, 1)), rng.uniform(size=40)
    projected, plain = Projected(ExactGP(1.0), matrix), ExactGP(1.0)
    projected.fit(Transitions(states, actions, costs))
    plain.fit(Transitions(states @ matrix.T, actions, costs))
    projected.update(Transitions(-states, actions, costs))
    plain.update(Transitions(-states @ matrix.T, actions, costs))
    asked = rng.normal(size=(5, 3)), rng.normal(size=(5, 4, 1))
    for one, other in zip(projected.predict(*asked), plain.predict(asked[0] @ matrix.T, asked[1]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_is_left_out_does_not_matter():
    rng = np.random.default_rng(0)
    projected = Projected(ExactGP(1.0), [[1.0, 0.0, 0.0]])
    projected.fit(Transitions(rng.normal(size=(20, 3)), np.zeros((20, 1)), np.full(20, 0.3)))
    here, there = np.array([[0.1, 0.0, 0.0]]), np.array([[0.1, 99.0, -99.0]])
    one, other = (projected.predict(state, np.zeros((1, 1, 1))) for state in (here, there))
    np.testing.assert_array_equal(one, other)


def test_infinite_widths_and_nonsense_certify_nothing():
    def filtered(inner, state=3):
        space = spaces.Box(-1.0, 1.0, (state,), np.float64)
        shield = Shield(Projected(FromMargin(inner, 0.1), np.eye(2, 3)), space, ACTIONS)
        return shield.filter(np.zeros(state), np.zeros(1), 0.99), shield.failures

    assert filtered(Unknown())[0].stopped
    assert filtered(Unknown())[1] == 0
    for mean, width in [(np.nan, 0.1), (0.2, -0.1), (0.2, np.nan)]:
        inner = Known(lambda s, a, mean=mean: np.full(len(s), mean), lambda s, a, width=width: np.full(len(s), width))
        decision, failures = filtered(inner)
        assert decision.stopped
        assert failures > 0
    decision, failures = filtered(Known(lambda s, a: np.zeros(len(s))), state=4)
    assert decision.stopped
    assert failures > 0


def test_a_file_holds_a_quantifier_in_a_quantifier(tmp_path):
    rng = np.random.default_rng(0)
    margins = rng.uniform(0.1, 1.0, 400)
    log = Log(rng.uniform(-1, 1, (400, 3)), rng.uniform(-1, 1, (400, 1)), soft_cost(margins), margins, np.arange(400))
    shield = Shield(Projected(FromMargin(Calibrated(ExactGP(0.5, capacity=60)), 0.1), np.eye(2, 3)), STATES, ACTIONS)
    shield.fit(log)
    document, arrays = shield.describe()
    files.write(tmp_path / "file", {"shield": document}, arrays)
    loaded = Shield.load(tmp_path / "file").quantifier
    asked = rng.uniform(-1, 1, (5, 3)), rng.uniform(-1, 1, (5, 2, 1))
    np.testing.assert_array_equal(loaded.predict(*asked), shield.quantifier.predict(*asked))
    assert loaded.with_delta(0.01).quantifier.quantifier.delta == 0.01


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Projected(Unknown(), [1.0, 2.0]), r"has shape \(2,\), expected finite numbers \(k, ds\)"),
        (lambda: FromMargin(Unknown(), 0.0), "must both be finite and above 0"),
        (
            lambda: Projected(Unknown(), np.eye(2)).predict(np.zeros((1, 3)), np.zeros((1, 1, 1))),
            "a matrix for 2 entries of a state, got 3",
        ),
    ],
)
def test_wrong_arguments_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
