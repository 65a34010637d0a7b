"""Algorithm 1, lines 3-12, step by step on a line where every cost can be asked for."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv

from safexp import AllOf, Budget, Instantaneous, JointChance, Known, Penalty, PerCost, Schedule, Shield, Unknown
from safexp.envs.guard import Guard
from safexp.envs.vector import as_vec_env
from safexp.tasks import planar_robot
from safexp.tasks.planar_robot import PlanarRobotVector
from support.line import Line, guard_of, line_cost, walk


class Counting(Known):
    """Knows the line's cost and keeps the numbers of states and of actions that it was asked about."""

    def __init__(self, cost=line_cost, width=0.0):
        super().__init__(cost, width)
        self.calls = []

    def predict(self, states, actions):
        self.calls.append(actions.shape[:2])
        return super().predict(states, actions)


def test_unsafe_actions_never_reach_the_environment():
    guard = guard_of(Instantaneous(0.3), Known(line_cost))
    guard.reset()
    ((_, _, _, (info,)),) = walk(guard, [0.9])
    assert info["shield"]["intervened"]
    assert abs(info["shield"]["action"][0]) <= 0.3
    assert abs(guard.venv.envs[0].executed[0]) <= 0.3


def test_the_episode_stops_before_the_budget_could_be_overspent():
    guard = guard_of(Budget(2.5), Unknown())
    guard.reset()
    steps = walk(guard, [1.0, 1.0])
    (first, last) = steps
    assert not first[2][0]
    observation, reward, done, (info,) = last
    assert done[0]
    assert reward[0] == -1.0
    assert info["shield"]["stopped"]
    assert info["TimeLimit.truncated"] is False
    # What remains is 0.5 of 2.5: it is in the terminal observation, and the next episode starts with all of it.
    np.testing.assert_allclose(info["terminal_observation"], [2.0, 0.2], atol=1e-6)
    np.testing.assert_allclose(observation, [[0.0, 1.0]])
    (episode,) = guard.recorder.episodes
    assert (episode.length, episode.true_return, episode.penalised_return) == (2, 2.0, 0.0)
    assert episode.stopped
    assert not episode.violated
    assert info["episode"]["r"] == 2.0


@pytest.mark.parametrize(("shielding", "violated"), [(True, False), (False, True)])
def test_a_limit_that_is_turned_while_episodes_run_is_kept_and_judged_as_it_held(shielding, violated):
    rng, limit = np.random.default_rng(0), [0.5]
    constraint = Schedule(lambda steps: np.full(len(steps), limit[0]))
    guard = guard_of(constraint, Known(line_cost), num_envs=3, env=lambda: Line(7), shielding=shielding)
    guard.reset()
    excess = []
    for later in [*rng.random(6), 0.0 if shielding else 1.0]:
        held, limit[0] = limit[0], later  # between the observation and the step, for which the old one holds
        ((_, _, _, infos),) = walk(guard, [1.0])
        assert [info["shield"]["threshold"] for info in infos] == pytest.approx([held] * 3)
        excess.append(max(abs(env.executed[-1]) for env in guard.venv.envs) - held)
    assert (max(excess) > 1e-6) == violated
    assert [(episode.length, episode.violated) for episode in guard.recorder.episodes] == [(7, violated)] * 3


def test_nothing_is_tested_when_the_episode_is_over_anyway():
    guard = guard_of(Budget(2.5), Unknown(), env=lambda: Line(2))
    guard.reset()
    _, last = walk(guard, [1.0, 1.0])
    assert last[2][0]
    assert last[1][0] == 1.0
    assert not last[3][0]["shield"]["stopped"]
    assert last[3][0]["TimeLimit.truncated"]


def test_a_budget_may_be_spent_to_the_last_bit():
    guard = guard_of(Budget(1.0), Known(line_cost), env=lambda: Line(20))
    guard.reset()
    walk(guard, [0.125] * 20)
    (episode,) = guard.recorder.episodes
    assert episode.cost == 1.0
    assert not episode.violated
    assert not episode.stopped


def test_the_penalty_replaces_the_reward_of_the_transition_that_led_to_the_stop():
    costs_soon = Known(lambda states, actions: np.where(states[:, 0] > 0.5, 1.0, 0.0), width=0.25)
    guard = guard_of(Instantaneous(0.5), costs_soon, penalty=Penalty(1.0, largest=100.0))
    guard.reset()
    _, rewards, dones, _ = walk(guard, [1.0])[0]
    assert dones[0]
    assert rewards[0] == -4.0


def test_without_a_penalty_the_reward_stays():
    guard = guard_of(Budget(1.5), Unknown(), penalty=None)
    guard.reset()
    _, rewards, dones, _ = walk(guard, [1.0])[0]
    assert dones[0]
    assert rewards[0] == 1.0


def test_the_bare_learner_is_recorded_and_never_stopped():
    guard = guard_of(Budget(2.5), Unknown(), shielding=False, show_threshold=False)
    assert guard.reset().shape == (1, 1)
    walk(guard, [1.0] * 10)
    (episode,) = guard.recorder.episodes
    assert episode.violated
    assert episode.cost == 10.0
    assert not episode.stopped


@pytest.mark.parametrize("num_envs", [1, 5])
def test_all_candidates_are_asked_about_only_where_it_matters(num_envs):
    quantifier = Counting()
    guard = guard_of(Instantaneous(0.3), quantifier, num_envs)
    guard.reset()
    walk(guard, [0.1])
    few, proposals, everything = (num_envs, 2), (num_envs, 1), (num_envs, 65)
    assert quantifier.calls == [few, proposals, few]
    quantifier.calls.clear()
    walk(guard, [0.9])
    assert quantifier.calls == [proposals, everything, few]
    quantifier = Counting()
    guard = guard_of(Budget(100.0), quantifier, num_envs)
    guard.reset()
    walk(guard, [0.9, 0.1, 0.5])
    assert quantifier.calls == []


def test_all_candidates_are_asked_about_at_most_twice_a_step():
    def cost(states, actions):
        """Only about -1 is safe, which is neither the centre nor the last safe action."""
        return np.where(np.abs(actions[:, 0] + 1.0) < 0.01 * (1 + np.abs(states[:, 0])), 0.0, 1.0)

    quantifier = Counting(cost)
    guard = guard_of(Instantaneous(0.5), quantifier, 2)
    guard.reset()
    for _ in range(20):
        quantifier.calls.clear()
        guard.step(np.array([[0.7], [-1.0]], dtype=np.float32))
        assert sum(actions > 2 for _, actions in quantifier.calls) <= 2


def test_a_vouched_action_saves_the_question_about_the_next_state():
    quantifier = Counting()
    guard = guard_of(Instantaneous(0.3), quantifier, safe_action=np.zeros(1))
    guard.reset()
    walk(guard, [0.1])
    assert quantifier.calls == [(1, 1)]


def test_margins_are_harvested_where_the_task_tells_them():
    class Silent(Line):
        def info(self, move):
            return {"cost": super().info(move)["cost"]}

    guard = guard_of(Budget(20.0), Unknown(), num_envs=2, env=lambda: Line(3))
    guard.reset()
    walk(guard, [0.5, 0.25, -0.75, 0.5])
    data = guard.harvest().transitions
    after = data.states[:, 0] + data.actions[:, 0]
    np.testing.assert_allclose(data.margins, 5.0 - np.abs(after), atol=1e-6)
    np.testing.assert_array_equal(data.episodes, [1, 2, 1, 2, 1, 2, 3, 4])
    silent = guard_of(Budget(20.0), Unknown(), env=Silent)
    silent.reset()
    walk(silent, [0.5])
    assert silent.harvest().transitions.margins is None
    batch = as_vec_env(PlanarRobotVector(3))
    guard = Guard(batch, Budget(50.0), Shield(Unknown(), batch.observation_space, batch.action_space), Penalty())
    guard.reset()
    guard.step(np.zeros((3, 2), dtype=np.float32))
    data = guard.harvest().transitions
    np.testing.assert_allclose(data.margins, planar_robot.margin_of(data.states, data.actions))


def test_a_margin_that_is_no_number_is_named():
    class Broken(Line):
        def info(self, move):
            return {**super().info(move), "margin": np.nan if self.steps > 1 else 1.0}

    guard = guard_of(Budget(20.0), Unknown(), env=Broken)
    guard.reset()
    with pytest.raises(ValueError, match=r"environment 0 gave .*nan.*: info\['margin'\] must be a finite"):
        walk(guard, [0.5, 0.5])


def test_the_threshold_is_shown_scaled_and_only_to_the_learner():
    guard = guard_of(Budget(4.0), Unknown())
    np.testing.assert_allclose(guard.reset(), [[0.0, 1.0]])
    np.testing.assert_allclose(walk(guard, [1.0])[0][0], [[1.0, 0.75]])
    assert guard.observation_space.shape == (2,)
    np.testing.assert_array_equal(guard.raw(guard.observations), [[1.0]])
    small = guard_of(Budget(0.5), Known(line_cost))
    np.testing.assert_allclose(small.reset(), [[0.0, 0.5]])


def test_dicts_and_other_spaces_get_a_threshold_of_their_own():
    guard = guard_of(Budget(2.0), Unknown(), env=lambda: Line(mapping=True))
    first = guard.reset()
    assert set(first) == {"place", "threshold"}
    np.testing.assert_allclose(first["threshold"], [[1.0]])
    assert set(guard.raw(first)) == {"place"}
    _, _, _, (info,) = walk(guard, [1.0, 1.0])[1]
    assert set(info["terminal_observation"]) == {"place", "threshold"}

    class Cells(Line):
        def __init__(self):
            super().__init__(discrete=True)
            self.observation_space = spaces.Discrete(9)

        def observe(self):
            return int(self.place) + 4

    cells = guard_of(Budget(2.0), Unknown(), env=Cells)
    assert set(cells.reset()) == {"observation", "threshold"}


def test_several_constraints_at_once():
    constraint = AllOf(Budget(2.0), Instantaneous(0.6))
    guard = guard_of(constraint, PerCost(Known(line_cost), Known(line_cost)))
    np.testing.assert_allclose(guard.reset(), [[0.0, 1.0, 0.6]], atol=1e-6)
    steps = walk(guard, [0.9] * 10)
    assert all(abs(info["shield"]["action"][0]) <= 0.6 for *_, (info,) in steps)
    assert not any(episode.violated for episode in guard.recorder.episodes)


def test_joint_chance_spends_its_bounds():
    unsafe = JointChance(0.25, unsafe=lambda observations: np.abs(observations[:, 0]) > 50)
    risky = Known(lambda states, actions: np.zeros(len(states)), width=0.1)
    guard = guard_of(unsafe, risky)
    guard.reset()
    first, second = walk(guard, [0.0, 0.0])
    assert not first[2][0]
    assert second[2][0]
    assert guard.recorder.episodes[0].stopped


def test_harvest_gives_executed_actions_and_true_costs_once():
    guard = guard_of(Instantaneous(0.3), Known(line_cost))
    guard.reset()
    walk(guard, [0.9, 0.1])
    data = guard.harvest().transitions
    np.testing.assert_allclose(data.costs, np.abs(data.actions[:, 0]))
    assert data.costs.max() <= 0.3
    np.testing.assert_allclose(data.states[1], data.actions[0], atol=1e-6)
    assert guard.harvest() is None


def test_discrete_actions_are_masked():
    guard = guard_of(Instantaneous(0.5), Known(line_cost), num_envs=2, env=lambda: Line(discrete=True))
    guard.reset()
    np.testing.assert_array_equal(guard.env_method("action_masks"), [[False, True, False]] * 2)
    assert guard.has_attr("action_masks")
    guard.step(np.array([0, 2]))
    assert [env.executed for env in guard.venv.envs] == [[0.0], [0.0]]


def test_a_broken_observation_is_named():
    class Blind(Line):
        def observe(self):
            return np.array([np.nan if self.steps > 1 else 0.0])

    guard = guard_of(Budget(20.0), Unknown(), env=Blind)
    guard.reset()
    with pytest.raises(ValueError, match="observation 0 of the batch holds a NaN"):
        walk(guard, [0.0, 0.0])


def test_an_environment_may_write_into_its_action():
    class Writes(Line):
        def step(self, action):
            result = super().step(action)
            action *= 0
            return result

    guard = guard_of(Budget(20.0), Unknown(), env=Writes)
    guard.reset()
    walk(guard, [0.5])
    np.testing.assert_array_equal(guard.harvest().transitions.actions, [[0.5]])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ({"observation_space": spaces.Dict({"threshold": spaces.Discrete(2)})}, "already have the key 'threshold'"),
    ],
)
def test_spaces_that_would_be_misread_are_refused(spoil, message):
    def env():
        line = Line()
        for name, space in spoil.items():
            setattr(line, name, space)
        return line

    with pytest.raises(ValueError, match=message):
        guard_of(Budget(2.0), Unknown(), env=env)


def test_whole_numbered_observations_keep_their_threshold():
    class Whole(Line):
        def __init__(self):
            super().__init__()
            self.observation_space = spaces.Box(-100, 100, (1,), np.int64)

        def observe(self):
            return np.array([round(self.place)])

    guard = guard_of(Budget(4.0), Unknown(), env=Whole)
    guard.reset()
    np.testing.assert_allclose(walk(guard, [1.0])[0][0]["threshold"], [[0.75]])


class Reusing(DummyVecEnv):
    """Writes every observation over the last one."""

    def reset(self):
        self.page = super().reset().copy()
        return self.page

    def step_wait(self):
        self.page[:], *rest = super().step_wait()
        return self.page, *rest


def test_an_environment_may_write_over_its_observations():
    constraint = Budget(9.0, cost=lambda before, actions, after: np.abs(after - before)[:, 0])
    venv = Reusing([Line])
    guard = Guard(venv, constraint, Shield(Unknown(), venv.observation_space, venv.action_space), Penalty(1.0))
    guard.reset()
    walk(guard, [0.1, 0.2, 0.3])
    np.testing.assert_allclose(guard.harvest().transitions.costs, [0.1, 0.2, 0.3], rtol=1e-6)
