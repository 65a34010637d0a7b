"""Selection of relevant inputs."""

from __future__ import annotations

import numpy as np

from safexp.quantifiers.relevance import relevant_inputs


def test_inputs_that_matter_are_found_among_many():
    rng = np.random.default_rng(0)
    observed, actions = rng.normal(size=(600, 30)), rng.normal(size=(600, 2))
    values = np.stack([observed[:, 3] + 0.2 * actions[:, 0], observed[:, 3] * observed[:, 17]], axis=1)
    train = np.arange(600) % 5 > 0
    assert relevant_inputs(observed, actions, values, train, np.ones(600)) == (3, 17)


def test_what_depends_on_the_action_alone_needs_no_input():
    rng = np.random.default_rng(1)
    observed, actions = rng.normal(size=(400, 8)), rng.normal(size=(400, 1))
    train = np.arange(400) % 5 > 0
    assert relevant_inputs(observed, actions, actions**2 + 0.1 * rng.normal(size=(400, 1)), train, np.ones(400)) == ()


def test_an_input_that_never_varied_is_not_chosen():
    rng = np.random.default_rng(2)
    observed = np.column_stack([np.ones(300), rng.normal(size=300)])
    train = np.arange(300) % 5 > 0
    assert relevant_inputs(observed, np.zeros((300, 1)), observed[:, 1:], train, np.ones(300)) == (1,)
