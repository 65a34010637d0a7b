"""Logs of the field trials as files."""

import numpy as np
import pytest

from field_logs import limit_texts, write
from safexp import Log, Within
from safexp.constraints.parse import parse_within
from safexp.shield.logs import read_log


@pytest.mark.parametrize(
    ("limits", "texts"),
    [
        (Within(1, -1.0, 1.0), ["1:-1:1"]),
        (Within(0, low=0.1), ["0:0.1:"]),
        (Within((0, 1), low=[-2.4, -1.4], high=[2.4, 1.4]), ["0:-2.4:2.4", "1:-1.4:1.4"]),
    ],
)
def test_limits_as_text(limits, texts):
    assert limit_texts(limits) == texts
    assert [parse_within(text).sources[0] for text in texts] == list(limits.sources)


def test_a_log_is_read_as_it_was_written(tmp_path):
    rng = np.random.default_rng(0)
    log = Log(rng.random((4, 2)), rng.random((4, 1)), episodes=[0, 0, 1, 1], next_observations=rng.random((4, 2)))
    write(tmp_path / "log.npz", log)
    found = read_log(tmp_path / "log.npz")
    np.testing.assert_array_equal(found.observations, log.observations)
    np.testing.assert_array_equal(found.next_observations, log.next_observations)
    np.testing.assert_array_equal(found.actions, log.actions)
    np.testing.assert_array_equal(found.episodes, log.episodes)
