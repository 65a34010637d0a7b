"""A supervised step brings proposals nearer to what replaced them, and changes the policy within its limit."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy

from safexp.learners.distributions import family_of
from safexp.learners.imitation import imitate
from safexp.learners.surrogate import PolicyNetwork

BOX, THREE = spaces.Box(-3.0, 3.0, (2,)), spaces.Discrete(3)


def actor_of(space):
    th.manual_seed(0)
    policy = ActorCriticPolicy(spaces.Box(-1.0, 1.0, (3,)), space, lambda _: 1e-3)
    return PolicyNetwork(policy, family_of(space))


def batch(rows=200):
    return th.as_tensor(np.random.default_rng(0).uniform(-1, 1, (rows, 3)), dtype=th.float32)


def test_the_mean_moves_as_the_shield_moved_the_proposals():
    actor, observations = actor_of(BOX), batch()
    old = actor(observations).detach()
    noise = 0.3 * th.randn(200, 2)
    proposed = old[:, :2] + noise
    executed = proposed + th.tensor([0.5, -0.2])
    found = imitate(actor, observations, proposed, executed, th.ones(200), radius=10.0)
    new = actor(observations).detach()
    np.testing.assert_allclose((new - old)[:, :2].mean(dim=0), [0.5, -0.2], atol=0.05)
    assert th.equal(new[:, 2:], old[:, 2:]), "the spread does not change"
    assert found.after < 0.1 * found.before
    assert found.before == pytest.approx(0.5 * (0.5**2 + 0.2**2), rel=1e-4)


def test_the_policy_changes_by_no_more_than_the_radius():
    for radius in (1e-4, 1e-2):
        actor, observations = actor_of(BOX), batch()
        old = actor(observations).detach()
        found = imitate(actor, observations, old[:, :2], old[:, :2] + 2.0, th.ones(200), radius)
        assert float(actor.family.kl(old, actor(observations).detach()).mean()) == pytest.approx(found.kl, rel=1e-3)
        assert 0.5 * radius < found.kl <= radius
        assert found.after < found.before


def test_nothing_is_learned_where_nothing_was_replaced():
    actor, observations = actor_of(BOX), batch()
    old = actor(observations).detach()
    right = observations[:, 0] > 0
    imitate(actor, observations, old[:, :2], old[:, :2] + 1.0, right.float(), radius=10.0)
    moved = (actor(observations).detach() - old)[:, :2].mean(dim=1)
    assert moved[right].mean() > 3 * moved[~right].abs().mean()
    before = actor(observations).detach()
    assert imitate(actor, observations, old[:, :2], old[:, :2] + 1.0, th.zeros(200), radius=10.0) == (0.0, 0.0, 0.0)
    assert th.equal(actor(observations), before)


def test_a_discrete_action_becomes_more_likely():
    actor, observations = actor_of(THREE), batch()
    proposed, executed = th.zeros(200, 1), th.full((200, 1), 2.0)
    old = actor(observations).softmax(dim=1).detach()
    found = imitate(actor, observations, proposed, executed, th.ones(200), radius=0.01)
    new = actor(observations).softmax(dim=1).detach()
    assert (new[:, 2] > old[:, 2]).all()
    assert found.kl <= 0.01
    assert found.before == pytest.approx(float(-old[:, 2].log().mean()), rel=1e-4)
