"""Each learner on problems whose optimum is known: five choices, of which each 1 pays 1 and costs 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecMonitor

from safexp import CPO, MASE, TRPO, Budget, TRPOLagrangian, Unknown
from safexp.envs.early_termination import EarlyTermination
from safexp.envs.saute import Saute
from safexp.envs.vector import as_vec_env
from safexp.mase.baseline import Baseline

STEPS = 5


class Choices(VectorEnv[Any, Any, Any]):
    """Five steps; the part of an action above 0 is paid and costs the same, up to 1 each."""

    def __init__(self, num_envs: int = 80, kind: str = "discrete", truncates: bool = False, always: bool = False):
        self.num_envs, self.kind, self.truncates, self.always = num_envs, kind, truncates, always
        box = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.single_observation_space: Any = spaces.Dict({"time": box}) if kind == "mapping" else box
        self.single_action_space: Any = spaces.Box(-1, 1, (1,), np.float32) if kind == "box" else spaces.Discrete(2)
        self.metadata = {"autoreset_mode": AutoresetMode.DISABLED}
        self.time = np.zeros(num_envs)

    def observe(self) -> Any:
        time = np.array(self.time[:, None] / STEPS, np.float32)
        return {"time": time} if self.kind == "mapping" else time

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.time[(options or {}).get("reset_mask", slice(None))] = 0
        return self.observe(), {}

    def step(self, actions: Any) -> Any:
        amounts = np.maximum(np.asarray(actions, np.float64).reshape(self.num_envs), 0.0)
        if self.always:
            amounts = np.ones(self.num_envs)
        self.time += 1
        over, never = self.time == STEPS, np.zeros(self.num_envs, bool)
        ends = (never, over) if self.truncates else (over, never)
        return self.observe(), amounts, *ends, {"cost": amounts}


class Concave(Choices):
    """The same, where an amount a is paid 2a − a²."""

    def step(self, actions: Any) -> Any:
        observations, amounts, *rest = super().step(actions)
        return observations, 2 * amounts - amounts**2, *rest


def choices(kind="discrete"):
    return VecMonitor(as_vec_env(Choices(kind=kind)))


def mean_return(model):
    return np.mean([info["r"] for info in model.ep_info_buffer])


FAST = {"n_steps": 5, "stats_window_size": 400, "target_kl": 0.05, "policy_kwargs": {"net_arch": [16]}}


@pytest.mark.parametrize("kind", ["discrete", "box", "mapping"])
def test_trpo_takes_all_there_is(kind):
    policy = "MultiInputPolicy" if kind == "mapping" else "MlpPolicy"
    model = TRPO(policy, choices(kind), seed=0, **FAST).learn(10_000)
    assert mean_return(model) > 0.9 * STEPS


@pytest.mark.slow
@pytest.mark.parametrize("limit", [2.0, 0.0])
@pytest.mark.parametrize("learner", [CPO, TRPOLagrangian])
def test_constrained_learners_reach_the_constrained_optimum(learner, limit):
    """Where an amount a costs a and pays 2a − a², it is best to spend the limit evenly."""
    controller = {"penalty_lr": 0.1, "penalty_proportional": 0.5} if learner is TRPOLagrangian else {}
    envs = VecMonitor(as_vec_env(Concave(kind="box")))
    model = learner("MlpPolicy", envs, cost_limit=limit, cost_gamma=1.0, gamma=1.0, seed=0, **controller, **FAST)
    model.learn(14_000)
    assert model.episode_cost()[0] == pytest.approx(limit, abs=0.1)
    assert mean_return(model) == pytest.approx(STEPS * (2 * limit / STEPS - (limit / STEPS) ** 2), abs=0.1)


@pytest.mark.slow
def test_a_multiplier_by_gradient_steps_alone_swings_about_the_limit():
    costs = []

    class Watch(BaseCallback):
        def _on_rollout_end(self):
            costs.append(np.mean([cost for cost, _ in self.model.rollout_buffer.finished]))

        def _on_step(self):
            return True

    envs = as_vec_env(Concave(kind="box"))
    model = TRPOLagrangian("MlpPolicy", envs, cost_limit=2.0, cost_gamma=1.0, gamma=1.0, seed=0, penalty_lr=0.3, **FAST)
    model.learn(20_000, callback=Watch())
    assert min(costs[20:]) < 2.0 < max(costs[20:])
    assert np.mean(costs[20:]) == pytest.approx(2.0, abs=0.4)


@pytest.mark.slow
@pytest.mark.parametrize("learner", [CPO, TRPOLagrangian])
def test_a_limit_that_does_not_bind_changes_nothing(learner):
    model = learner("MlpPolicy", choices(), cost_limit=10.0, seed=0, **FAST).learn(10_000)
    assert mean_return(model) > 0.9 * STEPS


@pytest.mark.slow
def test_discrete_actions_keep_the_limit_in_the_mean():
    model = CPO("MlpPolicy", choices(), cost_limit=1.5, cost_gamma=1.0, seed=0, **FAST).learn(14_000)
    assert mean_return(model) == pytest.approx(1.5, abs=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("truncates", [True, False])
def test_time_outs_bootstrap_in_both_critics_and_ends_do_not(truncates):
    """Always paid and charged 1: cut off, the value is that of an endless episode, 1 / (1 − γ) = 5; ended, less."""

    env = as_vec_env(Choices(truncates=truncates, always=True))
    model = CPO("MlpPolicy", env, n_steps=5, gamma=0.8, cost_gamma=0.8, cost_limit=100, seed=0).learn(8_000)
    start = model.policy.obs_to_tensor(np.zeros((1, 1), np.float32))[0]
    expected = 5.0 if truncates else sum(0.8**t for t in range(STEPS))
    assert float(model.policy.predict_values(start).detach()) == pytest.approx(expected, rel=0.15)
    assert float(model.cost_critic(start).detach()) == pytest.approx(expected, rel=0.15)


@pytest.mark.slow
def test_saute_and_mase_do_not_overspend_after_training():
    limit = 2.5  # two choices may be paid; a third would break the budget
    for agent in (
        Baseline(Saute(as_vec_env(Choices()), Budget(limit)), TRPO, learner_options=FAST, seed=0),
        MASE(Choices(), Budget(limit), Unknown(), TRPO, learner_options=FAST, seed=0),
    ):
        late = agent.learn(14_000).episodes[-400:]
        assert np.mean([episode.violated for episode in late]) < 0.02
        assert np.mean([episode.true_return for episode in late]) > 1.7
        assert isinstance(agent, Baseline) or not any(episode.violated for episode in agent.episodes)


@pytest.mark.slow
def test_under_early_termination_no_reward_is_worth_an_end():
    agent = Baseline(
        EarlyTermination(as_vec_env(Choices()), Budget(2.5), penalty=2.0), TRPO, learner_options=FAST, seed=0
    )
    agent.learn(14_000)
    assert np.mean([episode.violated for episode in agent.episodes[:100]]) > 0.2
    assert np.mean([episode.violated for episode in agent.episodes[-400:]]) < 0.02
