"""The Python binding of an exported shield."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from gymnasium import spaces

from c_fuzz.shields import CASES
from safexp import Budget, CompiledShield, Known, Linear, Log, Shield, SparseGP
from safexp.compiled.build import CompilerError
from support.c_loop import needs_compiler

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def fitted():
    return CASES["SparseGP"]()


def assert_same(ours, theirs):
    assert (ours.intervened, ours.stopped, ours.vouched, ours.takeover) == (
        theirs.intervened,
        theirs.stopped,
        theirs.vouched,
        theirs.takeover,
    )
    assert type(ours.upper_bound) is type(theirs.upper_bound)
    np.testing.assert_allclose(ours.upper_bound, theirs.upper_bound, rtol=1e-9)
    if ours.action is None:
        assert theirs.action is None
    else:
        np.testing.assert_array_equal(ours.action, theirs.action)
        assert np.asarray(ours.action).dtype == np.asarray(theirs.action).dtype


@pytest.mark.parametrize(
    "name",
    ["SparseGP", "SparseGP, discrete", "Known, signals", "Rollout, degree 1", "SparseGP, Dict, levels, safe action"],
)
def test_filter_returns_the_same_decisions(name):
    case = CASES[name]()
    shield, rng = case.shield, np.random.default_rng(0)
    compiled = CompiledShield(shield)
    for k in range(60):
        seen = case.observations[k]
        seen = {"at": seen[:2], "mode": int(seen[2])} if isinstance(shield.observation_space, spaces.Dict) else seen
        threshold = rng.uniform(0.1, 0.9, shield.quantifier.num_costs)
        threshold = threshold if threshold.size > 1 else threshold[0]
        named = {"measured": rng.uniform(-0.9, 0.9, shield.quantifier.num_signals)}
        named = named if shield.quantifier.num_signals else {}
        if isinstance(shield.action_space, spaces.Box):
            named["last_safe"] = case.actions[k + 1]
        both = (who.filter(seen, case.actions[k], threshold, **named) for who in (shield, compiled))
        assert_same(*both)


def test_thresholds_come_from_the_constraint():
    shield = CASES["Rollout, degree 1"]().shield
    compiled = CompiledShield(shield)
    for position in (0.0, 0.9):
        seen = np.array([position, 0.5], dtype=np.float32)
        assert_same(shield.filter(seen, np.ones(1)), compiled.filter(seen, np.ones(1)))


@pytest.mark.parametrize(
    "question",
    [
        (np.zeros(4), np.zeros(2), 0.5),
        (np.array([0.0, np.nan, 0.0]), np.zeros(2), 0.5),
        (np.zeros(3), np.zeros(3), 0.5),
        (np.zeros(3), np.zeros(2), np.nan),
        (np.zeros(3), np.zeros(2), [0.5, 0.5]),
        (np.zeros(3), np.zeros(2), None),
    ],
)
def test_errors_are_those_of_the_shield(fitted, question):
    compiled = CompiledShield(fitted.shield)
    with pytest.raises(ValueError) as ours:
        fitted.shield.filter(*question)
    with pytest.raises(ValueError) as theirs:
        compiled.filter(*question)
    assert str(ours.value) == str(theirs.value)


def test_an_action_that_is_not_finite_is_replaced(fitted):
    for bad in (np.nan, np.inf):
        question = (np.zeros(3), np.array([bad, 0.0]), 0.6)
        assert_same(fitted.shield.filter(*question), CompiledShield(fitted.shield).filter(*question))


def test_refresh_takes_over_new_numbers_without_a_compiler(monkeypatch):
    case = CASES["SparseGP"]()
    shield, compiled = case.shield, CompiledShield(case.shield)
    before = compiled.filter(np.zeros(3), np.zeros(2), 0.5).upper_bound
    rng = np.random.default_rng(9)
    more = rng.uniform(-1, 1, (400, 3)), rng.uniform(-1, 1, (400, 2)).astype(np.float32), rng.uniform(0, 1, 400)
    shield.fit(Log(*more))
    assert compiled.filter(np.zeros(3), np.zeros(2), 0.5).upper_bound == before
    monkeypatch.setattr("safexp.shield.compiled_shield.build_library", lambda source: pytest.fail("compiled again"))
    compiled.refresh()
    after = compiled.filter(np.zeros(3), np.zeros(2), 0.5).upper_bound
    assert after != before
    assert after == pytest.approx(shield.filter(np.zeros(3), np.zeros(2), 0.5).upper_bound, rel=1e-10)


def test_threads_share_it(fitted):
    compiled, rng = CompiledShield(fitted.shield), np.random.default_rng(1)
    states, actions = rng.uniform(-1, 1, (2000, 3)), rng.uniform(-1, 1, (2000, 2))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda k: compiled.filter(states[k], actions[k], 0.5).upper_bound, range(2000)))
    np.testing.assert_array_equal(found, compiled.filter_batch(states, actions, np.full(2000, 0.5)).upper_bounds)


def test_single_precision_is_nearly_the_same(fitted):
    rng = np.random.default_rng(1)
    question = rng.uniform(-0.9, 0.9, (500, 3)), rng.uniform(-0.9, 0.9, (500, 2)), np.full(500, 0.5)
    ours, theirs = (
        who.filter_batch(*question) for who in (fitted.shield, CompiledShield(fitted.shield, precision="float"))
    )
    np.testing.assert_allclose(ours.upper_bounds, theirs.upper_bounds, atol=2e-2)
    assert (ours.intervened == theirs.intervened).mean() > 0.98


def test_predictions_are_those_of_the_quantifier(fitted):
    shield, rng = fitted.shield, np.random.default_rng(2)
    states = rng.uniform(-1, 1, (5, 3))
    actions = np.concatenate([np.repeat(shield.candidates[None], 5, axis=0), rng.uniform(-1, 1, (5, 3, 2))], axis=1)
    mean, width = CompiledShield(shield).predict(states, actions)
    for ours, theirs in zip(shield.quantifier.predict(states, actions), (mean, width), strict=True):
        np.testing.assert_allclose(ours, theirs[..., 0], rtol=1e-9)


def test_without_a_compiler_the_error_says_so(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    shield = Shield(Known(Linear([1.0], [0.5])), spaces.Box(-1, 1, (1,)), spaces.Box(-1, 1, (1,)), constraint=Budget(1))
    with pytest.raises(CompilerError, match="no C compiler was found: install gcc or clang, or set CC to one"):
        CompiledShield(shield)


def test_a_shield_that_knows_nothing_certifies_nothing():
    shield = Shield(SparseGP(), spaces.Box(-1, 1, (1,)), spaces.Box(-1, 1, (1,)))
    for who in (shield, CompiledShield(shield)):
        decision = who.filter(np.zeros(1), np.zeros(1), 0.9)
        assert decision.stopped
        assert decision.upper_bound == 1.0
