"""What MASE says of arguments that cannot be meant."""

from __future__ import annotations

import numpy as np
import pytest
from stable_baselines3 import PPO

import safexp
from safexp import MASE, AllOf, Budget, Instantaneous, Known, Unknown
from support.line import Line


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"penalty": 0}, TypeError, r"penalty=0 is not a safexp.Penalty"),
        ({"penalty": 0.3}, TypeError, r"penalty=0.3 is not a safexp.Penalty"),
        ({"backup": "fallback"}, TypeError, r"backup='fallback' is not a safexp.Recovery"),
        ({"epoch_steps": 0}, ValueError, "epoch_steps=0 must be at least 1"),
        ({"seed_data": "nowhere.csv"}, ValueError, r"nowhere\.csv is not a file"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(options, error, message):
    with pytest.raises(error, match=message):
        MASE(Line(), Budget(3.0), Unknown(), PPO, **options)


@pytest.mark.parametrize("name", ["constraint", "quantifier", "penalty", "backup"])
def test_what_an_argument_should_be_can_be_imported_by_the_name_in_the_message(name):
    arguments = {"constraint": Budget(3.0), "quantifier": Unknown(), "learner": PPO, name: 0}
    with pytest.raises(TypeError, match="is not a safexp") as raised:
        MASE(Line(), **arguments)
    wanted = str(raised.value).rpartition("safexp.")[2].rstrip(".")
    assert wanted in safexp.__all__
    assert isinstance(getattr(safexp, wanted), type)


def test_the_class_of_an_environment_is_no_environment():
    with pytest.raises(TypeError, match=r"got the class Line, expected an environment: Line\(...\)"):
        MASE(Line, Budget(3.0), Unknown(), PPO)


def test_thresholds_in_other_units_certify_nothing():
    agent = MASE(Line(), Budget(300.0, cost_max=100.0), Unknown(), PPO)
    here = np.zeros(1)
    assert not agent.predict(here, 3.0).stopped
    assert agent.predict(here, 0.5).stopped
    with pytest.raises(
        ValueError, match=r"threshold=50.0 is more than the largest of Budget, 3.0: .*divide by cost_max"
    ):
        agent.predict(here, 50.0)
    discounted = MASE(Line(), Budget(3.0, discount=0.5), Unknown(), PPO)
    assert not discounted.predict(here, 50.0).stopped  # what is left counts for more later


def test_a_state_that_cannot_be_read_is_named():
    agent = MASE(Line(), Budget(3.0), Unknown(), PPO)
    with pytest.raises(ValueError, match=r"observations have shape \(1, 2\), expected \(n, 1\)"):
        agent.predict(np.zeros(2), 3.0)
    with pytest.raises(ValueError, match="holds a NaN"):
        agent.predict(np.full(1, np.nan), 3.0)


def test_learning_for_no_steps_is_refused():
    with pytest.raises(ValueError, match="total_timesteps=-5 must be at least 1"):
        MASE(Line(), Budget(3.0), Unknown(), PPO).learn(-5)


def test_a_quantifier_that_was_copied_for_each_cost_is_given_once_to_load(tmp_path):
    def model():
        return Known(lambda states, actions: np.zeros(len(states)))

    agent = MASE(Line(), AllOf(Budget(3.0), Instantaneous(0.5)), model(), PPO)
    agent.save(tmp_path / "a.safexp")
    again = MASE.load(tmp_path / "a.safexp", quantifier=model())
    assert len(again.quantifier.parts) == 2
