"""The shield that looks ahead to the user's backup."""

from typing import Any

import numpy as np
import pytest

from safexp import AllOf, Backup, Calibrated, Log, Rollout, Within, examine
from safexp.doctor.coverage import CoverageCheck, Misses
from safexp.doctor.lookahead import LookAhead, lookahead_findings
from support.hoist import HORIZON, LIMIT, brake, hoist

NONE_MISSED = Misses(30, 0, (0.0, 0.116), 900, 0)
COVERED = CoverageCheck(
    0.05,
    {"random": NONE_MISSED, "bold": NONE_MISSED},
    {"random": NONE_MISSED, "bold": NONE_MISSED},
    1.5,
    (1.5,) * 60,
    0.95,
    60,
    59,
)


def severities(found):
    return {one.topic: one.severity for one in found}


@pytest.mark.parametrize(
    ("logged", "backup", "unseen", "expected"),
    [
        (0.9, 1.0, 0.0, {}),
        (0.3, 1.0, 0.0, {"with the backup, certified": "caution"}),
        (0.0, 0.0, 0.0, {"with the backup, certified": "stop", "with the backup, states": "caution"}),
        (0.9, 0.8, 0.1, {"with the backup, unseen": "caution", "with the backup, states": "caution"}),
    ],
)
def test_what_is_certified(logged, backup, unseen, expected):
    found = lookahead_findings([LIMIT], LookAhead(60, 1.5, logged, backup, unseen), [COVERED])
    assert {topic: one for topic, one in severities(found).items() if one != "ok"} == expected
    assert any("widths scaled by 1.5" in one.found for one in found)
    assert "observation[0] with the backup, coverage" in severities(found)


@pytest.mark.parametrize(("scale", "told"), [(4.9, False), (71.0, True), (np.inf, False)])
def test_a_large_scale(scale, told):  # an infinite one is a stop of the calibration
    found = lookahead_findings([LIMIT], LookAhead(60, scale, 0.9, 1.0, 0.0), [COVERED])
    assert (severities(found).get("with the backup, scale") == "caution") == told


@pytest.mark.slow
def test_a_backup_makes_the_shield_that_one_step_is_not_enough_for():
    log = hoist()
    found = examine(log, constraint=LIMIT, backup=Backup(brake, HORIZON))
    assert found.severity == "ok"
    assert found.verdict == "Good: a trustworthy shield with this backup can be made from this log."
    assert found.look_ahead.logged > 0.9
    assert found.look_ahead.backup > 0.9
    assert not found.needs_backup
    [limit] = found.limits
    assert (limit.models, limit.certified) == (None, None)
    assert limit.coverage.scale == found.look_ahead.scale
    names: dict[str, Any] = {"log": log}
    exec(found.lines, names)
    shield = names["shield"]
    assert isinstance(shield.quantifier, Calibrated)
    assert isinstance(shield.quantifier.quantifier, Rollout)
    assert shield.quantifier.scale == pytest.approx(found.look_ahead.scale)


@pytest.mark.slow
def test_a_load_that_jumps_leaves_nothing_certified():
    found = examine(hoist(jumps=0.01), constraint=LIMIT, backup=Backup(brake, HORIZON))
    assert found.severity == "stop"
    assert found.look_ahead.scale > 5
    assert found.look_ahead.logged < 0.05
    assert "jumps" in next(one.remedy for one in found.findings if one.topic == "with the backup, certified")
    assert (found.lines, found.lookahead_lines) == ("", "")


@pytest.mark.slow
def test_several_limits_and_a_backup_beyond_the_log():
    def full(observations):
        return np.full((len(observations), 1), -3.0)

    limits = AllOf(LIMIT, Within(1, high=2.0))
    found = examine(hoist(), constraint=limits, delta=0.1, backup=Backup(full, 20))
    assert found.spaces["actions"].startswith("-3 to 1 (the range of the logged actions and of the backup")
    assert found.look_ahead.unseen == 1.0
    assert [limit.coverage.delta for limit in found.limits] == [0.05, 0.05]
    assert severities(found.findings)["with the backup, unseen"] == "caution"
    assert found.severity == "stop"


@pytest.mark.slow
def test_discrete_actions_in_a_column():
    rng, rows = np.random.default_rng(0), []
    for episode in range(60):
        state = np.array([rng.uniform(-1, 1), 0.0])
        for _ in range(30):
            choice = int(rng.integers(3)) if rng.random() < 0.3 else int(np.clip(1 - round(4 * state.sum()), 0, 2))
            speed = 0.9 * state[1] + 0.05 * (choice - 1)
            after = np.array([state[0] + 0.2 * speed, speed])
            rows.append((state, [choice], after, episode))
            state = after
    states, actions, following, numbers = map(np.array, zip(*rows, strict=True))
    log = Log(states, actions, episodes=numbers, next_observations=following)

    def let_go(observations):
        return np.ones(len(observations), dtype=np.int64)

    found = examine(log, constraint=Within(0, low=-3.0, high=3.0), backup=Backup(let_go, 20))
    assert found.spaces["actions"] == "3 choices (inferred from the log)"
    assert found.look_ahead.logged > 0.9
    compile(found.lines, "lines", "exec")


def test_a_small_log_is_not_fitted():
    found = examine(hoist(episodes=3), constraint=LIMIT, backup=Backup(brake, HORIZON))
    assert (found.severity, found.look_ahead) == ("stop", None)
