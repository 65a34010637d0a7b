"""Image observations: the learner sees them, quantifiers see signals, entries or features; counted by a ledger."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.vec_env import DummyVecEnv

from safexp import MASE, TRPO, Budget, Calibrated, FeatureRegression, Instantaneous, Unknown, Within, wrap
from safexp.core.encoding import decode_observations, encode_observations, encoded_size, is_image
from support.camera import LIMIT, PIXELS, FilmedCart, cautious_log, place_in

PICTURE = spaces.Box(0, 255, (PIXELS, PIXELS, 1), np.uint8)
SMALL = {"n_steps": 16, "batch_size": 32, "n_epochs": 1}


def carts(number=2, **settings):
    made = [FilmedCart(**settings) for _ in range(number)]
    return DummyVecEnv([lambda cart=cart: cart for cart in made]), made


def quantifier():
    return Calibrated(FeatureRegression(seed=0))


def test_images_have_no_part_in_states():
    mixed = spaces.Dict({"camera": PICTURE, "place": spaces.Box(-1.0, 1.0, (2,), np.float64)})
    batch = {"camera": np.full((3, PIXELS, PIXELS, 1), 7, np.uint8), "place": np.arange(6.0).reshape(3, 2)}
    states = encode_observations(mixed, batch)
    assert (encoded_size(PICTURE), encoded_size(mixed), states.tolist()) == (0, 2, batch["place"].tolist())
    decoded = decode_observations(mixed, states)
    assert not decoded["camera"].any() and decoded["camera"].shape == batch["camera"].shape
    with pytest.raises(ValueError, match=r"images have shape \(3, 36, 36, 2\)"):
        encode_observations(PICTURE, np.zeros((3, PIXELS, PIXELS, 2), np.uint8))
    assert not is_image(spaces.Box(0, 255, (4, 4), np.uint8)) and not is_image(spaces.Box(0.0, 1.0, (4, 4, 3)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("constraint", "measured"),
    [
        (Within("x", low=-LIMIT, high=LIMIT), False),  # a signal of the info
        (Within(place_in, low=-LIMIT + 0.07, high=LIMIT - 0.07), False),  # a feature of the picture, to a column
        (Within("x", low=-LIMIT, high=LIMIT), True),  # a named entry beside the picture
    ],
    ids=["signal", "feature", "entry"],
)
def test_a_learner_of_pictures_keeps_a_limit_by_the_cart_s_own_ledger(constraint, measured):
    venv, made = carts(measured=measured)
    agent = MASE(venv, constraint, quantifier(), PPO, learner_options=SMALL, seed_data=cautious_log(measured), seed=0)
    assert agent.learner.policy_class.__name__ == (
        "MultiInputActorCriticPolicy" if measured else "ActorCriticCnnPolicy"
    )
    agent.learn(320)
    assert sum(map(sum, (cart.ledger for cart in made))) == agent.violations == 0
    assert len(agent.episodes) >= 14
    assert max(abs(cart.x) for cart in made) > 0.3 or sum(one.interventions for one in agent.episodes) > 0


@pytest.mark.slow
@pytest.mark.parametrize("learner", [TRPO, SAC], ids=lambda one: one.__name__)
def test_other_learners_of_pictures_keep_a_budget(learner):
    """The threshold is an entry beside the picture; an off-policy learner stores pictures with their channels first."""
    venv, made = carts()
    options = {"n_steps": 16} if learner is TRPO else {"learning_starts": 10, "batch_size": 8, "buffer_size": 200}
    agent = MASE(venv, Budget(2.0), Unknown(), learner, learner_options=options, seed=0, epoch_steps=50)
    agent.learn(96)
    assert agent.violations == 0
    assert max(max(cart.ledger) for cart in made) <= 2
    observation, _ = FilmedCart().reset(seed=0)
    assert agent.predict(observation, threshold=2.0).action.shape == (1,)


@pytest.mark.slow
def test_an_agent_of_pictures_is_saved_and_loaded(tmp_path):
    venv, _ = carts()
    agent = MASE(venv, Within("x", -LIMIT, LIMIT), quantifier(), PPO, learner_options=SMALL, seed_data=cautious_log())
    agent.learn(32)
    agent.save(tmp_path / "agent")
    loaded, (observation, info) = MASE.load(tmp_path / "agent"), FilmedCart().reset(seed=3)
    decisions = [one.predict(observation, measured=[info["x"]]) for one in (agent, loaded)]
    np.testing.assert_array_equal(decisions[0].action, decisions[1].action)


def test_the_wrapper_shows_pictures_as_they_are():
    cart = FilmedCart()
    env = wrap(cart, Within("x", low=-LIMIT, high=LIMIT), quantifier(), seed_data=cautious_log())
    seen, _ = env.reset(seed=0)
    for _ in range(60):
        assert seen.shape == (PIXELS, PIXELS, 1) and seen.dtype == np.uint8
        seen, _, terminated, truncated, _ = env.step(np.ones(1, np.float32))
        if terminated or truncated:
            seen, _ = env.reset()
    assert sum(cart.ledger) == 0
    assert cart.steps > 0 and len(cart.ledger) >= 3


def test_a_quantifier_that_would_see_nothing_is_refused():
    with pytest.raises(ValueError, match=r"observations are images, which only the learner sees, so Calibrated would"):
        MASE(carts()[0], Instantaneous(0.5), quantifier(), PPO, learner_options=SMALL)


def test_discrete_learners_see_pictures_too():
    class Buttons(gym.ActionWrapper):
        def __init__(self):
            super().__init__(FilmedCart())
            self.action_space = spaces.Discrete(2)

        def action(self, action):
            return np.array([1.0 if action else -1.0], np.float32)

    env = DummyVecEnv([Buttons])
    options = {"learning_starts": 5, "batch_size": 4, "buffer_size": 100}
    agent = MASE(env, Budget(2.0), Unknown(), DQN, learner_options=options, seed=0, epoch_steps=20)
    agent.learn(40)
    assert agent.violations == 0
