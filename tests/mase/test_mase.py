"""MASE around learners: what it hands them, what it refuses, save and load, the same run twice."""

from __future__ import annotations

import contextlib

import gymnasium as gym
import numpy as np
import pytest
import torch
from sb3_contrib import TRPO, MaskablePPO
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.callbacks import BaseCallback

import safexp
from safexp.core.files import CheckpointError
from safexp.envs.refusals import NothingSafeError
from safexp.mase.learner import build_training
from safexp.tasks import planar_robot
from support.line import Line, line_cost

SMALL = {"policy_kwargs": {"net_arch": [8]}}
ROLLOUT = {"n_steps": 16, "batch_size": 32, **SMALL}
REPLAY = {"learning_starts": 20, "buffer_size": 1000, "batch_size": 16, **SMALL}
LEARNERS = [
    (PPO, {"n_epochs": 1, **ROLLOUT}, ""),
    (TRPO, ROLLOUT, ""),
    (SAC, REPLAY, ""),
    (TD3, REPLAY, ""),
    (DQN, REPLAY, "Discrete"),
]


def agent_of(learner=PPO, options=None, kind="", num_envs=4, seed=0, **more):
    env = gym.make_vec(f"safexp/PlanarRobot{kind}-v0", num_envs=num_envs)
    settings = {"constraint": safexp.Budget(1.5), "quantifier": safexp.Unknown(), **more}
    return safexp.MASE(
        env,
        settings.pop("constraint"),
        settings.pop("quantifier"),
        learner,
        learner_options=options,
        seed=seed,
        **settings,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("learner", "options", "kind"), LEARNERS)
def test_the_same_seed_gives_the_same_run(learner, options, kind):
    def run(seed):
        return agent_of(learner, options, kind, seed=seed, epoch_steps=50).learn(400).episodes

    first = run(3)
    assert first
    assert run(3) == first
    assert run(4) != first


@pytest.mark.parametrize(("learner", "options", "kind"), LEARNERS)
def test_save_and_load_give_the_same_actions(learner, options, kind, tmp_path):
    agent = agent_of(learner, options, kind, constraint=safexp.Instantaneous(0.9), quantifier=quantifier_for(kind))
    agent.learn(64)
    agent.save(tmp_path / "agent.safexp")
    loaded = safexp.MASE.load(tmp_path / "agent.safexp")
    assert type(loaded.learner) is learner
    for observation in np.random.default_rng(0).uniform(-1, 1, (20, 4)):
        expected, found = agent.predict(observation), loaded.predict(observation)
        np.testing.assert_equal(tuple(found), tuple(expected))


def quantifier_for(kind):
    gp = safexp.ExactGP(1.0, norm_bound=0.5, capacity=50)
    rng = np.random.default_rng(0)
    actions = np.eye(9)[rng.integers(9, size=30)] if kind else rng.uniform(-1, 1, (30, 2))
    gp.fit(safexp.quantifiers.Transitions(rng.uniform(-1, 1, (30, 4)), actions, rng.uniform(0, 0.3, 30)))
    return gp


def test_a_loaded_agent_goes_on_learning(tmp_path):
    agent_of(PPO, ROLLOUT).learn(64).save(tmp_path / "agent.safexp")
    env = gym.make_vec("safexp/PlanarRobot-v0", num_envs=4)
    loaded = safexp.MASE.load(tmp_path / "agent.safexp", env, learner_options=ROLLOUT)
    loaded.learn(300)
    assert loaded.episodes


def test_a_loaded_agent_without_environments_says_so(tmp_path):
    agent_of(PPO, ROLLOUT).save(tmp_path / "agent.safexp")
    with pytest.raises(RuntimeError, match="load it with env="):
        safexp.MASE.load(tmp_path / "agent.safexp").learn(10)


def test_a_loaded_agent_refuses_other_spaces(tmp_path):
    agent_of(PPO, ROLLOUT).save(tmp_path / "agent.safexp")
    with pytest.raises(CheckpointError, match="was saved for the action_space Box"):
        safexp.MASE.load(tmp_path / "agent.safexp", gym.make("safexp/PlanarRobotDiscrete-v0"))


def test_the_shield_loads_alone_and_functions_are_given_again(tmp_path):
    known = safexp.Known(planar_robot.cost_of)
    agent_of(PPO, ROLLOUT, constraint=safexp.Instantaneous(0.3), quantifier=known).save(tmp_path / "a")
    with pytest.raises(CheckpointError, match="quantifier=<the same quantifier>"):
        safexp.Shield.load(tmp_path / "a")
    shield = safexp.Shield.load(tmp_path / "a", quantifier=known)
    decision = shield.filter(np.array([-0.5, -0.3, 0.2, 0.0]), np.array([1.0, 0.0]), 0.3)
    assert decision.intervened


def test_layers_of_the_policy_are_saved_by_name(tmp_path):
    options = {**ROLLOUT, "policy_kwargs": {"net_arch": [8], "activation_fn": torch.nn.ReLU}}
    agent_of(PPO, options).save(tmp_path / "a")
    assert safexp.MASE.load(tmp_path / "a").learner_options["policy_kwargs"]["activation_fn"] is torch.nn.ReLU
    options = {**ROLLOUT, "policy_kwargs": {"optimizer_class": torch.optim.SGD}}
    agent_of(PPO, options).save(tmp_path / "b")
    with pytest.raises(CheckpointError, match=r"policy_kwargs\['optimizer_class'\].*learner_options="):
        safexp.MASE.load(tmp_path / "b")
    again = {"policy_kwargs": options["policy_kwargs"]}
    loaded = safexp.MASE.load(tmp_path / "b", learner_options=again)
    assert isinstance(loaded.learner.policy.optimizer, torch.optim.SGD)


def test_predict_wants_what_remains_of_a_budget():
    agent = agent_of(PPO, ROLLOUT)
    with pytest.raises(ValueError, match="Budget changes its threshold during an episode"):
        agent.predict(np.zeros(4))
    assert agent.predict(np.zeros(4), 0.5).stopped
    assert not agent.predict(np.zeros(4), 1.5).stopped


def test_on_policy_learners_keep_their_proposals_and_off_policy_ones_get_what_was_executed():
    class Watch(BaseCallback):
        def _on_step(self):
            buffer = getattr(self.model, "rollout_buffer", None) or self.model.replay_buffer
            self.stored = buffer.actions
            return True

    def stored(learner, options):
        watch = Watch()
        agent = safexp.MASE(
            Line(), safexp.Instantaneous(0.1), safexp.Known(line_cost), learner, learner_options=options, seed=0
        )
        agent.learn(16, callback=watch)
        return watch.stored[:16]

    assert np.abs(stored(PPO, {**ROLLOUT, "batch_size": 16})).max() > 0.1
    assert np.abs(stored(SAC, {**REPLAY, "learning_starts": 100})).max() <= 0.1 + 1e-6


def test_dqn_replaces_by_its_best_safe_action_and_masks_reach_maskable_ppo():
    agent = agent_of(
        DQN, REPLAY, "Discrete", constraint=safexp.Instantaneous(0.3), quantifier=safexp.Known(planar_robot.cost_of)
    )
    agent.learn(100)
    observations = agent.guard.observations
    values = agent.learner.q_net(torch.as_tensor(observations, dtype=torch.float32)).detach().numpy()
    np.testing.assert_allclose(agent.guard.preferences(observations, np.eye(9)), values, rtol=1e-6)
    masked = agent_of(
        MaskablePPO,
        ROLLOUT,
        "Discrete",
        constraint=safexp.Instantaneous(0.3),
        quantifier=safexp.Known(planar_robot.cost_of),
    )
    masked.learn(320)
    assert sum(episode.interventions for episode in masked.episodes) == 0
    assert not any(episode.violated for episode in masked.episodes)


def test_seed_data_starts_the_quantifier_in_the_constraint_s_units():
    log = safexp.Log(np.zeros((2, 1)), np.array([[0.0], [0.5]]), np.array([0.0, 2.5]))
    gp = safexp.ExactGP(1.0)
    safexp.MASE(
        Line(),
        safexp.Instantaneous(2.5, cost_max=5.0),
        gp,
        PPO,
        learner_options=ROLLOUT | {"batch_size": 16},
        seed_data=log,
    )
    mean, _ = gp.predict(np.zeros((1, 1)), np.array([[[0.5]]]))
    assert mean[0, 0] == pytest.approx(0.5, abs=1e-3)


def test_one_quantifier_is_shared_out_among_several_costs():
    gp = safexp.ExactGP(1.0, delta=0.1)
    agent = safexp.MASE(
        Line(),
        safexp.AllOf(safexp.Budget(2.0), safexp.Instantaneous(1.0)),
        gp,
        PPO,
        learner_options=ROLLOUT | {"batch_size": 16},
        safe_action=np.zeros(1),
    )
    assert [part.delta for part in agent.quantifier.parts] == [0.05, 0.05]
    agent.learn(32)
    assert all(part.size > 0 for part in agent.quantifier.parts)


@pytest.mark.slow
def test_the_quantifier_learns_at_the_end_of_an_epoch():
    def hill(actions):
        """A cost of norm 1 in the quantifier's own space of functions."""
        return np.exp(-0.5 * ((actions[:, 0].astype(float) - 1.0) / 0.7) ** 2)

    gp = safexp.ExactGP([1000.0, 0.7], norm_bound=1.1, novelty=1e-4)
    moves = np.linspace(-1.0, -0.5, 5)[:, None]
    constraint = safexp.Instantaneous(0.8, cost=lambda observations, actions, following: hill(actions))
    log = safexp.Log(np.zeros((5, 1)), moves, hill(moves))
    agent = safexp.MASE(Line(), constraint, gp, SAC, learner_options=REPLAY, seed_data=log, seed=0, epoch_steps=40)
    kept = gp.size
    agent.learn(200)
    assert gp.size > kept
    assert not any(episode.violated for episode in agent.episodes)
    assert max(episode.max_step_cost for episode in agent.episodes) > 0.5


class Sharpening(safexp.Known):
    """Certifies nothing beyond 0.5 until its first update, and then nothing beyond 1.0, with a narrower width."""

    edge = 0.5

    def __init__(self):
        super().__init__(lambda states, actions: np.where(states[:, 0] > self.edge, 1.0, 0.0), width=0.5)

    def update(self, data):
        self.edge, self.width = 1.0, 0.125


@pytest.mark.parametrize("rewriting", [True, False])
def test_stored_stops_are_rewritten_at_the_end_of_an_epoch_unless_that_is_switched_off(rewriting):
    agent = safexp.MASE(
        Line(),
        safexp.Instantaneous(0.5, cost=lambda observations, actions, following: np.zeros(len(following))),
        Sharpening(),
        SAC,
        learner_options=REPLAY | {"learning_starts": 1000},
        penalty=safexp.Penalty(1.0, largest=100.0),
        seed=0,
        rewriting=rewriting,
    )
    agent.learn(100)  # one epoch, whose stops were all paid 1 / 0.5 when they happened
    buffer = agent.learner.replay_buffer
    stopped = buffer.history.stopped[:100, 0]
    rewards, dones, places = (
        part[:100, 0][stopped] for part in (buffer.rewards, buffer.dones, buffer.next_observations)
    )
    held = places[:, 0] > 1.0
    assert 0 < held.sum() < len(held)
    if rewriting:
        np.testing.assert_array_equal(rewards, np.where(held, -8.0, 1.0))
        np.testing.assert_array_equal(dones, held)
    else:
        assert set(rewards) == {-2.0}
        assert set(dones) == {1.0}


def test_a_cold_start_fails_before_any_work():
    with pytest.raises(NothingSafeError, match="seed_data"):
        agent_of(PPO, ROLLOUT, constraint=safexp.Instantaneous(0.3), quantifier=safexp.ExactGP()).learn(64)


def test_single_and_dict_environments_are_accepted():
    safexp.MASE(
        gym.make("safexp/PlanarRobot-v0"),
        safexp.Budget(1.5),
        safexp.Unknown(),
        PPO,
        learner_options=ROLLOUT | {"batch_size": 16},
    ).learn(32)
    for learner, options in [(PPO, ROLLOUT | {"batch_size": 16}), (SAC, REPLAY)]:
        agent = safexp.MASE(
            Line(mapping=True), safexp.Budget(1.5), safexp.Unknown(), learner, learner_options=options, seed=0
        )
        agent.learn(64)
        assert agent.episodes
        decision = agent.predict({"place": np.zeros(1)}, 1.2)
        assert decision.action.shape == (1,)


def test_the_progress_bar_shows_violations(capsys):
    agent_of(PPO, ROLLOUT).learn(320, progress_bar=True)
    assert "violations 0" in capsys.readouterr().out


@pytest.mark.slow
def test_switches_for_ablation():
    bare = agent_of(PPO, ROLLOUT, constraint=safexp.Budget(0.5), shielding=False).learn(2000)
    assert any(episode.violated for episode in bare.episodes)
    assert not any(episode.stopped for episode in bare.episodes)
    unpaid = agent_of(PPO, ROLLOUT, penalty=None).learn(640)
    assert all(episode.true_return == pytest.approx(episode.penalised_return) for episode in unpaid.episodes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_steps": 3}, "n-step returns mix rewards"),
        ({"optimize_memory_usage": True}, "MASE uses its own buffer"),
        ({"replay_buffer_kwargs": {"a": 1}}, "MASE uses its own buffer"),
    ],
)
def test_replay_options_that_break_rewriting_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        agent_of(SAC, {**REPLAY, **options})


def test_a_learner_must_be_an_algorithm_class():
    with pytest.raises(TypeError, match="is not an algorithm class of Stable-Baselines3"):
        agent_of("PPO")


def test_a_bound_on_the_expectation_is_not_one_on_what_happens(caplog):
    agent_of(PPO, ROLLOUT, quantifier=safexp.ExactGP(noise=0.1))
    assert "Budget limits realised costs, but ExactGP bounds their expectation" in caplog.text


def test_learning_goes_on_from_new_episodes_after_a_broken_step():
    calls = []

    def cost(observations, actions, following):
        calls.append(1)
        if len(calls) in (2, 4, 6):
            raise KeyboardInterrupt
        return np.ones(len(following))

    env = Line(50)
    agent = safexp.MASE(
        env, safexp.Budget(3.0, cost=cost), safexp.Unknown(), PPO, learner_options=ROLLOUT | {"batch_size": 16}, seed=0
    )
    for _ in range(6):
        with contextlib.suppress(KeyboardInterrupt):
            agent.learn(20)
    assert max(episode.cost for episode in agent.episodes) <= 3.0
    assert not any(episode.violated for episode in agent.episodes)


def test_a_stop_by_a_changed_quantifier_is_charged_in_the_replay_buffer():
    known = safexp.Known(lambda states, actions: np.zeros(len(states)))
    agent = safexp.MASE(
        Line(50),
        safexp.Instantaneous(0.5),
        known,
        SAC,
        learner_options=REPLAY | {"learning_starts": 100},
        penalty=safexp.Penalty(7.0),
        seed=0,
    )
    agent.learn(20)
    known.cost = lambda states, actions: np.where(np.abs(states[:, 0]) > 1e-9, 1.0, 0.0)
    agent.learn(1)
    buffer = agent.learner.replay_buffer
    assert buffer.history.stopped[19, 0]
    assert buffer.rewards[19, 0] == -7.0
    assert buffer.dones[19, 0] == 1.0


def test_predict_replaces_as_training_does():
    known = safexp.Known(lambda states, actions: np.array([0.0, 0.2, 0.9])[actions.argmax(axis=1)])
    agent = safexp.MASE(Line(discrete=True), safexp.Instantaneous(0.5), known, DQN, learner_options=REPLAY, seed=0)
    agent.guard.preferences = lambda observations, _: np.array([[1.0, 2.0, 3.0]] * len(observations))
    agent.learner.exploration_rate = 0.0
    agent.learner.policy.q_net.q_net[-1].bias.data = torch.tensor([0.0, 0.0, 100.0])
    assert agent.predict(np.zeros(1)).action == 1


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"constraint": 3}, TypeError, "constraint=3 is not a safexp.Constraint"),
        ({"quantifier": safexp.Unknown}, TypeError, "is not a safexp.Quantifier"),
        (
            {"quantifier": safexp.PerCost(safexp.Unknown(), safexp.Unknown())},
            ValueError,
            "quantifiers for 2 costs, but Budget limits 1",
        ),
        (
            {"constraint": safexp.JointChance(0.5, lambda o: o[:, 0] > 9), "levels": (0.0, 1.0)},
            ValueError,
            "round the risks of JointChance down",
        ),
    ],
)
def test_wrong_parts_are_named(change, kind, message):
    with pytest.raises(kind, match=message):
        agent_of(PPO, ROLLOUT, **change)


def test_one_constraint_in_all_of_is_still_one():
    agent = agent_of(
        PPO, ROLLOUT, constraint=safexp.AllOf(safexp.Instantaneous(0.5)), quantifier=safexp.Known(planar_robot.cost_of)
    )
    agent.learn(64)
    assert agent.shield.failures == 0


def test_a_loaded_agent_goes_on_with_the_options_of_its_learner(tmp_path):
    options = {"n_steps": 24, "batch_size": 12, "gamma": 0.9, "learning_rate": 1e-3, "verbose": 0}
    agent = safexp.MASE(Line(), safexp.Budget(3.0), safexp.Unknown(), PPO, learner_options=options, seed=0)
    agent.save(tmp_path / "agent.safexp")
    loaded = safexp.MASE.load(tmp_path / "agent.safexp", Line())
    assert (loaded.learner.n_steps, loaded.learner.batch_size, loaded.learner.gamma) == (24, 12, 0.9)
    assert loaded.learner.learning_rate == 1e-3
    loaded.learn(48)
    assert loaded.epochs == 2
    more = safexp.MASE.load(tmp_path / "agent.safexp", gym.vector.SyncVectorEnv([Line, Line]))
    assert (more.learner.gamma, more.learner.n_steps == 24) == (0.9, False), "rollouts fit the environments"
    changed = safexp.MASE.load(tmp_path / "agent.safexp", Line(), learner_options={"gamma": 0.5})
    assert (changed.learner.n_steps, changed.learner.gamma) == (24, 0.5)


@pytest.mark.parametrize(
    ("training", "message"),
    [({"n_steps": 10**12}, "sets n_steps=1000000000000, expected at most"), ({"env": "x"}, "the file sets env")],
)
def test_a_file_cannot_ask_for_any_option(training, message):
    with pytest.raises(CheckpointError, match=message):
        build_training(training)
