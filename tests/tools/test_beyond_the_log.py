"""The reactor's ledger counts what a wrong shield certifies."""

import numpy as np

from beyond_the_log import Reactor, cautious_log, closed_loop, runge_kutta
from safexp import Known, Shield, Within


def shield(width):
    def after(states, actions):
        rows = zip(states, actions, strict=True)
        return np.array([runge_kutta(one, 299.0 + 6.0 * float(action[0]), 0.26)[1] for one, action in rows])

    constraint = Within(1, high=325.0)
    return Shield(Known(after, width), Reactor.observation_space, Reactor.action_space, constraint=constraint)


def test_the_log_is_cautious():
    log = cautious_log(3, 0)
    assert len(log.actions) == 300
    assert log.next_observations[:, 1].max() < 329


def test_a_model_with_a_sufficient_width_misses_nothing_and_one_that_is_too_cold_does():
    right = closed_loop(shield(0.05), 325.0, 2, 0)
    assert right["missed"] == 0
    assert -0.5 < right["most"] <= 0
    wrong = closed_loop(
        Shield(
            Known(lambda s, a: s[:, 1] - 9.0),
            Reactor.observation_space,
            Reactor.action_space,
            constraint=Within(1, high=325.0),
        ),
        325.0,
        2,
        0,
    )
    assert wrong["missed"] == 2
    assert wrong["most"] > 0
