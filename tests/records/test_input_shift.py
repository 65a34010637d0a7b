"""What is kept of training's inputs, and what is said of others by it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp
from stable_baselines3 import PPO

import safexp
from safexp.records.input_shift import SAMPLE, InputSample
from safexp.tasks.planar_robot import PlanarRobotVector


def seen(states, parts=1, seed=0):
    inputs = InputSample(seed)
    for some in np.array_split(states, parts):
        inputs.add(some, np.zeros((len(some), 1)))
    return inputs


@given(st.integers(0, 2**32 - 1), st.integers(1, 300), st.floats(-3, 3))
def test_the_distance_is_that_of_kolmogorov_and_smirnov(seed, count, shift):
    rng = np.random.default_rng(seed)
    trained, audited = rng.normal(size=(200, 1)), rng.normal(size=(count, 1)) + shift
    trained, audited = (part.astype(np.float32).astype(np.float64) for part in (trained, audited))
    (first, second), outside = seen(trained).compare(audited, np.zeros((count, 1)))
    moved = first if first.name == "s0" else second
    assert moved.distance == pytest.approx(ks_2samp(trained[:, 0], audited[:, 0]).statistic)
    assert outside == moved.outside == np.mean((audited < trained.min()) | (audited > trained.max()))


@given(st.integers(0, 1000), st.integers(1, 9))
def test_the_sample_is_the_same_however_the_rows_come_and_of_all_of_them(seed, parts):
    states = np.arange(2000.0)[:, None]
    one, many = seen(states, 1, seed), seen(states, parts, seed)
    np.testing.assert_array_equal(one.state()["inputs.sample"], many.state()["inputs.sample"])
    sample = one.state()["inputs.sample"][:, 0]
    assert len(set(sample.tolist())) == SAMPLE
    assert abs(sample.mean() - 999.5) < 4.5 * 577 / np.sqrt(SAMPLE), "early and late rows alike"
    np.testing.assert_array_equal(one.state()["inputs.range"][:, 0], [0.0, 1999.0])


def test_a_file_goes_on_where_it_ended():
    rng = np.random.default_rng(0)
    saved = seen(rng.normal(size=(500, 2)))
    loaded = InputSample()
    loaded.restore(saved.state())
    assert (loaded.count, loaded.num_states) == (500, 2)
    loaded.add(np.full((1, 2), 9.0), np.zeros((1, 1)))
    assert loaded.count == 501
    assert loaded.state()["inputs.range"][1, 0] == 9.0
    InputSample().restore({})
    assert InputSample().state() == {}


def test_other_inputs_cannot_be_compared():
    with pytest.raises(ValueError, match="inputs have 3 entries, but training saw 2"):
        seen(np.zeros((4, 1))).compare(np.zeros((4, 2)), np.zeros((4, 1)))


def test_an_agent_carries_what_its_training_saw(tmp_path):
    agent = safexp.MASE(
        PlanarRobotVector(4),
        safexp.Budget(3.0),
        safexp.Unknown(),
        PPO,
        learner_options={"n_steps": 16, "batch_size": 16},
        seed=0,
    )
    agent.learn(128)
    assert agent.inputs.count == 128
    agent.save(tmp_path / "agent.safexp")
    loaded = safexp.MASE.load(tmp_path / "agent.safexp")
    for name, part in agent.inputs.state().items():
        np.testing.assert_array_equal(loaded.inputs.state()[name], part)
