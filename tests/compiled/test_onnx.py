"""The certificate as ONNX bounds costs as the shield does, checked with onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from c_fuzz.questions import ask
from c_fuzz.shields import CASES
from safexp import Shield, Unknown, export_certificate
from safexp.core.encoding import encode_actions

runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

EXPORTED = [
    "SparseGP",
    "SparseGP, margin",
    "SparseGP, calibrated",
    "FeatureRegression",
    "FeatureRegression, learned",
    "Known, linear",
    "Unknown",
    "Known, signals",
    "ChangeModel of SparseGP",
    "ChangeModel of FeatureRegression, calibrated",
    "AllOf",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTED)
def test_bounds_are_those_of_the_shield(name, tmp_path):
    case = CASES[name]()
    shield = case.shield
    export_certificate(shield, tmp_path / "certificate.onnx")
    session = runtime.InferenceSession(tmp_path / "certificate.onnx", providers=["CPUExecutionProvider"])
    questions = ask(case, 400, np.random.default_rng(0), odd=0.0)
    actions = encode_actions(shield.action_space, questions.proposals)
    given = {"observation": questions.observations, "action": actions}
    if questions.measured is not None:
        given["measured"] = questions.measured
    bounds = session.run(None, given)[0]
    states = shield.states(questions.observations, questions.measured)
    mean, width = shield.quantifier.predict(states, actions[:, None])
    expected = np.clip(np.reshape(mean + width, bounds.shape), 0.0, 1.0)
    np.testing.assert_allclose(bounds, expected, rtol=1e-8, atol=1e-10)
    assert len(np.unique(expected)) > (0 if name == "Unknown" else 1)


@pytest.mark.parametrize("name", ["Rollout, degree 1", "DeepGP(shared)", "SparseGP, discrete"])
def test_what_has_no_graph_says_so(name, tmp_path):
    with pytest.raises(ValueError, match=r"cannot be exported to ONNX|can be exported for vectors, not for"):
        export_certificate(CASES[name]().shield, tmp_path / "certificate.onnx")


def test_levels_have_no_graph(tmp_path):
    box = spaces.Box(-1.0, 1.0, (2,))
    with pytest.raises(ValueError, match="a certificate with levels cannot be exported to ONNX: leave levels out"):
        export_certificate(Shield(Unknown(), box, box, levels=(0, 1)), tmp_path / "certificate.onnx")
