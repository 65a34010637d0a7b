"""Warnings after a fit: what a certificate that looks ahead leaves to its backup."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from safexp import Backup, BestBackup, Calibrated, Known, Rollout, Shield, Unknown, Within
from safexp.shield.certificates import scales_of
from safexp.shield.transitions import transitions_of
from support.hoist import HORIZON, LIMIT, brake, hoist

STATES, ACTIONS = spaces.Box(-np.inf, np.inf, (4,), np.float64), spaces.Box(-1, 1, (1,), np.float64)


def fitted(log, quantifier):
    shield = Shield(quantifier, STATES, ACTIONS, constraint=LIMIT, backup=Backup(brake, HORIZON))
    shield.fit(log)
    return shield


@pytest.mark.slow
def test_a_certificate_of_little_in_the_log_is_told(caplog):
    with caplog.at_level("WARNING", "safexp"):
        fitted(hoist(), Calibrated(Rollout()))
        assert caplog.text == ""
        fitted(hoist(jumps=0.01), Calibrated(Rollout()))
    assert "only 0% of the logged actions are certified, with widths scaled by 11" in caplog.text
    assert "check for an entry of the state that jumps or lacks its speed" in caplog.text


def test_without_calibration_there_is_no_scale_to_tell(caplog):
    def away(observations):
        return np.ones((len(observations), 1))

    shield = Shield(Rollout(degree=1), STATES, ACTIONS, constraint=LIMIT, backup=Backup(away, 3 * HORIZON))
    with caplog.at_level("WARNING", "safexp"):
        shield.fit(hoist(episodes=20, steps=200))
    assert "only 0% of the logged actions are certified, so the backup would drive" in caplog.text


def test_the_certified_share_is_that_of_single_decisions():
    log = hoist(episodes=20, steps=40)
    near = Within(0, low=2.5, high=6.0)
    shield = Shield(Rollout(degree=1), STATES, ACTIONS, constraint=near, backup=Backup(brake, 20))
    shield.fit(log)
    data = transitions_of(log, near, STATES, ACTIONS, with_next=True)
    rows = np.arange(0, len(data.states), 2)  # at most 500 of 800
    decisions = shield.filter_batch(log.observations[rows], log.actions[rows])
    assert 0 < shield.certified_share(data) < 1
    assert shield.certified_share(data) == np.mean(~decisions.intervened & ~decisions.stopped)


def test_a_share_needs_a_constraint():
    shield = Shield(Unknown(), STATES, ACTIONS)
    data = transitions_of(hoist(episodes=1), LIMIT, STATES, ACTIONS)
    with pytest.raises(ValueError, match="the shield has no constraint to take limits from"):
        shield.certified_share(data)


def test_scales_of_all_parts():
    assert scales_of(Known(lambda states, actions: 0.0)) == []
    parts = [Calibrated(Rollout()), Calibrated(Rollout())]
    parts[1].scale = 3.0
    assert scales_of(BestBackup(*parts)) == [np.inf, 3.0]
