"""Constraints in a file."""

from __future__ import annotations

import json

import numpy as np
import pytest

import safexp
from safexp.constraints.files import build_constraint, describe_constraint
from safexp.core.files import CheckpointError
from safexp.quantifiers.files import build_quantifier


def unsafe(observations):
    return observations[:, 0] > 1


@pytest.mark.parametrize(
    "constraint",
    [
        safexp.Budget(3.0, 0.9, cost="speed", cost_max=4.0),
        safexp.Instantaneous(0.3),
        safexp.Margin(2.0),
        safexp.AllOf(safexp.Budget(1.0), safexp.Margin()),
    ],
)
def test_constraints_come_back(constraint):
    document = json.loads(json.dumps(describe_constraint(constraint)))
    assert build_constraint(document) == constraint


def test_a_schedule_comes_back():
    document = json.loads(json.dumps(describe_constraint(safexp.Schedule([0.1, 0.2]))))
    np.testing.assert_array_equal(build_constraint(document).limits, [0.1, 0.2])


@pytest.mark.parametrize(
    "constraint",
    [safexp.StateVisits(1.0, unsafe), safexp.JointChance(0.1, unsafe), safexp.Budget(1.0, cost=lambda *_: 0)],
)
def test_functions_are_not_saved_and_must_be_given_again(constraint):
    document = json.loads(json.dumps(describe_constraint(constraint)))
    with pytest.raises(CheckpointError, match="constraint=<the same constraint>"):
        build_constraint(document)


def test_names_in_a_file_reach_our_own_classes_only():
    for name in ("np", "read_cost", "Constraint", "__builtins__", "nothing"):
        with pytest.raises(CheckpointError, match="does not have"):
            build_constraint({"name": name, "settings": {}})
    with pytest.raises(CheckpointError, match="load it with quantifier="):
        build_quantifier({"name": "os", "settings": {}})
