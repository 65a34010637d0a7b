"""Decisions of the compiled shield are those of the Python shield, for every quantifier that can be exported."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from c_fuzz.compare import compare
from c_fuzz.deciders import Sanitized
from c_fuzz.shields import CASES
from safexp import GLM, DeepGP, ExactGP, Known, Log, Shield, SparseGP
from support.c_loop import needs_compiler

BOX = spaces.Box(-1.0, 1.0, (2,))


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_decisions_and_bounds_are_the_same(name):
    found = compare(CASES[name](), 1000, seed=7)
    assert found.different == 0
    assert found.at_threshold < 60
    assert found.refused > 0
    assert found.replaced > 100
    assert found.error < 1e-11
    assert found.of_bound < 1e-9


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(
    "name", ["SparseGP, Dict, levels, safe action", "ChangeModel of SparseGP", "Rollout, degree 3"]
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_exported_file_passes_the_sanitizers(name, tmp_path):
    case = CASES[name]()
    found = compare(case, 500, seed=8, decider=Sanitized(case.shield, tmp_path))
    assert found.different == 0
    assert found.error < 1e-11


def shield(quantifier, **named):
    rng = np.random.default_rng(0)
    made = Shield(quantifier, BOX, spaces.Box(-1.0, 1.0, (1,)), **named)
    made.fit(Log(rng.uniform(-1, 1, (60, 2)), rng.uniform(-1, 1, (60, 1)), rng.uniform(0, 1, 60)))
    return made


@pytest.mark.parametrize(
    ("quantifier", "reason"),
    [
        (ExactGP(0.5), "ExactGP cannot be exported to C. SparseGP, "),
        (GLM(lambda s, a: s / 3, 2), "GLM cannot be exported to C. "),
        (Known(lambda s, a: s[:, 0]), "it is a Python function. Linear functions can: Known.safexp.Linear"),
        (DeepGP(num_inducing=4, first_steps=1), "DeepGP.shared=False. cannot be exported to C.*shared=True. can"),
    ],
)
def test_what_cannot_be_exported_says_so(quantifier, reason, tmp_path):
    with pytest.raises(ValueError, match=reason):
        shield(quantifier).export_c(tmp_path / "shield.c")
    assert not (tmp_path / "shield.c").exists()


def test_a_subclass_may_predict_differently_and_is_not_exported(tmp_path):
    class Bolder(SparseGP):
        def predict(self, states, actions):
            mean, width = super().predict(states, actions)
            return mean, width / 2

    with pytest.raises(ValueError, match="Bolder cannot be exported to C"):
        shield(Bolder(num_inducing=4, first_steps=1)).export_c(tmp_path / "shield.c")


def test_a_safe_action_that_is_a_function_cannot_be_exported(tmp_path):
    made = shield(SparseGP(num_inducing=4, first_steps=1), safe_action=lambda observations: np.zeros((1, 1)))
    with pytest.raises(ValueError, match="safe_action=<function> cannot be exported to C: give one action, or none"):
        made.export_c(tmp_path / "shield.c")
