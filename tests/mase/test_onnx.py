"""ONNX files act as the policies that they came from."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from sb3_contrib import RecurrentPPO
from stable_baselines3 import DQN, PPO, SAC, TD3
from torch import nn

from safexp import MASE, TRPO, AllOf, Budget, Instantaneous, Known, Unknown
from safexp.mase.onnx import export_onnx
from safexp.tasks.planar_robot import PlanarRobotVector, cost_of
from support.line import Line

QUICK = {"policy_kwargs": {"net_arch": [8, 8]}}
ELU = {"policy_kwargs": {"net_arch": [8], "activation_fn": nn.ELU}}
LEAKY = {"policy_kwargs": {"net_arch": [8], "activation_fn": nn.LeakyReLU}}


def agent_of(learner, options, constraint=None, discrete=False):
    envs = PlanarRobotVector(2, discrete=discrete)
    return MASE(envs, constraint or Budget(3.0), Unknown(), learner, learner_options=options, seed=0)


@pytest.mark.parametrize(
    ("learner", "options", "constraint", "discrete"),
    [
        (TRPO, QUICK, Budget(3.0), False),
        (PPO, ELU, AllOf(Budget(3.0), Budget(0.5)), False),
        (PPO, QUICK, Budget(3.0), True),
        (SAC, QUICK, Budget(3.0), False),
        (TD3, LEAKY, Budget(3.0), False),
        (DQN, QUICK, Budget(3.0), True),
    ],
)
def test_the_file_acts_as_the_policy(learner, options, constraint, discrete, tmp_path):
    reference = pytest.importorskip("onnx.reference", reason="needs the extra 'onnx'")
    agent = agent_of(learner, options, constraint, discrete)
    export_onnx(agent, tmp_path / "policy.onnx")
    session = reference.ReferenceEvaluator(str(tmp_path / "policy.onnx"))
    rng = np.random.default_rng(0)
    states = (3 * rng.normal(size=(20, 4))).astype(np.float32)
    costs = np.size(constraint.largest_threshold)
    thresholds = rng.uniform(-0.5, 4.0, (20, costs)).astype(np.float32)
    (actions,) = session.run(None, {"observation": states, "threshold": thresholds})
    for state, threshold, action in zip(states, thresholds, actions, strict=True):
        proposal, _ = agent.propose(state.astype(np.float64), threshold if costs > 1 else threshold[0])
        np.testing.assert_allclose(action, proposal, rtol=1e-5, atol=1e-5)
    assert len(np.unique(actions.round(4), axis=0)) > 1, "a constant policy would hide mistakes"


def test_without_a_threshold_there_is_one_input(tmp_path):
    onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    envs = PlanarRobotVector(2)
    agent = MASE(envs, Instantaneous(0.5), Known(cost_of), PPO, learner_options=QUICK, seed=0)
    export_onnx(agent, tmp_path / "policy.onnx")
    model = onnx.load(tmp_path / "policy.onnx")
    assert [value.name for value in model.graph.input] == ["observation"]
    assert [value.name for value in model.graph.output] == ["action"]


def test_what_cannot_be_exported_is_named(tmp_path, monkeypatch):
    pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    with pytest.raises(ValueError, match=r"the layer SiLU\(\) cannot be exported"):
        export_onnx(agent_of(PPO, {"policy_kwargs": {"activation_fn": nn.SiLU}}), tmp_path / "policy.onnx")
    with pytest.raises(ValueError, match="only policies on vectors can be exported, this one sees Dict"):
        mapping = MASE(Line(mapping=True), Budget(3.0), Unknown(), PPO, learner_options=QUICK)
        export_onnx(mapping, tmp_path / "policy.onnx")
    with pytest.raises(ValueError, match="it is not a chain of layers"):
        export_onnx(agent_of(RecurrentPPO, {"policy": "MlpLstmPolicy"}), tmp_path / "policy.onnx")
    assert not (tmp_path / "policy.onnx").exists()
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"exporting a policy needs onnx: pip install 'safexp\[onnx\]'"):
        export_onnx(agent_of(PPO, QUICK), tmp_path / "policy.onnx")
