"""A backup in the guard: it drives where nothing is certified, holds drills, and nothing is violated or stopped."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

from safexp import (
    MASE,
    AllOf,
    Backup,
    Budget,
    Calibrated,
    Instantaneous,
    Known,
    Penalty,
    Reset,
    Rollout,
    ShieldedPolicy,
    Within,
)
from safexp.backups.drills import Drills, discounts_of
from safexp.envs.guard import Guard
from safexp.shield.shield import Shield
from support.cart import Cart, advance, brake, cautious_log

LIMIT = Within(0, low=-1.0, high=1.0)


def guard_of(carts, *, backup=None, fit=True, quantifier=None, penalty=None):
    venv = DummyVecEnv([lambda cart=cart: cart for cart in carts])
    backup = backup or Backup(brake, 20, drills=0.0)
    shield = Shield(
        quantifier or Calibrated(Rollout()), venv.observation_space, venv.action_space, constraint=LIMIT, backup=backup
    )
    if fit:
        shield.fit(cautious_log())
    venv.seed(0)
    return Guard(venv, LIMIT, shield, penalty, backup=backup)


def drive(guard, propose, steps):
    """Step with these proposals; returns what the shield told, a list for each environment."""
    told = [[] for _ in range(guard.num_envs)]
    observations = guard.reset()
    for _ in range(steps):
        observations, _, _, infos = guard.step(propose(observations))
        for row, info in zip(told, infos, strict=True):
            row.append(info["shield"])
    return told


def full_speed(observations):
    return np.ones((len(observations), 1), dtype=np.float32)


def test_a_proposer_at_full_speed_never_leaves_and_is_never_stopped():
    carts = [Cart(), Cart()]
    guard = guard_of(carts)
    told = drive(guard, full_speed, 300)
    guard.close()
    assert max(max(cart.worst) for cart in carts) <= 1.0
    assert max(max(cart.worst) for cart in carts) > 0.5  # and it is let go further than the log
    assert not any(step["stopped"] for row in told for step in row)
    assert any(step["intervened"] or step["takeover"] for row in told for step in row)
    assert guard.recorder.violations == guard.recorder.stops == 0


def hesitant(states, actions):
    """Positions (n, 1) of which none is certified at speed beyond 0.3, and those of a push forward never are."""
    refused = (states[:, 0] > 0.3) & ((states[:, 1] > 0.2) | (actions[:, 0] > 0.0))
    return np.where(refused, 2.0, 0.0)[:, None]


@pytest.mark.parametrize("keep", [0, 4])
def test_a_takeover_ends_with_a_certified_proposal_or_a_replacement_that_is_kept(keep):
    cart = Cart(steps=400)
    guard = guard_of([cart], backup=Backup(brake, 20, drills=0.0, keep=keep), quantifier=Known(hesitant), fit=False)
    told = drive(guard, full_speed, 60)[0]
    guard.close()
    first = [step["takeover"] for step in told].index(True)
    assert all(step["takeover"] for step in told[first:]) == (keep == 0)
    assert any(step["intervened"] for step in told[first:]) == (keep > 0)


@pytest.mark.parametrize("keep", [0, 4])
def test_an_own_action_is_no_intervention_while_the_backup_drives_elsewhere(keep):
    backup = Backup(brake, 20, drills=0.0, keep=keep)
    carts = [Cart(steps=400), Cart(steps=400)]
    guard = guard_of(carts, backup=backup, quantifier=Known(hesitant), fit=False)
    busy, calm = drive(guard, lambda observations: np.array([[1.0], [0.0]], dtype=np.float32), 60)
    guard.close()
    assert any(step["takeover"] for step in busy)
    assert not any(step["intervened"] for step in calm)


def test_without_a_backup_one_step_ahead_is_not_enough():
    cart = Cart()
    venv = DummyVecEnv([lambda: cart])

    def positions(states, actions):
        return advance(states, actions)[:, :1]

    shield = Shield(Known(positions), venv.observation_space, venv.action_space, constraint=LIMIT)
    venv.seed(0)
    guard = Guard(venv, LIMIT, shield, None, backup=Reset())
    told = drive(guard, full_speed, 100)
    assert any(step["stopped"] for row in told for step in row)


def test_what_is_not_certified_the_backup_drives_from_the_first_state_on():
    cart = Cart()
    told = drive(guard_of([cart], fit=False), full_speed, 20)
    assert all(step["takeover"] and not step["intervened"] for step in told[0])
    assert all(step["action"] == pytest.approx(0.0, abs=1e-6) for step in told[0])  # it stands, and braking keeps it so
    assert max(cart.worst) <= 0.2


def test_it_drives_until_the_proposal_itself_is_certified_again():
    rng = np.random.default_rng(0)
    guard = guard_of([Cart(steps=300)])
    told = drive(guard, lambda observations: rng.choice([-1.0, 1.0], (1, 1)).astype(np.float32), 300)[0]
    over = [k for k in range(1, 300) if told[k - 1]["takeover"] and not told[k]["takeover"]]
    assert all(not told[k]["intervened"] for k in over)


def test_takeovers_and_drills_are_counted_apart_and_drills_are_no_penalty():
    backup = Backup(brake, 5, drills=0.3, penalty=2.0)
    guard = guard_of([Cart(steps=50), Cart(steps=50)], backup=backup)
    told = drive(guard, full_speed, 400)
    for k, row in enumerate(told):
        episodes = guard.recorder.episodes[k::2]  # both end at the same steps
        assert sum(episode.takeovers for episode in episodes) == sum(step["takeover"] for step in row)
        assert sum(episode.drills for episode in episodes) == sum(step["drill"] for step in row)
    drilled = sum(step["drill"] for row in told for step in row)
    taken = sum(step["takeover"] for row in told for step in row)
    assert not any(step["drill"] and step["takeover"] for row in told for step in row)
    assert drilled > 0
    paid = sum(episode.true_return - episode.penalised_return for episode in guard.recorder.episodes)
    assert paid == pytest.approx(2.0 * taken)
    found = guard.drills.metrics()
    assert found["drills"] > 0 and found["drills_missed"] == 0


def test_a_drill_whose_certificate_was_wrong_is_a_miss():
    drills = Drills(3, 2, 0.9)
    everywhere, nowhere = np.ones(3, dtype=bool), np.zeros(3, dtype=bool)
    drills.begin(everywhere, np.full((3, 1), 0.5), np.full(3, 2))
    costs = iter([[0.1, 0.1, 0.9], [0.5, 0.6, 0.0], [0.2, 0.1, 0.0]])
    drills.note(np.array(next(costs)), nowhere)
    drills.note(np.array(next(costs)), np.array([False, False, True]))  # the third ends early, after its miss
    drills.note(np.array(next(costs)), nowhere)
    assert (drills.judged, drills.missed) == (3, 2)
    assert not drills.running.any()
    again = Drills(1, 2, 0.0)
    again.restore(drills.state())
    assert again.metrics() == {"drills": 3, "drills_missed": 2}


def test_sums_are_judged_as_sums():
    drills = Drills(1, 2, 0.9, [0.5, np.nan])
    here = np.ones(1, dtype=bool)
    drills.begin(here, np.array([[1.7, 0.9]]), np.array([2]))
    for _ in range(3):
        drills.note(np.array([[1.0, 0.8]]), ~here)  # 1 + 1/2 + 1/4, and never more than 0.8
    assert (drills.judged, drills.missed) == (1, 1)
    assert discounts_of(AllOf(Budget(3.0, 0.9), Instantaneous(0.5), Within(0, -1.0, 1.0))) == pytest.approx(
        [0.9, np.nan, np.nan, np.nan], nan_ok=True
    )


def test_a_drill_that_its_episode_ends_early_says_nothing():
    drills = Drills(1, 5, 0.9, [np.nan, np.nan])
    here = np.ones(1, dtype=bool)
    drills.begin(here, np.full((1, 2), 0.5), np.array([5]))
    drills.note(np.zeros((1, 2)), here)
    assert drills.judged == 0 and not drills.running.any()


def test_the_share_of_steps_in_drills_is_what_was_asked_for():
    drills, steps, driven = Drills(200, 10, 0.2, seed=1), 500, 0
    everywhere, nowhere = np.ones(200, dtype=bool), np.zeros(200, dtype=bool)
    for _ in range(steps):
        running = drills.running
        driven += int(running.sum())
        begins = drills.drawn(~running)
        drills.begin(begins, np.ones((200, 1)), np.full(np.count_nonzero(begins), 10))
        drills.note(np.zeros(200), nowhere)
    assert driven / (200 * steps) == pytest.approx(0.2, abs=0.02)
    assert everywhere.all()


def test_mase_learns_with_a_backup_and_comes_back_from_its_file(tmp_path):
    carts = [Cart() for _ in range(4)]

    def made(envs):
        return MASE(
            envs,
            LIMIT,
            Calibrated(Rollout()),
            PPO,
            learner_options={"n_steps": 64, "batch_size": 64, "n_epochs": 2},
            seed_data=cautious_log(),
            backup=Backup(brake, 20, drills=0.05),
            seed=1,
        )

    agent = made(DummyVecEnv([lambda cart=cart: cart for cart in carts]))
    agent.learn(2000)
    assert max(max(cart.worst) for cart in carts) <= 1.0
    metrics = agent.metrics()
    assert metrics["drills"] > 0
    assert metrics["coverage_rows"] == 0  # the cost of a step says nothing of a bound on the way to rest
    assert agent.guard.recorder.stops == 0
    agent.save(tmp_path / "agent")
    again = MASE.load(tmp_path / "agent", backup=Backup(brake, 20))
    state = np.array([0.6, 0.5])
    np.testing.assert_array_equal(again.predict(state).action, agent.predict(state).action)
    with pytest.raises(Exception, match="backup=Backup"):
        MASE.load(tmp_path / "agent")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"controller": 3, "horizon": 5}, "must be a function of observations"),
        ({"controller": brake, "horizon": 0}, "horizon=0"),
        ({"controller": brake, "horizon": 5, "drills": 1.0}, r"drills=1.0\) must be a share"),
        ({"controller": brake, "horizon": 5, "penalty": -1.0}, r"penalty=-1.0\) must be finite"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Backup(**arguments)


def test_a_backup_that_returns_no_actions_is_found_before_any_step():
    def scalar(observations):
        return 0.0

    with pytest.raises(ValueError, match=r"returned actions of shape \(\) for 2 observations, expected \(2, 1\)"):
        guard_of([Cart()], backup=Backup(scalar, 5))


def test_deployed_and_rehearsed_the_backup_answers_where_nothing_is_certified():
    shield = guard_of([Cart()]).shield
    policy = ShieldedPolicy(lambda observation: np.ones(1, np.float32), shield, LIMIT, fallback=[0.0])
    cart, outcomes = Cart(steps=200), set()
    observation, _ = cart.reset(seed=5)
    policy.reset(observation)
    for _ in range(200):
        answer = policy.act(observation)
        outcomes.add(answer.outcome)
        observation, *_ = cart.step(answer.action)
    assert outcomes <= {"proposal", "replacement", "backup"} and "proposal" in outcomes
    assert max(cart.worst) <= 1.0
    found = shield.rehearse(Cart(), full_speed, 5, seed=20)
    assert (found.violated, found.missed, found.steps) == (0, 0, 300)


def test_a_moved_proposal_costs_in_proportion_and_drills_do_not():
    penalty = Penalty(moved=0.5)
    space = Cart().action_space
    proposed, executed = np.array([[1.0], [0.5], [9.0], [0.0]]), np.array([[-1.0], [0.0], [1.0], [0.0]])
    np.testing.assert_allclose(penalty.of_moves(space, proposed, executed), [0.5, 0.125, 0.0, 0.0])
    np.testing.assert_allclose(penalty.of_moves(spaces.Discrete(3), np.array([0, 1]), np.array([2, 1])), [0.5, 0.0])
    with pytest.raises(ValueError, match="0 ≤ moved < ∞"):
        Penalty(moved=-0.1)
    guard = guard_of([Cart(steps=30)], backup=Backup(brake, 5, drills=0.3), penalty=penalty)
    told = drive(guard, full_speed, 60)[0]
    lost = sum(0.5 * (1.0 - float(step["action"][0])) / 2 for step in told if not step["drill"])
    paid = sum(episode.true_return - episode.penalised_return for episode in guard.recorder.episodes)
    assert paid == pytest.approx(lost, abs=1e-5)


@pytest.mark.parametrize("shielded", [True, False])
def test_an_agent_that_is_put_to_use_holds_no_drills(shielded):
    guard = guard_of([Cart(steps=50), Cart(steps=50)], backup=Backup(brake, 5, drills=0.6))
    told = drive(guard, full_speed, 60)
    assert any(step["drill"] for row in told for step in row)
    guard.evaluate(shielded)
    for _ in range(100):
        _, _, _, infos = guard.step(full_speed(np.zeros((2, 2))))
        assert not any(info["shield"]["drill"] for info in infos)
        assert shielded or not any(info["shield"]["takeover"] for info in infos)
