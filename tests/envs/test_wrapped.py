"""The shield as a Gymnasium wrapper: the same record as MASE gives, for any loop."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import PassiveEnvChecker, RecordEpisodeStatistics
from gymnasium.wrappers.vector import RecordEpisodeStatistics as RecordAll
from stable_baselines3 import PPO

import safexp
from safexp import MASE, Budget, Calibrated, ExactGP, Instantaneous, Known, Penalty, SparseGP, Unknown, wrap
from safexp.envs.vector import as_vec_env
from support.line import Line, line_cost
from support.tally import Tally


def robots(num_envs: int) -> SyncVectorEnv:
    return SyncVectorEnv([lambda: Tally(gym.make("safexp/PlanarRobot-v0"))] * num_envs)


def settings(kind: str) -> dict[str, Any]:
    """A constraint and a quantifier, with the arguments that MASE and wrap share."""
    if kind == "budget":
        return {"constraint": Budget(3.0), "quantifier": Unknown(), "penalty": Penalty(0.5)}
    knowledge = gym.make_vec("safexp/PlanarRobot-v0", num_envs=1).knowledge
    log = knowledge.log(np.random.default_rng(0))
    exact = ExactGP(lengthscale=[0.3, 0.3, 5, 5, 7.5, 7.5], norm_bound=2.0, capacity=300)
    return {"constraint": Instantaneous(0.3), "quantifier": exact, "seed_data": log}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["budget", "limit"])
def test_the_record_is_that_of_mase_for_the_same_seed_and_proposals(kind):
    envs, proposals, starts = robots(3), [], []
    options = {"n_steps": 64, "batch_size": 192, "n_epochs": 1}
    agent = MASE(envs, **settings(kind), learner=PPO, learner_options=options, seed=1)
    agent.guard.pupil = lambda shown, proposed, executed, replaced: proposals.append(proposed.copy())
    agent.on_epoch(lambda last: starts.append(len(proposals)))
    agent.learn(700)

    own = robots(3)
    wrapped = wrap(own, **settings(kind))
    observations, _ = wrapped.reset(seed=1)
    for step, proposed in enumerate(proposals):
        assert wrapped.single_observation_space.contains(observations[0])
        observations, *_ = wrapped.step(proposed)
        if step + 1 in starts:
            observations, stopped = wrapped.end_epoch()
            assert stopped.shape == (3,)
    assert wrapped.episodes == agent.episodes and len(agent.episodes) > 10
    assert any(episode.stopped for episode in agent.episodes)
    assert wrapped.violations == agent.violations == 0
    assert wrapped.coverage == agent.coverage and len(agent.coverage) == len(starts)
    assert wrapped.metrics() == agent.metrics()
    for ours, theirs in zip(own.envs, envs.envs, strict=True):
        assert ours.sums == theirs.sums  # counted inside the environments
        np.testing.assert_array_equal(ours.actions, theirs.actions)
        assert max(ours.sums) <= 3.0 or kind == "limit"


def test_a_single_environment_gives_the_record_of_a_vector_of_one():
    rng = np.random.default_rng(0)
    one, many = (wrap(env, Budget(3.0), Unknown()) for env in (gym.make("safexp/PlanarRobot-v0"), robots(1)))
    observation, _ = one.reset(seed=5)
    np.testing.assert_array_equal(observation, many.reset(seed=5)[0][0])
    for _ in range(300):
        action = rng.normal(size=2)
        observation, reward, terminated, truncated, info = one.step(action)
        all_observations, rewards, all_terminated, all_truncated, infos = many.step(action[None])
        assert (reward, terminated, truncated) == (rewards[0], all_terminated[0], all_truncated[0])
        np.testing.assert_array_equal(info["shield"]["action"], np.clip(action, -1, 1).astype(np.float32))
        assert info["shield"]["threshold"] == infos["shield"]["threshold"][0]
        if terminated or truncated:
            np.testing.assert_array_equal(observation, infos["final_obs"][0])
            observation, _ = one.reset()
        np.testing.assert_array_equal(observation, all_observations[0])
    assert [found.length for found in one.episodes] == [found.length for found in many.episodes]
    assert [found.cost for found in one.episodes] == [found.cost for found in many.episodes]
    assert len(one.episodes) >= 3


def test_gymnasium_accepts_both_and_its_own_statistics_agree():
    env = PassiveEnvChecker(RecordEpisodeStatistics(wrap(gym.make("safexp/PlanarRobot-v0"), Budget(3.0), Unknown())))
    env.reset(seed=0)
    returns = []
    for _ in range(200):
        *_, terminated, truncated, info = env.step(np.ones(2, dtype=np.float32))
        if terminated or truncated:
            returns.append(info["episode"]["r"])
            env.reset()
    assert returns == pytest.approx(
        [episode.penalised_return for episode in env.get_wrapper_attr("episodes")], abs=1e-4
    )

    envs = RecordAll(wrap(robots(2), Budget(3.0), Unknown()))
    assert envs.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    envs.reset(seed=0)
    for _ in range(100):
        observations, *_ = envs.step(np.ones((2, 2)))
        assert envs.observation_space.contains(observations)
    assert len(envs.return_queue) == len(envs.env.episodes) > 0


def test_a_stop_is_an_end_and_a_time_limit_is_not():
    env = wrap(Line(horizon=3), Budget(2.5), Unknown())
    env.reset(seed=0)
    env.step([1.0])
    observation, reward, terminated, truncated, info = env.step([1.0])
    assert (reward, terminated, truncated, info["shield"]["stopped"]) == (-0.5, True, False, True)
    assert observation.tolist() == pytest.approx([2.0, 0.2])
    assert "terminal_observation" not in info
    with pytest.raises(ResetNeeded, match="the episode has ended: call reset"):
        env.step([0.0])
    assert env.reset()[0].tolist() == [0.0, 1.0]
    *_, terminated, truncated, info = [env.step([0.1]) for _ in range(3)][-1]
    assert (terminated, truncated, info["shield"]["stopped"]) == (False, True, False)

    envs = wrap(SyncVectorEnv([lambda: Line(2), lambda: Line(9)]), Budget(1.5), Unknown())
    envs.reset()
    _, _, terminated, truncated, infos = [envs.step(np.array([[0.0], [0.3]])) for _ in range(2)][-1]
    assert (terminated.tolist(), truncated.tolist()) == ([False, True], [True, False])
    assert infos["_final_obs"].tolist() == [True, True] and infos["final_obs"][1].tolist() == pytest.approx([0.6, 0.6])
    assert infos["final_info"]["shield"]["stopped"].tolist() == [False, True]


def test_without_automatic_resets_the_last_observation_stays_until_it_is_asked_for_the_first():
    horizons = [lambda: Line(2), lambda: Line(3)]
    envs = wrap(SyncVectorEnv(horizons), Budget(9.0), Unknown(), autoreset_mode=AutoresetMode.DISABLED)
    envs.reset()
    envs.step(np.full((2, 1), 0.5))
    observations, _, _, truncated, infos = envs.step(np.full((2, 1), 0.5))
    assert truncated.tolist() == [True, False] and "final_obs" not in infos
    assert observations[:, 0].tolist() == [1.0, 1.0]
    with pytest.raises(ResetNeeded, match=r"reset with the reset_mask \[True, False\]"):
        envs.step(np.zeros((2, 1)))
    observations, _ = envs.reset(options={"reset_mask": truncated})
    assert observations[:, 0].tolist() == [0.0, 1.0]
    observations, *_ = envs.step(np.full((2, 1), 0.5))
    assert observations[:, 0].tolist() == [0.5, 1.5]
    assert [episode.length for episode in envs.episodes] == [2, 3]


def test_only_certified_actions_are_executed_and_the_backup_drives_where_there_is_none():
    inner = Line(horizon=50)
    env = wrap(inner, Instantaneous(0.3), Known(line_cost))
    env.reset()
    *_, info = env.step([0.9])
    assert info["shield"]["intervened"] and abs(inner.executed[0]) <= 0.3
    brake = safexp.Fallback(
        lambda observations: np.zeros((len(observations), 1)), lambda observations: np.full(len(observations), 0.5)
    )
    driven = wrap(Line(horizon=20), Budget(12.0), Unknown(), backup=brake)
    driven.reset()
    over, taken = False, []
    while not over:
        *_, terminated, truncated, info = driven.step([1.0])
        over = terminated or truncated
        taken.append(info["shield"]["takeover"])
    assert any(taken) and not taken[0] and driven.violations == 0


def test_resets_begin_no_episode_twice():
    tally = Tally(Line(horizon=2))
    env = wrap(tally, Budget(5.0), Unknown())
    for _ in range(3):  # reset by the guard at each end, and by the loop
        env.reset()
        env.step([0.1])
        env.step([0.1])
    assert [episode.length for episode in env.episodes] == [2, 2, 2]
    assert len(tally.sums) == 4
    env.reset(seed=3)
    assert len(tally.sums) == 5
    env.step([0.1])
    env.reset()  # leaves an episode
    assert [episode.length for episode in env.episodes] == [2, 2, 2, 1]


def test_a_refit_that_withdraws_a_certificate_stops_the_episode():
    env = wrap(Line(horizon=50), Instantaneous(0.3), Withdrawing())
    env.reset()
    first, _, _, _, _ = env.step([0.2])
    assert first.tolist() == pytest.approx([0.2])
    with pytest.raises(safexp.NothingSafeError):
        env.end_epoch()

    kept = wrap(Line(horizon=50), Budget(3.0), Unknown())
    kept.reset()
    first, *_ = kept.step([0.2])
    again, stopped = kept.end_epoch()
    assert not stopped
    np.testing.assert_array_equal(first, again)


class Withdrawing(Known):
    """Knows the line's cost until it is updated, and nothing from then on."""

    def __init__(self) -> None:
        super().__init__(line_cost)
        self.lost = False

    def predict(self, states: Any, actions: Any) -> Any:
        mean, width = super().predict(states, actions)
        return mean, np.full_like(width, 9.0) if self.lost else width

    def update(self, data: Any) -> None:
        self.lost = True


def test_a_step_that_raises_is_counted_and_needs_a_reset():
    class Breaking(Line):
        def info(self, move: float) -> dict[str, Any]:
            return {} if self.steps == 2 else super().info(move)

    env = wrap(Breaking(), Budget(3.0), Unknown())
    env.reset()
    env.step([0.1])
    with pytest.raises(KeyError, match="gave no info"):
        env.step([0.1])
    with pytest.raises(RuntimeError, match="call reset"):
        env.step([0.1])
    with pytest.raises(ResetNeeded, match="call reset"):
        env.end_epoch()
    env.reset()
    assert [episode.length for episode in env.episodes] == [2]


def test_discrete_actions_have_masks():
    env = wrap(Line(discrete=True), Instantaneous(0.3), Known(line_cost))
    env.reset()
    assert env.action_masks().tolist() == [[False, True, False]]
    *_, info = env.step(2)
    assert info["shield"]["action"] == 1


def test_what_is_refused_names_the_remedy():
    with pytest.raises(TypeError, match=r"expected a Gymnasium Env or VectorEnv; a VecEnv .* trained by safexp.MASE"):
        wrap(as_vec_env(Line()), Budget(1.0), Unknown())
    with pytest.raises(ValueError, match=r"give Calibrated\(\.\.\.\) of it, or trust='uncalibrated'"):
        wrap(Line(), Instantaneous(0.3), SparseGP())
    with pytest.raises(TypeError, match=r"penalty=1 is not a safexp.Penalty"):
        wrap(Line(), Budget(1.0), Unknown(), penalty=1)
    wrap(Line(), Instantaneous(0.3), Calibrated(SparseGP()))
    envs = wrap(robots(2), Budget(9.0), Unknown())
    with pytest.raises(ValueError, match=r"autoreset_mode=.*begins its next episode at once"):
        wrap(robots(2), Budget(1.0), Unknown(), autoreset_mode=AutoresetMode.NEXT_STEP)
    envs.reset()
    envs.step(np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"options\['reset_mask'\]=\[True, False\]: reset the environments whose"):
        envs.reset(options={"reset_mask": [True, False]})


def test_evaluation_can_execute_every_proposal():
    env = wrap(Line(), Instantaneous(0.3), Known(line_cost))
    env.reset()
    env.evaluate(shielded=False)
    *_, info = env.step([0.9])
    assert info["shield"]["action"] == pytest.approx([0.9])
    assert env.violations == 1
