"""The parts that the trust-region learners share, and that they behave as Stable-Baselines3's users expect."""

from __future__ import annotations

import numpy as np
import pytest
import sb3_contrib
import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.vec_env import DummyVecEnv

from safexp import CPO, TRPO, TRPOLagrangian
from safexp.learners.critic import Fit, fit
from safexp.learners.lagrangian import Multiplier
from safexp.learners.rollout import CostRolloutBuffer, advantages
from safexp.mase.learner import find_learner
from support.line import Line

LEARNERS = [TRPO, TRPOLagrangian, CPO]


def lines(num_envs=2, **options):
    return DummyVecEnv([lambda: Line(**options)] * num_envs)


def test_advantages_are_those_of_stable_baselines():
    rng = np.random.default_rng(0)
    box = spaces.Box(-1, 1, (1,))
    theirs = RolloutBuffer(6, box, box, "cpu", gae_lambda=0.9, gamma=0.8, n_envs=3)
    theirs.rewards, theirs.values = rng.normal(size=(2, 6, 3)).astype(np.float32)
    ends = (rng.random((6, 3)) < 0.3).astype(np.float32)
    theirs.episode_starts[1:] = ends[:-1]
    last = rng.normal(size=3).astype(np.float32)
    theirs.compute_returns_and_advantage(th.as_tensor(last), ends[-1])
    following = np.concatenate([theirs.values[1:], last[None]]) * (1 - ends)
    found = advantages(theirs.rewards, theirs.values, following, ends, 0.8, 0.9)
    np.testing.assert_allclose(found, theirs.advantages, rtol=1e-5, atol=1e-6)


def test_a_time_out_is_followed_by_the_state_it_was_cut_off_at():
    box = spaces.Box(-9, 9, (1,))
    rollout = CostRolloutBuffer(2, box, box, "cpu", n_envs=2)
    infos = [{"TimeLimit.truncated": True, "terminal_observation": np.array([7.0])}, {"TimeLimit.truncated": False}]
    none, both = np.zeros(2, bool), np.ones(2, bool)
    rollout.add(0, np.zeros((2, 1)), np.ones(2), np.array([1.0, 2.0]), both, both, infos)
    rollout.add(1, np.zeros((2, 1)), np.ones(2), np.array([3.0, 4.0]), both, none, [{}, {}])
    batch = rollout.last_observations(np.array([[5.0], [6.0]]))
    assert batch.flatten().tolist() == [5.0, 6.0, 7.0]
    following = rollout.following(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([5.0, 6.0, 7.0]))
    assert following.tolist() == [[7.0, 0.0], [5.0, 6.0]]
    assert rollout.episode_cost() == (1.5, 1.0)


def test_what_episodes_cost_goes_on_over_rollouts_and_before_any_has_ended():
    box = spaces.Box(-9, 9, (1,))
    rollout = CostRolloutBuffer(1, box, box, "cpu", n_envs=1)
    first, later, end = np.ones(1, bool), np.zeros(1, bool), np.ones(1, bool)
    rollout.add(0, np.zeros((1, 1)), np.ones(1), np.array([0.5]), first, later, [{}])
    assert rollout.episode_cost() == (0.5, 1.0)
    rollout.reset()
    rollout.add(0, np.zeros((1, 1)), np.ones(1), np.array([0.25]), later, end, [{}])
    assert rollout.episode_cost() == (0.75, 2.0)


@pytest.mark.parametrize("schedule", ["fast", "paper"])
def test_critics_fit_and_leave_the_rest_alone(schedule):
    th.manual_seed(0)
    inputs = th.randn(2000, 3)
    critic = th.nn.Sequential(th.nn.Linear(3, 16), th.nn.Tanh(), th.nn.Linear(16, 1))
    fixed = critic[0].weight.clone()
    free = [critic[0].bias, *critic[2].parameters()]
    optimizer = th.optim.Adam(critic.parameters(), lr=0.03)
    targets = inputs @ th.tensor([0.3, -0.2, 0.1])
    fit(critic, free, optimizer, inputs, targets, Fit.named(schedule))
    assert float(((critic(inputs).flatten() - targets) ** 2).mean().detach()) < 0.02 * float(targets.var())
    assert th.equal(critic[0].weight, fixed)


def test_the_multiplier_is_projected_gradient_ascent_or_a_controller():
    plain = Multiplier(0.1)
    assert [plain.update(cost, 2.0) for cost in (5.0, 3.0, 0.0, -9.0)] == pytest.approx([0.3, 0.4, 0.2, 0.0])
    controller = Multiplier(0.1, proportional=1.0, derivative=2.0)
    assert controller.update(3.0, 2.0) == pytest.approx(1.0 + 0.1)
    assert controller.update(4.0, 2.0) == pytest.approx(2.0 + 0.3 + 2.0)
    assert controller.update(0.0, 2.0) == 0.0


@pytest.mark.parametrize("learner", LEARNERS)
def test_saving_and_loading_goes_on_where_it_was(learner, tmp_path):
    model = learner("MlpPolicy", lines(), n_steps=20, seed=0).learn(80)
    model.save(tmp_path / "model.zip")
    again = learner.load(tmp_path / "model.zip", env=lines())
    observation = np.array([[0.5]])
    assert np.array_equal(
        model.predict(observation, deterministic=True)[0], again.predict(observation, deterministic=True)[0]
    )
    assert again.num_timesteps == 80
    if learner is not TRPO:
        tensor = th.tensor(observation)
        assert th.equal(model.cost_critic(tensor), again.cost_critic(tensor))
        assert again.cost_critic.optimizer.state_dict()["state"]
    if learner is TRPOLagrangian:
        assert again.multiplier.value == model.multiplier.value
    again.learn(40, reset_num_timesteps=False)
    assert again.num_timesteps == 120


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_same_seed_gives_the_same_policy(learner):
    first, second = (learner("MlpPolicy", lines(discrete=True), n_steps=20, seed=3).learn(80) for _ in range(2))
    for one, other in zip(first.policy.parameters(), second.policy.parameters(), strict=True):
        assert th.equal(one, other)


def test_a_callback_can_stop_the_training():
    model = TRPO("MlpPolicy", lines(), n_steps=20, seed=0).learn(200, callback=lambda local, _: local["step"] < 5)
    assert model.num_timesteps == 12


def test_a_sub_sample_of_the_fisher_matrix_is_enough():
    model = TRPO("MlpPolicy", lines(4), n_steps=50, sub_sampling_factor=5, seed=0)
    before = [part.clone() for part in model.policy.mlp_extractor.policy_net.parameters()]
    model.learn(200)
    after = model.policy.mlp_extractor.policy_net.parameters()
    assert not any(th.equal(old, new) for old, new in zip(before, after, strict=True))


def test_ours_is_found_first_and_theirs_is_had_by_its_class():
    assert find_learner("TRPO") is TRPO is not sb3_contrib.TRPO
    assert find_learner("CPO") is CPO
    assert find_learner("ARS") is sb3_contrib.ARS


class Costless(Line):
    def info(self, move):
        return {}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: CPO("MlpPolicy", lines(), cost_limit=-1.0), ValueError, r"cost_limit=-1\.0 must be finite and at"),
        (lambda: TRPO("MlpPolicy", lines(), critic="slow"), ValueError, "critic='slow' is not one of 'fast', 'paper'"),
        (
            lambda: TRPOLagrangian("MlpPolicy", DummyVecEnv([Costless]), n_steps=5).learn(5),
            KeyError,
            r"environment 0 gave no info\['cost'\]",
        ),
        (lambda: find_learner("TRPOO"), ValueError, "unknown learner 'TRPOO': use one of A2C, ARS, CPO"),
    ],
)
def test_errors_say_what_to_do(call, error, message):
    with pytest.raises(error, match=message):
        call()
