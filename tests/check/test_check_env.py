"""Ten planted faults are found, each by its own check; sound environments have none."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import safexp
from safexp import AllOf, Budget, Instantaneous, StateVisits, Within
from support.cars import Road

STEPS = 1200


def not_ok(env, constraint, **options) -> dict[str, tuple[str, str]]:
    """Severity and text by topic of everything that is not in order."""
    found = safexp.check_env(env, constraint, steps=STEPS, **options)
    return {one.topic: (one.severity, one.found) for one in found.findings if one.severity != "ok"}


EVERY = Instantaneous(0.5)
PLANTED = [
    ("late cost", "timing", "stop", "an action changes the cost or signal 1 step later at the earliest"),
    ("percent", "costs and signals", "stop", "must lie in [0, 1]; give the constraint cost_max"),
    ("normalised reward", "reward scale", "stop", "after the same actions, the reward is"),
    ("unseeded noise", "same seed", "stop", "the observation differs"),
    ("unsafe reset", "first states", "stop", "each of 8 first actions violates"),
    ("nan", "costs and signals", "stop", "must be a finite number"),
    ("wrong shape", "observations", "stop", "has the shape (1, 2), expected (2,)"),
    ("terminated at the time limit", "ends of episodes", "stop", "terminated after exactly 60 steps"),
    ("clipped actions", "action bounds", "caution", "action[0] beyond -5 (the bound is -10)"),
    ("no cost at the end", "costs and signals", "stop", "each the last step of its episode"),
]


@pytest.mark.parametrize(("fault", "topic", "severity", "text"), PLANTED, ids=[row[0] for row in PLANTED])
@pytest.mark.parametrize("windy", [False, True])
def test_a_planted_fault_is_found(fault, topic, severity, text, windy) -> None:
    found = not_ok(Road(fault, windy=windy), EVERY)
    assert found[topic][0] == severity
    assert text in found[topic][1]
    if fault not in ("unseeded noise", "wrong shape"):  # which Gymnasium's own checks may find, too
        assert set(found) == {topic}


@pytest.mark.parametrize("constraint", [EVERY, Budget(10.0), Within("x", -2.0, 2.0), Within(0, -2.0, 2.0)])
@pytest.mark.parametrize("windy", [False, True])
def test_a_sound_environment_has_no_finding(constraint, windy) -> None:
    assert not_ok(Road(windy=windy), constraint) == {}


def test_a_sound_environment_with_a_sharp_cost_has_no_finding() -> None:
    assert not_ok(Road(sharp=True), Budget(5.0)) == {}


@pytest.mark.slow
def test_a_late_sharp_cost_is_at_least_suspected() -> None:
    severity, text = not_ok(Road("late cost", sharp=True), Budget(5.0))["timing"]
    assert severity in ("caution", "stop")
    assert "1 step later" in text


@pytest.mark.slow
def test_a_lagging_system_is_told_from_a_late_cost() -> None:
    severity, text = not_ok(Road(lagging=True), EVERY)["timing"]
    assert (severity, text[:50]) == ("caution", "an action changes the cost or signal 1 step later "[:50])
    severity, text = not_ok(Road("late cost", lagging=True), EVERY)["timing"]
    assert severity == "stop"
    assert "2 steps later" in text


def test_a_task_that_ends_at_a_time_it_shows_is_sound() -> None:
    assert not_ok(Road(clock=True), EVERY) == {}


def test_a_normalising_wrapper_is_named() -> None:
    found = not_ok(gym.wrappers.NormalizeReward(Road()), EVERY)
    assert found["reward scale"] == ("stop", "the environment is wrapped in NormalizeReward.")


def test_unbounded_actions_are_found() -> None:
    found = not_ok(gym.wrappers.ClipAction(Road()), EVERY)
    assert "has no finite bounds" in found["spaces"][1]


def test_first_states_beyond_a_limit_are_found() -> None:
    found = not_ok(Road("unsafe reset"), Within("x", -2.0, 2.0))
    assert "resets violate the constraint before any action" in found["first states"][1]


def test_first_states_that_are_unsafe_visits_are_found() -> None:
    found = not_ok(Road("unsafe reset"), StateVisits(0.0, lambda seen: np.abs(seen[:, 0]) > 2))
    assert "resets violate the constraint before any action" in found["first states"][1]


def test_a_signal_that_resets_do_not_have_is_named() -> None:
    class Silent(gym.Wrapper):
        def reset(self, *, seed=None, options=None):
            return self.env.reset(seed=seed, options=options)[0], {}

    found = not_ok(Silent(Road()), AllOf(EVERY, Within("x", -2.0, 2.0)))
    assert found == {"first states": ("caution", "the info of `reset` has no x.")}


def test_a_limit_that_never_binds_and_one_that_no_step_keeps() -> None:
    assert "not reached in" in not_ok(Road(), Within("x", -2000.0, 2000.0))["threshold"][1]
    assert "violate it at the first step" in not_ok(Road(), Within("x", 40.0, 50.0))["threshold"][1]


def test_an_exception_is_reported_with_its_place() -> None:
    class Broken(Road):
        def step(self, action):
            if self.steps == 7:
                raise OSError("no contact")
            return super().step(action)

    assert "the first at step 8 (seed 0): OSError: no contact." in not_ok(Broken(), EVERY)["exceptions"][1]


def test_an_episode_that_cannot_be_stopped_by_a_reset_is_found() -> None:
    class Stubborn(Road):
        steps = 0

        def reset(self, *, seed=None, options=None):
            if 25 < self.steps < 60 and abs(self.x) <= 5:
                raise RuntimeError("the episode is not over")
            return super().reset(seed=seed, options=options)

    found = not_ok(Stubborn(), EVERY)
    assert "RuntimeError: the episode is not over" in str(found)


def test_an_action_without_effect_is_named() -> None:
    class Idle(gym.ActionWrapper):
        action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)

        def action(self, action):
            return action[:1]

    found = not_ok(Idle(Road()), EVERY)
    assert "8 states: action[1]." in found["action bounds"][1]


def test_costs_that_random_actions_do_not_reach_are_reached_by_a_policy() -> None:
    class Rare(gym.Wrapper):
        def step(self, action):
            return *self.env.step(action)[:4], {"cost": float(abs(action[0] - 1.0) < 1e-5)}

    random = not_ok(Rare(Road()), EVERY)
    assert "there was no cost at all" in random["threshold"][1]
    assert "no action changed a cost" in random["timing"][1]
    assert "threshold" not in not_ok(Rare(Road()), EVERY, policy=lambda seen: np.ones((len(seen), 1), np.float32))


def test_six_values_are_read() -> None:
    class Six(Road):
        def step(self, action):
            seen, reward, terminated, truncated, info = super().step(action)
            return seen, reward, info.pop("cost"), terminated, truncated, info

    assert not_ok(Six(), EVERY) == {}


@pytest.mark.parametrize(
    ("env", "text"),
    [
        ("Pendulum-v1", "got the name 'Pendulum-v1', expected a live environment"),
        (Road, "got the class Road, expected an environment"),
        (3, "got a int, expected a Gymnasium Env"),
    ],
)
def test_what_is_no_environment_is_refused(env, text) -> None:
    with pytest.raises(TypeError, match=text):
        safexp.check_env(env, EVERY)


def test_copies_and_no_steps_are_refused() -> None:
    with pytest.raises(TypeError, match="of 2 copies, expected one"):
        safexp.check_env(gym.make_vec("Pendulum-v1", num_envs=2), EVERY)
    with pytest.raises(ValueError, match="steps=0 must be at least 1"):
        safexp.check_env(Road(), EVERY, steps=0)


SOUND = [
    ("safexp/PlanarRobot-v0", Budget(3.0)),
    ("safexp/PlanarRobotDiscrete-v0", Instantaneous(0.3)),
    ("safexp/GridWorld-v0", Budget(20.0)),
    ("safexp/PendulumReach-v0", AllOf(Within("x", -1.0, 1.0), Within("angle", -0.2, 0.2))),
    ("safexp/SwimmerVelocity-v0", Budget(20.0)),
    ("Pendulum-v1", Within(2, -6.0, 6.0)),
    ("MountainCarContinuous-v0", Within(1, -0.04, 0.04)),
    ("MountainCar-v0", Within(1, -0.04, 0.04)),
    ("InvertedPendulum-v5", Within((0, 1), [-0.3, -0.12], [0.3, 0.12])),
]


@pytest.mark.slow
@pytest.mark.parametrize(("task", "constraint"), SOUND, ids=[row[0] for row in SOUND])
def test_sound_tasks_raise_no_alarm(task, constraint) -> None:
    assert not_ok(gym.make(task, disable_env_checker=True), constraint) == {}


@pytest.mark.slow
def test_safety_gyms_robots_have_no_fault_but_saturate() -> None:
    found = not_ok(gym.make("safexp/PointGoalStatic-v0", disable_env_checker=True), Budget(3.0))
    assert "action[0] beyond 0.25 (the bound is 1)" in found["action bounds"][1]
    assert {severity for severity, _ in found.values()} == {"caution"}


@pytest.mark.slow
def test_a_slow_system_of_gymnasiums_is_told_that_one_step_is_not_enough() -> None:
    found = not_ok(gym.make("CartPole-v1", disable_env_checker=True), Within(0, -1.0, 1.0))
    assert list(found) == ["timing"]
    assert found["timing"][0] == "caution"
