from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO

from safexp import (
    CPO,
    TRPO,
    Budget,
    ChangeModel,
    ExactGP,
    Fallback,
    Instantaneous,
    LearnedReset,
    Log,
    Margin,
    Penalty,
    SparseGP,
    TRPOLagrangian,
    Unknown,
)
from safexp.envs.early_termination import EarlyTermination
from safexp.envs.recording import Recorded
from safexp.envs.saute import Saute
from safexp.runs.build import build, make_quantifier, make_seed_data
from safexp.runs.config import RunConfig
from safexp.tasks.knowledge import Knowledge, knowledge_of
from safexp.tasks.planar_robot import cost_of, margin_of

SMALL = {"num_envs": 2, "learner_options": {"n_steps": 16, "batch_size": 32}}


class Walker(gym.Env[np.ndarray, np.ndarray]):
    """A task that knows nothing beforehand."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        return np.zeros(2, np.float32), 0.0, False, False, {"cost": 0.0}


class Learned(Walker):
    """A task that has a log without margins."""

    knowledge = Knowledge(log=lambda rng: Log(np.zeros((3, 2)), np.zeros((3, 1)), np.zeros(3)))


@pytest.fixture(autouse=True)
def _own_tasks() -> Iterator[None]:
    gym.register("Walker-v0", entry_point=Walker)
    gym.register("Learned-v0", entry_point=Learned)
    yield
    del gym.registry["Walker-v0"], gym.registry["Learned-v0"]


def settled(**settings: Any) -> RunConfig:
    return RunConfig(**{**SMALL, **settings}).settled()


def test_mase_gets_constraint_quantifier_and_penalty() -> None:
    agent = build(settled(limit=4.0, discount=0.9))
    assert agent.constraint == Budget(4.0, 0.9)
    assert isinstance(agent.quantifier, Unknown)
    assert agent.guard.shielding
    assert agent.guard.penalty == Penalty(0.5, None)


def test_the_bare_learner_sees_the_task_alone() -> None:
    agent = build(settled(method="bare", quantifier="exact-gp"))
    assert isinstance(agent.envs, Recorded)
    assert agent.envs.observation_space.shape == (4,), "no threshold in its observation"


@pytest.mark.parametrize(
    ("method", "envs", "learner", "inputs"),
    [
        ("trpo", Recorded, TRPO, 4),
        ("trpo-lagrangian", Recorded, TRPOLagrangian, 4),
        ("cpo", Recorded, CPO, 4),
        ("saute", Saute, PPO, 5),
        ("early-termination", EarlyTermination, PPO, 5),
    ],
)
def test_every_method_is_a_learner_on_its_environments(method: Any, envs: Any, learner: Any, inputs: int) -> None:
    agent = build(RunConfig(method=method, limit=4.0, num_envs=2).settled())
    assert type(agent.envs) is envs
    assert type(agent.learner) is learner
    assert agent.envs.observation_space.shape == (inputs,)
    assert getattr(agent.learner, "cost_limit", 4.0) == 4.0


@pytest.mark.parametrize(
    ("method", "options", "found"),
    [
        ("mase", {"show_threshold": False}, lambda envs: not envs.show_threshold),
        ("early-termination", {"penalty": 2.0}, lambda envs: envs.penalty == 2.0),
        ("saute", {"discount": 0.9, "horizon": 10}, lambda envs: envs.discount == 0.9),
    ],
)
def test_a_method_has_options_of_its_own(method: Any, options: Any, found: Any) -> None:
    assert found(build(RunConfig(method=method, limit=4.0, num_envs=2, method_options=options).settled()).envs)


@pytest.mark.parametrize(("constraint", "truth"), [("budget", cost_of), ("margin", margin_of)])
def test_known_costs_come_from_the_task(constraint: Any, truth: Any) -> None:
    agent = build(settled(quantifier="known", constraint=constraint))
    rng = np.random.default_rng(0)
    states, actions = rng.uniform(-1, 1, (5, 4)), rng.uniform(-1, 1, (5, 1, 2))
    now = np.zeros((5, agent.quantifier.num_signals))
    mean, width = agent.quantifier.predict(np.concatenate([states, now], axis=1), actions)
    expected = agent.constraint.normalise(truth(states, actions[:, 0]))
    np.testing.assert_allclose(np.clip(mean.reshape(5), 0, 1), expected)
    assert not width.any()


@pytest.mark.parametrize("task", ["safexp/PlanarRobot-v0", "safexp/PlanarRobotDiscrete-v0"])
def test_a_gp_starts_from_the_tasks_log_and_settings(task: str) -> None:
    agent = build(settled(task=task, quantifier="exact-gp", constraint="margin", quantifier_options={"capacity": 50}))
    assert agent.constraint == Margin()
    assert isinstance(agent.quantifier, ChangeModel)
    assert isinstance(agent.quantifier.quantifier, ExactGP)
    assert agent.quantifier.quantifier.capacity == 50
    assert agent.quantifier.quantifier.norm_bound == 2.0
    assert agent.quantifier.knows


def test_instantaneous() -> None:
    agent = build(settled(quantifier="known", constraint="instantaneous", limit=0.3, cost_max=2.0))
    assert agent.constraint == Instantaneous(0.3, cost_max=2.0)


def test_layers_are_named_in_json() -> None:
    options = {"policy_kwargs": {"net_arch": [8], "activation_fn": {"torch.nn": "ReLU"}}}
    agent = build(settled(learner_options={**SMALL["learner_options"], **options}))
    assert "ReLU" in str(agent.learner.policy)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "safexp/PlanarRobt-v0"}, "unknown task 'safexp/PlanarRobt-v0'.*Close names: safexp/PlanarRobot-v0"),
        ({"task": "nowhere/Robot-v0"}, "unknown task 'nowhere/Robot-v0'.*`safexp tasks` lists the built-in ones"),
        ({"task": "no_such_module:Robot-v0"}, "task='no_such_module:Robot-v0': there is no module 'no_such_module'"),
        ({"task": "not an id"}, "cannot make task 'not an id'"),
        ({"learner": "PPOO"}, "unknown learner 'PPOO': use one of A2C"),
        ({"learner_options": {"n_step": 8}}, "PPO has no option 'n_step': did you mean n_steps"),
        ({"learner_options": {"seed": 8}}, "learner_options={'seed': 8} are set by the run itself"),
        ({"learner": "DQN", "learner_options": {}}, "DQN cannot be used on safexp/PlanarRobot-v0.*Discrete"),
        ({"quantifier_options": {"delta": 0.1}}, "quantifier_options=.*'unknown' takes none"),
        ({"quantifier": "exact-gp", "quantifier_options": {"colour": 1}}, "ExactGP has no option 'colour': it takes"),
        ({"quantifier": "sparse-gp", "quantifier_options": {"colour": 1}}, "SparseGP has no option 'colour': it takes"),
        ({"task": "Walker-v0", "quantifier": "known"}, "'Walker-v0' does not provide its cost"),
        (
            {"task": "Walker-v0", "quantifier": "exact-gp", "constraint": "instantaneous", "limit": 0.3},
            "needs safe transitions to start from, and task 'Walker-v0' provides none",
        ),
        (
            {"task": "Learned-v0", "quantifier": "exact-gp", "constraint": "margin"},
            "'Learned-v0' logs no margins: use --constraint budget",
        ),
        ({"backup": "fallback"}, "'safexp/PlanarRobot-v0' provides no controller that drives to safety"),
        ({"backup_options": {"reserve": 1}}, "Reset has no option 'reserve': it takes braking, penalty"),
        ({"backup": "learned-reset", "backup_options": {"colour": 1}}, "LearnedReset has no option 'colour': it takes"),
        ({"backup_options": {"braking": 9}}, "braking=9 leaves nothing of Budget"),
    ],
)
def test_a_description_that_cannot_be_built_says_why(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(settled(**settings))


def test_a_stop_is_built_with_the_tasks_controller_or_the_runs_seed() -> None:
    task = {"task": "safexp/PointGoalStatic-v0", "limit": 20.0}
    fallback = build(settled(**task, backup="fallback", backup_options={"braking": 2})).guard.backup
    assert isinstance(fallback, Fallback)
    assert fallback.braking == 2
    learned = build(settled(**task, backup="learned-reset", seed=7, backup_options={"delta": 0.1})).guard.backup
    assert isinstance(learned, LearnedReset)
    assert (learned.seed, learned.delta) == (7, 0.1)


def test_knowledge_is_found_in_copies_of_a_single_environment() -> None:
    assert knowledge_of(gym.make_vec("Learned-v0", num_envs=2)) is Learned.knowledge
    assert knowledge_of(gym.make_vec("Walker-v0", num_envs=2)) == Knowledge()


def test_a_sparse_gp_starts_from_the_tasks_log_with_the_runs_seed() -> None:
    quick = {"num_inducing": 8, "first_steps": 2, "capacity": 50}
    agent = build(settled(quantifier="sparse-gp", quantifier_options={"target": "margin", **quick}, seed=7))
    assert isinstance(agent.quantifier, SparseGP)
    assert (agent.quantifier.target, agent.quantifier.seed) == ("margin", 7)
    assert agent.quantifier.model is not None


def test_a_gp_may_start_from_nothing_under_a_budget() -> None:
    config = settled(quantifier="exact-gp")
    assert make_seed_data(config, Knowledge()) is None
    assert isinstance(make_quantifier(config, Budget(3.0), Knowledge()), ExactGP)
