"""Learned quantifiers through a file: the same answers, the same next update, and no torch to load them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from gymnasium import spaces

from safexp import DeepGP, FeatureRegression, Log, Shield, SparseGP
from safexp.core import files
from safexp.shield.logs import encode_log

LEARNED = {
    "sparse": SparseGP("margin", num_inducing=8, capacity=40, first_steps=5),
    "deep": DeepGP("margin", widths=(2, 2), num_inducing=8, capacity=40, first_steps=5),
    "shared": DeepGP("margin", widths=[2], num_inducing=8, shared=True, capacity=40, first_steps=5),
    "random": FeatureRegression(num_features=8, capacity=40),
    "learned": FeatureRegression("margin", features="learned", num_features=8, capacity=40, first_steps=5),
}


def log(seed, count=60):
    rng = np.random.default_rng(seed)
    margins = rng.normal(size=count)
    return Log(rng.normal(size=(count, 3)), rng.uniform(-1, 1, (count, 1)), (margins < 0).astype(float), margins)


@pytest.mark.parametrize("name", LEARNED)
def test_a_file_gives_back_the_same_shield(name, tmp_path):
    shield = Shield(LEARNED[name], spaces.Box(-9, 9, (3,), np.float64), spaces.Box(-1, 1, (1,), np.float64))
    shield.fit(log(0))
    document, arrays = shield.describe()
    files.write(tmp_path / "shield", {"shield": document}, arrays)
    loaded = Shield.load(tmp_path / "shield")
    queries = np.linspace(-1, 1, 6).reshape(2, 3), np.linspace(-1, 1, 8).reshape(2, 4, 1)
    for _ in range(2):
        np.testing.assert_array_equal(shield.quantifier.interval(*queries), loaded.quantifier.interval(*queries))
        for one in (shield, loaded):
            one.quantifier.update(encode_log(log(1), one.observation_space, one.action_space))


def test_a_deployed_shield_needs_no_torch():
    names = ", ".join(sorted({type(one).__name__ for one in LEARNED.values()}))
    asked = "predict(numpy.zeros((1, 3)), numpy.zeros((1, 4, 1)))"
    program = f"import sys, numpy, safexp; [getattr(safexp, n)().{asked} for n in '{names}'.split(', ')]"
    subprocess.run([sys.executable, "-c", f"{program}; assert 'torch' not in sys.modules"], check=True)
