import pytest

from safexp.report.limits import LimitedQuantity, limited_quantity
from safexp.runs.config import RunConfig


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (RunConfig(limit=7.0), LimitedQuantity("episode cost", 7.0)),
        (RunConfig(limit=7.0, discount=0.9), LimitedQuantity("episode cost", None)),
        (RunConfig(method="bare", constraint="instantaneous", limit=0.3), LimitedQuantity("step cost", 0.3)),
        (RunConfig(method="bare", constraint="margin"), LimitedQuantity("step cost", 0.0)),
        (RunConfig(method="bare", constraint="schedule", schedule={"0": 0.5}), LimitedQuantity("step cost", None)),
    ],
)
def test_what_a_constraint_limits(config: RunConfig, expected: LimitedQuantity) -> None:
    assert limited_quantity(config) == expected
