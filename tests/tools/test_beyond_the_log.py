"""The ledger of a system counts what a wrong shield certifies."""

import numpy as np
import pytest

from beyond_the_log import STEPS, SYSTEMS, Plant, cautious_log, closed_loop, runge_kutta
from safexp import Known, Shield, Within

REACTOR = SYSTEMS["reactor"]


def shield(after, width=0.0):
    plant = Plant(REACTOR)
    constraint = Within(REACTOR.signal, high=325.0)
    return Shield(Known(after, width), plant.observation_space, plant.action_space, constraint=constraint)


def simulated(states, actions):
    rows = zip(states, actions, strict=True)
    return np.array([runge_kutta(REACTOR.rates, one, float(action[0]), REACTOR.span)[1] for one, action in rows])


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_log_is_cautious(name):
    system = SYSTEMS[name]
    log = cautious_log(system, 3, 0)
    assert len(log.actions) == 3 * STEPS
    assert log.next_observations[:, system.signal].max() < system.targets[1] + max(system.gaps)


def test_a_model_with_a_sufficient_width_misses_nothing_and_one_that_is_too_cold_does():
    right = closed_loop(REACTOR, shield(simulated, 0.05), 325.0, 2, 0)
    assert right["missed"] == 0
    assert -0.5 < right["most"] <= 0
    wrong = closed_loop(REACTOR, shield(lambda states, actions: states[:, 1] - 9.0), 325.0, 2, 0)
    assert wrong["missed"] == 2
    assert wrong["most"] > 0
