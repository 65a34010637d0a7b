"""The state z of Sauté RL, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv

from safexp import Budget, Instantaneous
from safexp.envs.saute import Saute
from support.line import Line


def walk(envs, moves):
    return [envs.step(np.full((envs.num_envs, 1), move, dtype=np.float32)) for move in moves]


def line(constraint, horizon_of_line=10, mapping=False, **options):
    envs = Saute(DummyVecEnv([lambda: Line(horizon_of_line, mapping=mapping)]), constraint, **options)
    envs.reset()
    return envs


def test_what_remains_falls_by_what_is_spent_and_then_the_reward_is_lost():
    envs = line(Budget(2.0))
    steps = walk(envs, [0.5, 0.5, 1.0, 0.0])
    assert [float(observation[0, 1]) for observation, *_ in steps] == pytest.approx([0.75, 0.5, 0.0, 0.0])
    assert [float(reward[0]) for _, reward, *_ in steps] == [1.0, 1.0, -1.0, -1.0]
    assert not any(step[2][0] for step in steps)


def test_a_discount_of_its_own_rescales_the_budget():
    envs = line(Budget(2.0), discount=0.9, horizon=10)
    budget = 2.0 * (1 - 0.9**10) / (0.1 * 10)
    assert envs.budget == pytest.approx(budget)
    first, second = walk(envs, [0.5, 0.25])
    z = (1 - 0.5 / budget) / 0.9
    assert float(first[0][0, 1]) == pytest.approx(z)
    assert float(second[0][0, 1]) == pytest.approx((z - 0.25 / budget) / 0.9)


def test_a_discounted_budget_is_its_own():
    envs = line(Budget(2.0, discount=0.9))
    assert (envs.budget, envs.discount) == (2.0, 0.9)
    steps = walk(envs, [1.0, 1.0])
    assert float(steps[-1][0][0, 1]) == pytest.approx((2.0 - 1.0 - 0.9) / 2.0 / 0.81)
    assert float(steps[-1][1][0]) == 1.0


def test_a_new_episode_has_the_whole_budget_and_the_last_observation_what_was_left():
    envs = line(Budget(2.0), horizon_of_line=2)
    _, (observation, _, done, (info,)) = walk(envs, [0.5, 0.5])
    assert done[0] and info["TimeLimit.truncated"]
    np.testing.assert_allclose(info["terminal_observation"], [1.0, 0.5])
    np.testing.assert_allclose(observation, [[0.0, 1.0]])


def test_episodes_are_recorded_by_their_true_rewards_and_costs():
    envs = line(Budget(0.5), horizon_of_line=2, unsafe_reward=-3.0)
    walk(envs, [1.0, 0.0])
    (episode,) = envs.recorder.episodes
    assert (episode.true_return, episode.penalised_return) == (2.0, -6.0)
    assert (episode.cost, episode.violated, episode.stopped) == (1.0, True, False)


def test_mappings():
    envs = line(Budget(2.0), mapping=True)
    ((observation, *_),) = walk(envs, [1.0])
    assert set(observation) == {"place", "remaining"}
    assert observation["remaining"].tolist() == [[0.5]]
    assert envs.observation_space.contains({key: part[0] for key, part in observation.items()})


@pytest.mark.parametrize(
    ("constraint", "options", "message"),
    [
        (Budget(0.0), {}, "divides by a budget: give a Budget whose limit is above 0"),
        (Instantaneous(0.5), {}, "divides by a budget"),
        (Budget(1.0), {"discount": 0.9}, r"Saute\(discount=0\.9, horizon=None\) needs"),
        (Budget(1.0, 0.95), {"discount": 0.9, "horizon": 5}, "needs an undiscounted Budget"),
    ],
)
def test_a_budget_that_cannot_be_rescaled_is_refused(constraint, options, message):
    with pytest.raises(ValueError, match=message):
        line(constraint, **options)
