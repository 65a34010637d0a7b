import pytest

from safexp.report.limits import Limited, limited
from safexp.runs.config import RunConfig


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (RunConfig(limit=7.0), Limited("episode cost", 7.0)),
        (RunConfig(limit=7.0, discount=0.9), Limited("episode cost", None)),
        (RunConfig(method="bare", constraint="instantaneous", limit=0.3), Limited("step cost", 0.3)),
        (RunConfig(method="bare", constraint="margin"), Limited("step cost", 0.0)),
        (RunConfig(method="bare", constraint="schedule", schedule={"0": 0.5}), Limited("step cost", None)),
    ],
)
def test_what_a_constraint_limits(config: RunConfig, expected: Limited) -> None:
    assert limited(config) == expected
