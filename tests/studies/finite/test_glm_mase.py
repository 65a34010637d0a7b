from __future__ import annotations

import time

import numpy as np
import pytest

from safexp.quantifiers.links import LOGISTIC
from safexp.studies.finite.glm_mase import GLMMASE, GLMMASESettings, ball_least_squares, theorem_level
from safexp.studies.finite.linear_mdp import STOP, random_linear_cmdp


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_it_never_violates_and_comes_near_the_optimum(seed: int, forced: bool) -> None:
    problem = random_linear_cmdp(np.random.default_rng(seed))
    learner = GLMMASE(
        problem, GLMMASESettings(forced_exploration=forced, margin=0.1), np.random.default_rng(100 + seed)
    )
    values = []
    for _ in range(300):
        episode = learner.episode()
        costs = problem.cost[episode.states[:-1], episode.actions]
        assert np.all(costs <= problem.thresholds[: len(costs)])
        values.append(problem.policy_value(episode.policy))
    assert np.mean(values[-50:]) >= 0.94 * problem.optimal_value
    assert max(values) <= problem.optimal_value + 1e-9


def test_costs_behind_a_logistic_link_with_noise() -> None:
    problem = random_linear_cmdp(np.random.default_rng(0), link=LOGISTIC, margin=0.02, threshold_spread=0.01)
    settings = GLMMASESettings(noise=0.02, regulariser=0.01, seed_visits=2000, seed_everywhere=True)
    learner = GLMMASE(problem, settings, np.random.default_rng(1))
    for _ in range(60):
        episode = learner.episode()
        costs = problem.cost[episode.states[:-1], episode.actions]
        assert np.all(costs <= problem.thresholds[: len(costs)])


def test_the_paper_s_width_certifies_nothing() -> None:
    problem = random_linear_cmdp(np.random.default_rng(0))
    learner = GLMMASE(problem, GLMMASESettings(width="paper", seed_visits=1000), np.random.default_rng(0))
    assert not learner.can_start()
    assert theorem_level(learner.quantifier, 0.1) > 20_000
    with pytest.raises(RuntimeError, match="no action is certified in the first state 0: the seed tells too little"):
        learner.episode()


def test_a_run_is_its_seed_s() -> None:
    problem = random_linear_cmdp(np.random.default_rng(5))
    runs = [GLMMASE(problem, GLMMASESettings(), np.random.default_rng(7)) for _ in range(2)]
    for _ in range(30):
        first, second = (run.episode() for run in runs)
        assert np.array_equal(first.policy, second.policy)
        assert np.array_equal(first.states, second.states)


def test_stops_come_before_the_step() -> None:
    """Where an episode is stopped, the last state has no certified action and nothing was executed in it."""
    problem = random_linear_cmdp(np.random.default_rng(1))
    learner = GLMMASE(problem, GLMMASESettings(), np.random.default_rng(1))
    stopped = [episode for episode in (learner.episode() for _ in range(100)) if episode.stopped]
    assert stopped
    for episode in stopped:
        assert len(episode.states) == len(episode.actions) + 1 <= problem.horizon
        assert episode.policy[len(episode.actions), episode.states[-1]] == STOP


def test_an_episode_is_quick() -> None:
    learner = GLMMASE(random_linear_cmdp(np.random.default_rng(0)), GLMMASESettings(), np.random.default_rng(0))
    began = time.process_time()
    for _ in range(200):
        learner.episode()
    # It takes under 1 ms; 4 leave room for a busy machine.
    assert (time.process_time() - began) / 200 <= 0.004


def test_least_squares_on_the_sphere() -> None:
    generator = np.random.default_rng(0)
    root = generator.normal(size=(6, 4))
    gram, moment = root.T @ root, 50.0 * generator.normal(size=4)
    theta = ball_least_squares(gram, moment)
    assert np.linalg.norm(theta) == pytest.approx(1.0, abs=1e-9)
    pull = moment - gram @ theta
    assert pull @ theta == pytest.approx(np.linalg.norm(pull), rel=1e-9)
