"""A shield in closed loop: what is certified is compared with what then happened."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box

from safexp import Backup, Known, Shield, ShieldedPolicy, Unknown, Within

BOX = Box(-1.0, 1.0, (1,))


class Tank(gym.Env):
    """The level moves by a tenth of the action, and by a leak that nobody models."""

    observation_space, action_space = Box(-9.0, 9.0, (1,)), BOX

    def __init__(self, leak=0.0):
        self.leak = leak

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.level, self.steps = 0.0, 0
        return self._seen(), {"level": self.level}

    def step(self, action):
        self.level += 0.1 * float(action[0]) + self.leak
        self.steps += 1
        return self._seen(), float(action[0]), False, self.steps == 30, {"level": self.level}

    def _seen(self):
        return np.array([self.level], dtype=np.float32)


def shield(**options):
    model = Known(lambda states, actions: states[:, 0] + 0.1 * actions[:, 0])
    return Shield(model, Tank.observation_space, BOX, constraint=Within("level", -1.0, 1.0), **options)


def upwards(observations):
    return np.ones((len(observations), 1))


def test_a_right_model_misses_nothing():
    found = shield().rehearse(Tank(), upwards, 5)
    assert (found.episodes, found.violated, found.missed, found.steps) == (5, 0, 0, 150)
    assert found.interventions > 50
    assert 0.9 < found.mean_return / 10 < 1.2
    assert (found.low, found.high) == pytest.approx((0.0, 0.5218), abs=1e-3)


def test_a_wrong_model_is_caught():
    found = shield().rehearse(Tank(leak=0.05), upwards, 3)
    assert found.violated == found.missed == 3


def test_a_backup_drives_where_nothing_is_certified():
    alone = shield().rehearse(Tank(leak=0.3), upwards, 1)
    assert alone.stopped == 1
    helped = shield().rehearse(Tank(leak=0.3), upwards, 1, backup=lambda seen: -np.ones((len(seen), 1)))
    assert helped.steps == 30
    assert helped.stopped > 1


class Silent(Tank):
    """Does not report its level at a reset, or not at a step."""

    def __init__(self, at_reset):
        super().__init__()
        self.at_reset = at_reset

    def reset(self, *, seed=None, options=None):
        seen, info = super().reset(seed=seed)
        return seen, info if self.at_reset else {}

    def step(self, action):
        return *super().step(action)[:4], {"heat": 1.0}


@pytest.mark.parametrize(("at_reset", "has"), [(False, r"\[\]"), (True, r"\['heat'\]")])
def test_a_signal_that_the_environment_does_not_report_is_named(at_reset, has):
    with pytest.raises(ValueError, match=rf"no info\['level'\] \(it has {has}\): put it into the info of every step.*"):
        shield().rehearse(Silent(at_reset), upwards, 1)


def test_it_needs_a_constraint_to_judge_by():
    with pytest.raises(ValueError, match="rehearse needs a shield with a constraint"):
        Shield(Known(lambda s, a: s[:, 0]), BOX, BOX).rehearse(Tank(), upwards)
    with pytest.raises(ValueError, match="episodes=0 must be at least 1"):
        shield().rehearse(Tank(), upwards, 0)


def test_what_was_rehearsed_can_be_deployed():
    def back(observations):
        return -np.ones((len(observations), 1), dtype=np.float32)

    env, tested = Tank(leak=0.3), shield()
    rehearsed = tested.rehearse(env, upwards, 1, backup=back)
    policy = ShieldedPolicy(lambda seen: np.ones(1), tested, tested.constraint, np.zeros(1), backup=back)
    observation, info = env.reset(seed=0)
    policy.reset(observation, measured=info["level"])
    for _ in range(30):
        observation, _, _, _, info = env.step(policy.act(observation).action)
        policy.observe(info["level"])
    assert policy.counts["backup"] == rehearsed.stopped
    assert policy.counts["stop"] == 0


@pytest.mark.parametrize(
    "back", [lambda seen: 1 / 0, lambda seen: np.full((1, 1), np.nan), lambda seen: np.ones((2, 1))]
)
def test_the_fallback_is_run_where_a_backup_fails(back):
    tested = shield()
    policy = ShieldedPolicy(lambda seen: np.ones(1), tested, tested.constraint, np.full(1, -0.5), backup=back)
    policy.reset(np.array([1.5], np.float32), measured=1.5)
    answer = policy.act(np.array([1.5], np.float32))
    assert (answer.outcome, float(answer.action[0])) == ("policy error", -0.5)


def test_a_backup_that_cannot_be_used_is_refused():
    tested = shield()
    with pytest.raises(TypeError, match=r"backup=0.5 must be a function of observations \(n, ...\), as in"):
        ShieldedPolicy(lambda seen: np.ones(1), tested, tested.constraint, np.zeros(1), backup=0.5)
    ahead = shield(backup=Backup(upwards, 3))
    with pytest.raises(ValueError, match="the shield has a backup, which its certificates look ahead to"):
        ShieldedPolicy(lambda seen: np.ones(1), ahead, ahead.constraint, np.zeros(1), backup=upwards)


@pytest.mark.parametrize("backup", [upwards, Backup(upwards, 3)])
def test_a_saved_shield_is_loaded_with_a_backup(tmp_path, backup):
    limit, path = Within(0, high=1.0), tmp_path / "shield.safexp"
    Shield(Unknown(), Tank.observation_space, BOX, constraint=limit).save(path)
    policy = ShieldedPolicy.load(path, lambda seen: -np.ones(1), np.zeros(1), constraint=limit, backup=backup)
    policy.reset(np.zeros(1, np.float32))
    assert policy.act(np.zeros(1, np.float32)).outcome == "backup"
