"""ONNX files act as the policies that they came from."""

from __future__ import annotations

import sys

import gymnasium as gym
import numpy as np
import pytest
from sb3_contrib import RecurrentPPO
from stable_baselines3 import DQN, PPO, SAC, TD3
from torch import nn

from safexp import MASE, TRPO, AllOf, Budget, Instantaneous, Known, Unknown
from safexp.mase.onnx import export_onnx
from safexp.tasks.planar_robot import PlanarRobotVector, cost_of
from support.line import Line, line_cost

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


class Places(gym.ObservationWrapper):
    """The line with three places as its observation."""

    def __init__(self):
        super().__init__(Line())
        self.observation_space = gym.spaces.Discrete(3)

    def observation(self, observation):
        return int(np.sign(observation[0])) + 1


class Arm(gym.ObservationWrapper):
    """The line with a Dict of parts of several shapes."""

    def __init__(self):
        super().__init__(Line())
        box = self.env.observation_space
        self.observation_space = gym.spaces.Dict(
            {"wall": gym.spaces.Box(-100.0, 100.0, (2, 2), np.float32), "arm": box, "zone": box}
        )

    def observation(self, observation):
        wall = np.array([[1, 2], [3, 4]], np.float32) * observation[0]
        return {"wall": wall, "arm": observation, "zone": -observation}


@pytest.mark.parametrize(("learner", "constraint"), [(PPO, Budget(3.0)), (SAC, Budget(3.0)), (PPO, Instantaneous(2.0))])
def test_the_parts_of_a_dict_are_inputs_under_their_keys(learner, constraint, tmp_path):
    reference = pytest.importorskip("onnx.reference", reason="needs the extra 'onnx'")
    quantifier = Unknown() if isinstance(constraint, Budget) else Known(line_cost)
    agent = MASE(Arm(), constraint, quantifier, learner, learner_options=QUICK, seed=0)
    export_onnx(agent, tmp_path / "policy.onnx")
    session = reference.ReferenceEvaluator(str(tmp_path / "policy.onnx"))
    rng = np.random.default_rng(0)
    parts = {"wall": rng.normal(size=(9, 2, 2)), "arm": rng.normal(size=(9, 1)), "zone": rng.normal(size=(9, 1))}
    given = {name: part.astype(np.float32) for name, part in parts.items()}
    thresholds = rng.uniform(0.0, 4.0, (9, 1)).astype(np.float32)
    shown = {"threshold": thresholds} if isinstance(constraint, Budget) else {}
    (actions,) = session.run(None, {**given, **shown})
    for row, action in enumerate(actions):
        proposal, _ = agent.propose({name: part[row] for name, part in given.items()}, thresholds[row, 0])
        np.testing.assert_allclose(action, proposal, rtol=1e-5, atol=1e-5)
    assert len(np.unique(actions.round(4))) > 1, "a constant policy would hide mistakes"


def test_what_cannot_be_exported_is_named(tmp_path, monkeypatch):
    pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    with pytest.raises(ValueError, match=r"the layer SiLU\(\) cannot be exported"):
        export_onnx(agent_of(PPO, {"policy_kwargs": {"activation_fn": nn.SiLU}}), tmp_path / "policy.onnx")
    with pytest.raises(ValueError, match=r"this one sees 'observation' as Discrete\(3\)"):
        export_onnx(MASE(Places(), Budget(3.0), Unknown(), PPO, learner_options=QUICK), tmp_path / "policy.onnx")
    with pytest.raises(ValueError, match="it is not a chain of layers"):
        export_onnx(agent_of(RecurrentPPO, {"policy": "MlpLstmPolicy"}), tmp_path / "policy.onnx")
    assert not (tmp_path / "policy.onnx").exists()
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"exporting a policy needs onnx: pip install 'safexp\[onnx\]'"):
        export_onnx(agent_of(PPO, QUICK), tmp_path / "policy.onnx")
