"""Which backup drives: the option of the last certificate, held actions, and kept replacements."""

from __future__ import annotations

import numpy as np

from safexp.backups.options import Option
from safexp.backups.takeovers import Takeovers

ALL, NONE = np.ones(2, dtype=bool), np.zeros(2, dtype=bool)
OBSERVATIONS = np.zeros((2, 1))


def controller(value):
    return lambda seen: np.full((len(seen), 1), value)


def takeovers_of(*options, keep=0):
    asked = []

    def choose(states, actions):
        asked.append((states.ravel().tolist(), actions.ravel().tolist()))
        return (actions[:, 0] > 0).astype(np.int64)

    return Takeovers(options, 2, choose, keep), asked


def test_the_option_of_the_certified_action_drives_and_holds_it_first():
    takeovers, asked = takeovers_of(Option(controller(-1.0), 5), Option(controller(-2.0), 5, hold=2))
    takeovers.certify(ALL, np.array([[7.0], [8.0]]), np.array([[0.0], [0.5]]))
    driven = []
    for _ in range(4):
        driven.append(takeovers.act(OBSERVATIONS, ALL).ravel().tolist())
        takeovers.certify(NONE, np.zeros((2, 1)), np.zeros((2, 1)))
    assert driven == [[-1.0, 0.5], [-1.0, 0.5], [-1.0, -2.0], [-1.0, -2.0]]
    assert asked == [([7.0, 8.0], [0.0, 0.5])]  # once, with what was certified
    assert takeovers.steps(ALL).tolist() == [5, 7]


def test_without_a_certificate_the_first_option_drives_and_nothing_is_held():
    takeovers, asked = takeovers_of(Option(controller(-1.0), 5), Option(controller(-2.0), 5, hold=2))
    assert takeovers.act(OBSERVATIONS, ALL).ravel().tolist() == [-1.0, -1.0]
    takeovers.certify(ALL, np.zeros((2, 1)), np.full((2, 1), 0.5))
    takeovers.reset(np.array([True, False]))
    assert takeovers.act(OBSERVATIONS, ALL).ravel().tolist() == [-1.0, 0.5]
    assert len(asked) == 1


def test_options_are_looked_up_before_the_certificates_change():
    takeovers, asked = takeovers_of(Option(controller(-1.0), 5), Option(controller(-2.0), 5))
    takeovers.certify(ALL, np.zeros((2, 1)), np.array([[0.0], [0.5]]))
    takeovers.settle(ALL)
    assert len(asked) == 1
    takeovers.act(OBSERVATIONS, ALL)
    assert len(asked) == 1


def test_a_replacement_is_kept_for_some_steps():
    takeovers, _ = takeovers_of(Option(controller(-1.0), 5), keep=2)
    proposals = np.full((2, 1), 9.0)
    takeovers.certify(ALL, np.zeros((2, 1)), np.array([[0.25], [0.5]]))
    takeovers.replaced(np.array([True, False]), NONE)
    found = []
    for _ in range(3):
        actions, kept = takeovers.kept(proposals)
        found.append((actions.ravel().tolist(), kept.tolist()))
        takeovers.replaced(NONE, NONE)
    assert found == [([0.25, 9.0], [True, False])] * 2 + [([9.0, 9.0], [False, False])]


def test_a_takeover_ends_what_was_kept():
    takeovers, _ = takeovers_of(Option(controller(-1.0), 5), keep=5)
    takeovers.certify(ALL, np.zeros((2, 1)), np.zeros((2, 1)))
    takeovers.replaced(ALL, NONE)
    takeovers.replaced(NONE, np.array([True, False]))
    assert takeovers.kept(np.ones((2, 1)))[1].tolist() == [False, True]
