"""Rows of the studies of look-ahead."""

from __future__ import annotations

import pytest

from safexp.records.episodes import Episode
from safexp.studies.lookahead import own_share


def test_the_share_of_own_actions_counts_all_who_drove():
    episode = Episode(0, 10, 10, 0.0, 0.0, 0.0, 0.0, False, False, 2, takeovers=1, drills=3)
    assert own_share([episode]) == pytest.approx(0.4)
    assert own_share([]) is None
