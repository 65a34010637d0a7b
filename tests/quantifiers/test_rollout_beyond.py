"""Rollout beyond its log: it certifies as far as its calibration was tested, and learns from every executed step."""

from __future__ import annotations

import numpy as np
import pytest

import safexp
from safexp import Backup, Calibrated, Rollout, Shield, Within
from safexp.quantifiers.base import Transitions
from safexp.quantifiers.replays import Course
from support.kettle import HOTTEST, Kettle, aimed, cautious_log, cool

LIMIT = Within(0, high=HOTTEST)
LOG = cautious_log()


def test_a_reaction_that_runs_away_beyond_the_log_is_not_certified_there():
    shield = Shield(
        Calibrated(Rollout()), Kettle.observation_space, Kettle.action_space, constraint=LIMIT, backup=Backup(cool, 15)
    )
    shield.fit(LOG)
    for gain in (6.0, 60.0):
        found = shield.rehearse(Kettle(), lambda seen, g=gain: aimed(seen, 95.0, g), episodes=12, seed=100)
        assert found.violated == 0
    env = Kettle()
    state, _ = env.reset(seed=5)
    for _ in range(env.steps):
        state, *_ = env.step(shield.filter(state, np.ones(1)).action)
    assert np.max(LOG.observations[:, 0]) - 4.0 < env.hottest[-1] < HOTTEST  # it may go as far as the log did


@pytest.mark.slow
def test_the_certified_region_grows_with_what_is_executed_and_nothing_is_violated():
    env = Kettle()
    shielded = safexp.wrap(env, LIMIT, Calibrated(Rollout()), seed_data=LOG, backup=Backup(cool, 15))
    certified_up_to = []
    for episode in range(40):
        seen, ended = shielded.reset(seed=1000 + episode)[0], False
        while not ended:
            seen, _, terminated, truncated, _ = shielded.step(aimed(seen[None], 95.0, 6.0)[0])
            ended = terminated or truncated
        if episode % 8 == 7:
            shielded.end_epoch()
            certified_up_to.append(max(env.hottest[-9:]))
    assert max(env.hottest) <= HOTTEST and shielded.violations == 0
    assert certified_up_to[-1] > certified_up_to[0] + 1.0


def integrator(rng, drills, wrong=0.0, episodes=70):
    """Transitions of x' = x + a, where every episode ends with a drill of `a = −x/2`; `wrong` adds to some steps."""
    rows = []
    for episode in range(episodes):
        x = rng.uniform(-0.3, 0.3)
        for t in range(12):
            drill = drills and t >= 6
            action = -x / 2 if drill else rng.uniform(-0.2, 0.2)
            following = x + action + (wrong if not drill and t == 2 else 0.0)
            rows.append((x, action, following, episode))
            x = following
    states, actions, after, numbers = np.array(rows).T
    return Transitions(
        states[:, None],
        actions[:, None],
        np.zeros(len(states)),
        episodes=numbers.astype(int),
        next_states=after[:, None],
    )


@pytest.fixture
def model():
    course = Course(lambda s: -0.5 * s, lambda t: t, 4, np.array([-1.0]), np.array([1.0]))
    found = Rollout(degree=1).bound_to(Within(0, high=1.0).sides, course)
    found.fit(integrator(np.random.default_rng(0), drills=True))
    return found


def test_steps_between_drills_judge_the_first_step_of_a_path(model):
    rng = np.random.default_rng(1)
    good, bad = (model.score(integrator(rng, True, wrong, 10)).reshape(10, 12) for wrong in (0.0, 0.1))
    assert not np.isnan(good).any()
    assert np.nanmax(good) <= 1.0
    assert (bad[:, 2] > 2.0).all()
    assert (bad[:, 3:6] <= 1.0).all()


def test_errors_away_from_a_limit_do_not_count(model):
    rng = np.random.default_rng(2)
    assert (model.score(integrator(rng, True, -0.1, 10)).reshape(10, 12)[:, 2] <= 1.0).all()


def test_widths_of_the_first_step_learn_from_all_steps(model):
    asked = np.zeros((1, 1)), np.array([[[0.1]]])
    before = model.interval(*asked)[1].item()
    model.update(integrator(np.random.default_rng(3), True, 0.05))
    assert model.interval(*asked)[1].item() > before + 0.005


def test_a_reach_of_the_user_replaces_the_tested_one_and_both_survive_a_file(model):
    assert 0.05 <= model.support.reach <= 1.0
    own = Rollout(degree=1, reach=0.5)
    assert own.settings()["reach"] == 0.5
    again = model.with_delta(model.delta)
    assert again.support.reach == model.support.reach
    with pytest.raises(ValueError, match="reach=0 must be finite and above 0"):
        Rollout(reach=0)
