"""Levels belong to one cost each, and a cost that is none of them is an error; K costs need K thresholds."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import PPO

from safexp import MASE, AllOf, Budget, Instantaneous, Known, PerCost, Shield, ShieldedPolicy
from safexp.shield.bounds import LEVEL_TOLERANCE, as_levels, ask, check_levels
from support.line import Line, line_cost

BOX = spaces.Box(-1.0, 1.0, (1,), np.float32)


def visits(states, actions):
    """Stepping far costs 1, else 0."""
    return (line_cost(states, actions) > 0.5).astype(float)


class TwoCosts(Line):
    def info(self, move):
        return super().info(move) | {"far": float(abs(move) > 0.5)}


BOTH = AllOf(Budget(2.0, cost="far"), Instantaneous(0.3))


def test_levels_of_one_cost_do_not_round_another():
    agent = MASE(
        TwoCosts(),
        BOTH,
        PerCost(Known(visits), Known(line_cost)),
        PPO,
        learner_options={"n_steps": 32, "batch_size": 8},
        levels=[(0, 1), None],
        seed=0,
    )
    agent.learn(200)
    assert agent.violations == 0
    assert len(agent.episodes) > 10


def test_one_list_of_levels_for_several_costs_is_refused():
    quantifier = PerCost(Known(visits), Known(line_cost))
    with pytest.raises(ValueError, match=r"levels=\(0, 1\) must be 2 lists, one for each cost"):
        MASE(TwoCosts(), BOTH, quantifier, PPO, levels=(0, 1))


def test_a_cost_that_is_no_level_raises_after_it_was_recorded():
    env = Line()
    agent = MASE(
        env, Budget(2.0), Known(line_cost), PPO, learner_options={"n_steps": 32, "batch_size": 8}, levels=(0, 1), seed=0
    )
    with pytest.raises(ValueError, match=r"cost 0 was 0\.\d+ .* which is not one of its levels \[0\.0, 1\.0\]"):
        agent.learn(32)
    assert agent.guard.recorder.steps == len(env.executed)


def test_a_deployed_shield_stops_rounding_when_a_cost_is_no_level():
    uncertain = Known(lambda states, actions: np.full(len(states), 0.6))
    shield = Shield(uncertain, BOX, BOX, levels=(0, 1))
    policy = ShieldedPolicy(lambda seen: np.zeros(1), shield, Instantaneous(0.5), fallback=np.ones(1))
    policy.reset(np.zeros(1))
    assert policy.act(np.zeros(1)).outcome == "proposal"  # 0.6 rounds down to 0
    policy.observe(0.4)
    assert policy.bad_costs == 1
    assert policy.act(np.zeros(1)).outcome == "stop"


def test_levels_survive_a_file(tmp_path):
    both = PerCost(Known(visits), Known(line_cost))
    shield = Shield(both, BOX, BOX, levels=[(1, 0), None])
    document, _ = shield.describe()
    assert document["levels"] == [[0.0, 1.0], None]
    assert Shield(Known(visits), BOX, BOX, levels=(1, 0)).describe()[0]["levels"] == [0.0, 1.0]


def test_a_shield_of_two_costs_refuses_one_threshold():
    shield = Shield(PerCost(Known(visits), Known(line_cost)), BOX, BOX)
    with pytest.raises(ValueError, match="1 thresholds for each state, but PerCost bounds 2 costs"):
        shield.filter(np.zeros(1), np.ones(1), threshold=1.0)
    with pytest.raises(ValueError, match="3 thresholds for each state, but Known bounds 1 costs"):
        Shield(Known(visits), BOX, BOX).filter(np.zeros(1), np.ones(1), threshold=np.ones(3))


def test_a_shielded_policy_refuses_a_constraint_of_other_costs():
    two = Shield(PerCost(Known(visits), Known(line_cost)), BOX, BOX)
    with pytest.raises(ValueError, match="Budget limits 1 costs, but the shield bounds 2"):
        ShieldedPolicy(lambda seen: np.zeros(1), two, Budget(20.0), fallback=np.zeros(1))
    with pytest.raises(ValueError, match="AllOf limits 2 costs, but the shield bounds 1"):
        ShieldedPolicy(lambda seen: np.zeros(1), Shield(Known(visits), BOX, BOX), BOTH, fallback=np.zeros(1))


class Expected(Known):
    """Bounds what a cost is on average."""

    bounds_realised_cost = False


@pytest.mark.parametrize(
    "levels",
    [
        [(0, 1)],
        [(0, 1), None, None],
        [(0, 1), 1],
        [None, np.array([0.0, 1.0])],
        (0, 1),
    ],
)
def test_levels_are_one_list_for_each_cost(levels):
    with pytest.raises(ValueError, match="must be 2 lists, one for each cost"):
        as_levels(levels, PerCost(Known(visits), Known(visits)))


@pytest.mark.parametrize("bad", [(-0.1, 1.0), (0.0, 1.1), (), (0.5, -0.1, 0.7)])
def test_the_levels_of_each_cost_are_costs(bad):
    both = PerCost(Known(visits), Known(visits))
    for levels in ([bad, None], [None, bad], [(0, 1), bad]):
        with pytest.raises(ValueError, match=r"must be one or more costs in \[0, 1\]"):
            as_levels(levels, both)


def test_only_costs_with_levels_need_a_bound_on_what_is_observed():
    both = PerCost(Expected(visits), Known(visits))
    first, second = as_levels([None, (1, 0.5, 0)], both)
    assert first is None
    assert second.tolist() == [0.0, 0.5, 1.0]
    with pytest.raises(ValueError, match="would round the bounds of Expected down"):
        as_levels([(0, 1), None], both)
    with pytest.raises(ValueError, match="would round the bounds of Expected down"):
        as_levels((0, 1), Expected(visits))
    assert as_levels(None, both) is None


def test_the_levels_of_one_cost_may_be_an_array():
    (levels,) = as_levels(np.array([1.0, 0.25]), Known(visits))
    assert levels.tolist() == [0.25, 1.0]


def test_a_cost_is_a_level_up_to_rounding():
    levels = (None, np.array([0.0, 0.5, 1.0]))
    fine = np.array([[0.3, 0.5 + LEVEL_TOLERANCE / 2], [0.7, 1.0 - LEVEL_TOLERANCE / 2], [0.1, 0.0]])
    check_levels(levels, fine)
    check_levels(levels, np.array([[0.3, LEVEL_TOLERANCE]]))
    for near in (0.5 + 3 * LEVEL_TOLERANCE, 0.5 - 3 * LEVEL_TOLERANCE):
        with pytest.raises(ValueError, match=r"cost 1 was 0\.\d+ .* not one of its levels \[0\.0, 0\.5, 1\.0\]"):
            check_levels(levels, np.array([[0.3, near], [0.3, 0.0]]))


def test_the_cost_that_is_farthest_from_its_levels_is_named():
    with pytest.raises(ValueError, match=r"cost 0 was 0\.25 "):
        check_levels((np.array([0.0, 1.0]),), np.array([1.0, 0.125, 0.25, 0.0]))


def test_each_cost_is_rounded_to_its_own_levels():
    certain = PerCost(Known(lambda s, a: np.full(len(s), 0.6)), Known(lambda s, a: np.full(len(s), 0.9)))
    ends = np.array([0.0, 1.0])
    for levels, expected in (
        ((None, ends), [0.6, 0.0]),
        ((ends, None), [0.0, 0.9]),
        ((np.array([0.5, 1.0]), np.array([0.7, 0.8])), [0.5, 0.8]),
        (None, [0.6, 0.9]),
    ):
        bounds, _, problem = ask(certain, np.zeros((2, 1)), np.zeros((2, 3, 1)), levels)
        np.testing.assert_allclose(bounds, np.tile(expected, (2, 3, 1)))
        assert problem == ""


def test_each_of_several_costs_must_be_one_of_its_own_levels():
    shield = Shield(PerCost(Known(visits), Known(line_cost)), BOX, BOX, levels=[(0, 1), None])
    shield.check_levels(np.array([[1.0, 0.3]]))
    with pytest.raises(ValueError, match=r"cost 0 was 0\.3"):
        shield.check_levels(np.array([[0.3, 1.0]]))
