"""Rollout: exact on linear systems, its width where it does not know, replays, files, and errors that help."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from safexp import (
    Backup,
    Calibrated,
    CheckpointError,
    Instantaneous,
    Log,
    Rollout,
    Shield,
    ShieldedPolicy,
    SparseGP,
    Within,
)
from safexp.quantifiers.base import Transitions
from safexp.quantifiers.dynamics import Dynamics
from safexp.quantifiers.polynomial import degrees
from safexp.quantifiers.replays import Course, drilled, replay
from safexp.shield.lookahead import course_of
from safexp.shield.transitions import transitions_of
from support.cart import Cart, advance, brake, cautious_log

LIMIT = Within(0, low=-1.0, high=1.0)
STATES, ACTIONS = Cart().observation_space, Cart().action_space


def shield_of(quantifier=None, horizon=20, log=None, **options) -> Shield:
    shield = Shield(
        quantifier or Rollout(), STATES, ACTIONS, constraint=LIMIT, backup=Backup(brake, horizon), **options
    )
    shield.fit(log or cautious_log())
    return shield


def worst_position(state, action, horizon=20):
    """The largest and smallest position while the action is run and the brake then drives."""
    path, states = [], advance(np.array([state]), np.array([action]))
    path.append(states[0, 0])
    for _ in range(horizon):
        states = advance(states, brake(states))
        path.append(states[0, 0])
    return max(path), min(path)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_a_linear_system_is_predicted_exactly_and_learning_on_is_learning_at_once(degree):
    rng = np.random.default_rng(0)
    states, actions = rng.normal(size=(600, 2)), rng.uniform(-1, 1, (600, 1))
    following = advance(states, actions)
    at_once, in_parts = Dynamics(degree), Dynamics(degree)
    at_once.add(states, actions, following)
    for part in np.split(np.arange(600), [100, 350]):
        in_parts.add(states[part], actions[part], following[part])
    asked = rng.normal(size=(50, 2)) / 2, rng.uniform(-1, 1, (50, 1))
    np.testing.assert_allclose(at_once.step(*asked), advance(*asked), atol=1e-6)
    np.testing.assert_allclose(in_parts.step(*asked), advance(*asked), atol=1e-6)
    again = Dynamics(degree)
    again.restore(at_once.state())
    np.testing.assert_array_equal(again.step(*asked), at_once.step(*asked))


def test_polynomials_are_held_at_the_edge_of_their_data():
    rng = np.random.default_rng(1)
    states = rng.uniform(-1, 1, (500, 1))
    model = Dynamics(3)
    model.add(states, 0 * states, states + states**3)
    far, further = (model.step(np.array([[x]]), np.zeros((1, 1)))[0, 0] - x for x in (10.0, 1000.0))
    assert far == pytest.approx(further)


def test_leverage_grows_away_from_the_data_and_where_an_input_never_varied():
    rng = np.random.default_rng(2)
    states = np.column_stack([rng.normal(size=300), np.full(300, 0.5)])
    actions = rng.normal(size=(300, 1))
    model = Dynamics(1)
    model.add(states, actions, states + 0.1 * actions + 0.01 * rng.normal(size=(300, 2)))
    near, far, other = model.leverage(np.array([[0.0, 0.5], [1.8, 0.5], [0.0, 0.9]]), np.zeros((3, 1)))
    assert near < far < 1 < other


def test_monomials_are_all_products_of_inputs():
    rng = np.random.default_rng(3)
    states, actions = rng.normal(size=(800, 2)), rng.normal(size=(800, 1))
    x, y, a = states[:, 0], states[:, 1], actions[:, 0]
    change = np.column_stack([x * y * a - y**3, 0.5 * a**2 * x + 2.0 - x * y])
    model = Dynamics(3)
    model.add(states, actions, states + change)
    np.testing.assert_allclose(model.step(states, actions), states + change, atol=1e-5)


def test_a_ridge_tames_inputs_that_move_together():
    rng = np.random.default_rng(4)
    first = rng.normal(size=(500, 1))
    states = np.hstack([first, first + 1e-3 * rng.normal(size=(500, 1))])
    following = states + np.column_stack([0.1 * np.tanh(first), 0.1 * np.abs(first)])
    model = Dynamics(3)
    model.add(states, np.zeros((500, 0)), following)
    apart, nothing = states[:50] + np.array([0.0, 0.3]), np.zeros((50, 0))
    plain, shrunk = (np.abs(part.step(apart, nothing) - apart).max() for part in (model, model.shrunk(1e-4)))
    assert shrunk < 0.5 < plain
    again = Dynamics(3)
    again.restore(model.shrunk(1e-4).state())
    np.testing.assert_array_equal(again.step(apart, nothing), model.shrunk(1e-4).step(apart, nothing))


def test_actions_beyond_the_data_are_unknown_and_do_not_change_the_others():
    rollout = shield_of(log=cautious_log()).quantifier
    states = np.array([[0.2, 0.3], [-0.1, -0.4]])
    states = np.hstack([states, states[:, :1]])
    actions = np.array([[[0.1], [50.0], [0.3]], [[-0.2], [-50.0], [60.0]]])
    mean, width = rollout.interval(states, actions)
    assert np.isinf(width[:, 1]).all() and np.isinf(width[1, 2]).all()
    for row, column in ((0, 0), (0, 2), (1, 0)):
        path = rollout.path(states[[row]], actions[row, [column]])
        highest = (path.signals + path.widths + rollout.errors.least)[:, 0, 0].max()
        assert (mean + width)[row, column].max() == pytest.approx(highest)


def test_degrees_that_the_data_allow():
    assert degrees(3, 10_000) == [1, 2, 3]
    assert degrees(3, 150) == [1, 2]
    assert degrees(3, 50) == [1]
    assert degrees(60, 10**6) == [1]


def test_the_bounds_are_the_extremes_of_the_way_to_rest():
    shield = shield_of()
    for state, action in (([0.2, 0.3], [0.5]), ([-0.1, -0.4], [-1.0]), ([0.0, 0.1], [-0.7])):
        mean, width = shield.quantifier.predict(shield.states(np.array([state])), np.array([[action]]))
        highest, lowest = worst_position(state, action)
        np.testing.assert_allclose(mean[0, 0], [0.5 + (highest - 1) / 2, 0.5 - (lowest + 1) / 2], atol=1e-3)
        assert (width >= 0).all() and (width < 0.05).all()


def test_one_step_is_safe_and_the_way_to_rest_is_not():
    shield = shield_of()
    fast = np.array([0.75, 0.6])
    assert abs(advance(fast[None], np.ones((1, 1)))[0, 0]) < 0.9
    assert worst_position(fast, [1.0])[0] > 1.0
    decision = shield.filter(fast, np.array([1.0], dtype=np.float32))
    assert decision.intervened or decision.takeover
    assert worst_position(fast, decision.action)[0] <= 1.0
    assert not shield.filter(np.array([0.0, 0.2]), np.array([0.3], dtype=np.float32)).intervened


def test_where_nothing_is_certified_the_backup_drives():
    shield = shield_of()
    lost = np.array([0.95, 1.5])  # cannot stop in time, whatever it does
    decision = shield.filter(lost, np.array([1.0], dtype=np.float32))
    assert decision.takeover and not decision.stopped
    np.testing.assert_array_equal(decision.action, brake(lost[None])[0])


def test_beyond_the_data_nothing_is_certified():
    shield = shield_of()
    mean, width = shield.quantifier.predict(shield.states(np.array([[0.0, 9.0]])), np.zeros((1, 1, 1)))
    assert np.isinf(width).all() and np.isfinite(mean).all()


@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize("drills", [False, True])
def test_calibrated_bounds_hold_on_fresh_drives_of_the_backup(noise, drills):
    shield = shield_of(Calibrated(Rollout(), delta=0.05), log=cautious_log(noise=noise, drills=drills))
    rng, env, missed, certified = np.random.default_rng(7), Cart(noise=noise), 0, 0
    env.reset(seed=3)
    for _ in range(300):
        state = np.array([rng.uniform(-0.5, 0.5), rng.uniform(-0.4, 0.4)])
        action = rng.uniform(-1, 1, 1).astype(np.float32)
        if not shield.certified(state, action[None], [0.5, 0.5])[0]:
            continue
        certified, env.state = certified + 1, state.copy()
        env.worst = [0.0]
        env.step(action)
        for _ in range(20):
            env.step(brake(env.state[None])[0])
        missed += env.worst[0] > 1.0
    assert certified > 100
    assert missed <= 0.05 * certified


def test_the_degree_is_chosen_by_the_boldest_stretches():
    rng = np.random.default_rng(5)
    course = Course(lambda s: -0.5 * s, lambda t: t, 3, np.array([-1.0]), np.array([1.0]))
    for power, best in ((1, 1), (2, 2)):
        states, actions = np.empty((7, 100)), rng.uniform(-1, 1, (6, 100))
        states[0] = rng.uniform(-1, 1, 100)
        for t in range(6):
            states[t + 1] = 0.9 * states[t] + 0.1 * states[t] ** power + 0.1 * actions[t]
        data = Transitions(
            states[:-1].T.reshape(-1, 1),
            actions.T.reshape(-1, 1),
            np.zeros(600),
            episodes=np.arange(600) // 6,
            next_states=states[1:].T.reshape(-1, 1),
        )
        chosen = Rollout().bound_to(Within(0, high=1.0).sides, course)
        chosen.fit(data)
        assert int(chosen.state()["chosen"][0]) == best


def test_windows_of_a_drill_are_found_and_replayed_exactly():
    course = course_of(Backup(brake, 20).options[0], LIMIT, STATES, ACTIONS)
    log = cautious_log(episodes=3, drills=True)
    data = transitions_of(log, LIMIT, STATES, ACTIONS, with_next=True)
    short = course._replace(horizon=10)
    starts = drilled(short, data)
    np.testing.assert_array_equal(np.unique(starts % 30), range(7, 20))
    model = Dynamics(1)
    model.add(data.states, data.actions, data.next_states)
    found = replay(model.step, short, data, starts)
    assert found.within.all()
    np.testing.assert_allclose(found.trajectory.states[1:, :, :1], found.signals, atol=1e-6)


def test_signals_of_the_info_are_predicted_like_the_rest():
    log = cautious_log()
    told = log.observations[:, 0] * 100
    after = log.next_observations[:, 0] * 100
    shield = Shield(Rollout(), STATES, ACTIONS, constraint=Within("place", high=100.0), backup=Backup(brake, 20))
    shield.fit(log._replace(signals={"place": after}))
    state = np.array([0.2, 0.3])
    mean, _ = shield.quantifier.predict(shield.states(state[None], measured=np.array([[20.0]])), np.array([[[0.5]]]))
    assert told.max() < 100
    assert mean[0, 0, 0] == pytest.approx(0.5 + (worst_position(state, [0.5])[0] - 1) / 2, abs=1e-3)


def test_a_shield_that_looks_ahead_comes_back_from_its_file(tmp_path):
    shield = shield_of(Calibrated(Rollout()))
    shield.save(tmp_path / "shield")
    with pytest.raises(Exception, match=r"looks 20 steps ahead .* backup=Backup\(<the same controller>, 20\)"):
        Shield.load(tmp_path / "shield")
    with pytest.raises(CheckpointError, match=r"is a function, .*load it with backup=Backup\(<the function>, 20\)"):
        Shield.load(tmp_path / "shield", backup=brake)
    with pytest.raises(CheckpointError, match=r"is a function, .*load it with backup=Backup\(<the function>, 20\)"):
        ShieldedPolicy.load(
            tmp_path / "shield", lambda seen: np.ones(1), [0.0], constraint=shield.constraint, backup=brake
        )
    again = Shield.load(tmp_path / "shield", backup=Backup(brake, 20))
    for state in ([0.3, 0.2], [0.75, 0.6], [0.0, 9.0]):
        given = np.array(state), np.array([1.0], dtype=np.float32)
        assert again.filter(*given)[1:4] == shield.filter(*given)[1:4]
        np.testing.assert_array_equal(again.filter(*given).upper_bound, shield.filter(*given).upper_bound)


def test_errors_say_what_to_give():
    with pytest.raises(ValueError, match=r"give backup=Backup\(controller, horizon\)"):
        Shield(Rollout(), STATES, ACTIONS, constraint=LIMIT)
    with pytest.raises(ValueError, match=r"Within\(\.\.\.\), not for Instantaneous"):
        Shield(Rollout(), STATES, ACTIONS, constraint=Instantaneous(0.5), backup=Backup(brake, 5))
    with pytest.raises(ValueError, match="SparseGP bounds one step, and the backup drives for 5: use Rollout"):
        Shield(Calibrated(SparseGP()), STATES, ACTIONS, constraint=LIMIT, backup=Backup(brake, 5))
    with pytest.raises(ValueError, match=r"degree=4\) must be 1, 2 or 3"):
        Rollout(degree=4)
    with pytest.raises(ValueError, match="has no limits yet"):
        Rollout().predict(np.zeros((1, 2)), np.zeros((1, 1, 1)))
    short = Log(np.zeros((2, 2)), np.zeros((2, 1), np.float32), episodes=np.array([0, 1]))
    with pytest.raises(ValueError, match="no step of the log has the signals"):
        shield_of(log=short)


def test_steps_in_their_order_need_no_next_observations():
    log = cautious_log(episodes=5)._replace(next_observations=None)
    data = transitions_of(log, LIMIT, STATES, ACTIONS, with_next=True)
    assert len(data.states) == 5 * 59
    np.testing.assert_allclose(data.next_states[:, :2], advance(data.states[:, :2], data.actions), atol=1e-6)


def test_a_backup_that_the_log_never_shows_is_told(caplog):
    def full(observations):
        return np.where(np.asarray(observations)[:, 1:] > 0, -1.0, 1.0)

    log = cautious_log(episodes=10)
    gentle = log._replace(actions=np.clip(log.actions, -0.3, 0.3))
    with caplog.at_level("WARNING", "safexp"):
        shield_of(log=log)
        assert "let the backup drive" not in caplog.text
        Shield(Rollout(), STATES, ACTIONS, constraint=LIMIT, backup=Backup(full, 10)).fit(gentle)
    assert "% of the logged states the backup's action is beyond all that the log shows" in caplog.text


def test_dict_observations_reach_the_backup_as_such():
    log = cautious_log(episodes=10)
    space = spaces.Dict({"place": spaces.Box(-9, 9, (1,)), "speed": spaces.Box(-9, 9, (1,), np.float64)})

    def split(states):
        return {"place": states[:, :1], "speed": states[:, 1:]}

    seen = []

    def act(observations):
        seen.append(set(observations))
        return brake(np.column_stack([observations["place"], observations["speed"]]))

    shield = Shield(Rollout(), space, ACTIONS, constraint=Within("place", high=1.0), backup=Backup(act, 10))
    shield.fit(log._replace(observations=split(log.observations), next_observations=split(log.next_observations)))
    decision = shield.filter({"place": np.zeros(1), "speed": np.full(1, 0.1)}, np.zeros(1, np.float32))
    assert not decision.intervened and not decision.takeover
    assert seen[-1] == {"place", "speed"}
