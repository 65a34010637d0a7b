"""The best of several backups: whose interval counts, and which of them must drive."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from safexp import Backup, BestBackup, Budget, Known, Shield

STATES = np.zeros((2, 1))
ACTIONS = np.array([[[0.0], [1.0]], [[0.0], [1.0]]])


def certificate(*bounds):
    """A certificate whose bound depends on the action alone."""
    return Known(lambda states, actions: np.where(actions[:, 0] > 0.5, bounds[1], bounds[0]))


def test_the_smaller_bound_counts_and_the_first_of_equal_ones():
    best = BestBackup(certificate(0.4, 0.2), certificate(0.1, 0.2), certificate(0.3, 0.05))
    mean, width = best.predict(STATES, ACTIONS)
    assert (mean + width).tolist() == [[0.1, 0.05]] * 2
    assert best.chosen(STATES, np.array([[0.0], [1.0]])).tolist() == [1, 2]
    assert BestBackup(certificate(0.2, 0.2), certificate(0.2, 0.2)).chosen(STATES, ACTIONS[:, 0]).tolist() == [0, 0]


def test_the_second_is_not_asked_about_what_costs_nothing_with_the_first():
    asked = []

    def second(states, actions):
        asked.append(len(actions))
        return np.zeros(len(actions))

    BestBackup(certificate(0.0, 0.5), Known(second)).predict(STATES, ACTIONS)
    assert asked == [2]


def test_what_the_first_cannot_answer_the_second_may():
    best = BestBackup(certificate(np.nan, 0.5), certificate(0.3, np.nan))
    mean, width = best.predict(STATES, ACTIONS)
    assert (mean + width).tolist() == [[0.3, 0.5]] * 2


def test_delta_is_shared():
    assert BestBackup(Known(lambda s, a: a[:, 0], delta=0.1), Known(lambda s, a: a[:, 0], delta=0.1)).delta == 0.2


def shield_of(quantifier, **options):
    box = spaces.Box(-1.0, 1.0, (1,), np.float32)
    backup = Backup(lambda seen: np.zeros((len(seen), 1)), 3, **options)
    return Shield(quantifier, box, box, constraint=Budget(3.0), backup=backup)


def test_a_certificate_of_one_backup_is_refused_for_several():
    with pytest.raises(ValueError, match=r"one backup, which has 2 options: give BestBackup"):
        shield_of(certificate(0.0, 0.0), hold=(0, 2))
    with pytest.raises(ValueError, match=r"2 certificates for 3 options of the backup"):
        shield_of(BestBackup(certificate(0.0, 0.0), certificate(0.0, 0.0)), hold=(0, 2, 4))


def test_other_controllers_are_options_too():
    other = (lambda seen: np.ones((len(seen), 1)), 7)
    backup = Backup(lambda seen: np.zeros((len(seen), 1)), 3, hold=(0, 2), others=[other])
    assert [(option.hold, option.horizon, option.steps) for option in backup.options] == [
        (0, 3, 3),
        (2, 3, 5),
        (0, 7, 7),
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"hold": ()}, r"Backup\(hold=\(\)\) must be one or more whole numbers"),
        ({"hold": (1.5,)}, r"Backup\(hold=\(1.5,\)\) must be one or more whole numbers"),
        ({"keep": -1}, r"Backup\(keep=-1\) must be a whole number of steps"),
        ({"others": [(len, 0)]}, r"Backup\(horizon=0\) must be a whole number of steps, at least 1"),
    ],
)
def test_wrong_options_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Backup(lambda seen: seen, 3, **given)
