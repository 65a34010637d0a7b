"""The verdict on a good log, and on logs with one fault each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from numpy.typing import NDArray

from safexp import AllOf, Backup, Budget, Examination, Log, Rollout, Within, examine
from safexp.quantifiers import Calibrated
from safexp.shield.certificates import certificate_for
from safexp.shield.transitions import transitions_of
from support.heater import LIMIT, as_log, heater

Columns = dict[str, NDArray[Any]]


def quickly(log: Log, constraint: Any = LIMIT, **options: Any) -> Examination:
    return examine(log, constraint=constraint, quantifiers=["FeatureRegression"], **options)


def serious(found: Examination) -> dict[str, str]:
    return {one.topic: one.severity for one in found.findings if one.severity != "ok"}


def with_state(columns: Columns, change: Any) -> Columns:
    return columns | {name: change(columns[name].copy()) for name in ("states", "next_states")}


def test_a_good_log(good):
    found = quickly(as_log(good))
    assert serious(found) == {}
    assert found.severity == "ok"
    assert found.verdict.startswith("Good")
    assert (found.rows.rows, found.rows.episodes) == (2700, 90)
    [limit] = found.limits
    assert limit.coverage.reached == 0.95
    assert limit.certified.first_certified == limit.certified.first_states == 90
    assert list(limit.certified.logged) == sorted(limit.certified.logged)


@pytest.mark.slow
def test_all_quantifiers_are_compared_and_the_lines_build_the_one_that_was_measured(good):
    log = as_log({name: column[:900] for name, column in good.items()})
    found = examine(log, constraint=LIMIT, delta=0.1)
    [limit] = found.limits
    assert {one.name for one in limit.models.compared} == {
        "linear trend alone",
        "SparseGP",
        "FeatureRegression",
        "ExactGP",
    }
    names: dict[str, Any] = {"log": log}
    exec(found.lines.split("shield = ")[0], names)
    model = certificate_for(names["constraint"], names["quantifier"], names["observations"])
    model.fit(transitions_of(log, names["constraint"], names["observations"], names["actions"]))
    assert isinstance(model, Calibrated)
    assert model.scale == pytest.approx(limit.coverage.scale)
    np.testing.assert_allclose(model.scores, limit.coverage.scores)


@pytest.mark.parametrize(("episodes", "topic"), [(4, "heat, size"), (10, "heat, calibration")])
def test_a_log_that_is_too_small(episodes, topic):
    found = quickly(as_log(heater(episodes=episodes)))
    assert found.severity == "stop"
    assert serious(found)[topic] == "stop"
    assert found.lines == ""


def test_a_small_log_says_how_sure_it_is():
    found = quickly(as_log(heater(episodes=40)))
    assert serious(found) == {"heat, calibration": "caution"}
    assert 0.5 < found.limits[0].coverage.reached < 0.95
    assert [need.episodes for need in found.needs if "confidence" in need.why] == [59 - 40]


@pytest.mark.parametrize("seen", [True, False], ids=["sign seen", "sign hidden"])
def test_a_folded_signal(good, seen):
    folded = good | {"heat": np.abs(good["heat"])}
    if not seen:
        folded = with_state(folded, lambda states: np.abs(states) * [1, 0, 0] + states * [0, 1, 1])
    found = quickly(as_log(folded), Within("heat", high=16.0))
    assert serious(found)["heat, folded"] == "stop"
    assert "both sides" in next(one.remedy for one in found.findings if one.topic == "heat, folded")


def test_a_distance_to_the_nearest_wall(good):
    walls = good | {"clearance": 20.0 - np.abs(good["heat"])}
    log = as_log(walls)._replace(signals={"clearance": walls["clearance"]})
    assert serious(quickly(log, Within("clearance", low=2.0)))["clearance, folded"] == "stop"


def test_a_smooth_square_is_not_folded(good):
    log = as_log(good)._replace(signals={"power": good["heat"] ** 2})
    assert "power, folded" not in serious(quickly(log, Within("power", high=300.0)))


def test_a_clipped_signal(good):
    log = as_log(good | {"heat": np.minimum(good["heat"], 3.0)})
    assert serious(quickly(log))["heat, clipped"] == "caution"


def test_a_constant_input(good):
    found = quickly(as_log(with_state(good, lambda states: np.c_[states, np.full(len(states), 24.0)])))
    assert serious(found) == {"constant inputs": "caution"}
    assert found.limits[0].inputs.constant == {"s3": 24.0}
    assert "s3" in found.limits[0].models.best.inputs  # or nobody would notice that it changes


def test_inputs_that_follow_from_others(good):
    found = quickly(as_log(with_state(good, lambda states: np.c_[states, 3 * states[:, 1] - 1, states[:, 1:].sum(1)])))
    inputs = found.limits[0].inputs
    assert {str(copy) for copy in inputs.copies} == {"s0 = 1 · heat now", "s3 = 3 · s1 − 1"}
    assert inputs.combined == ("s4",)
    assert not {"s0", "s3", "s4"} & set(found.limits[0].models.best.inputs)
    assert found.severity == "ok"


def test_missing_values(good):
    states = good["states"].copy()
    states[[5, 17], 1] = np.nan
    found = quickly(as_log(good | {"states": states}))
    assert (found.severity, found.limits, found.lines) == ("stop", (), "")
    assert "s1 in 2 of 2,700 rows (row 5, 17)" in found.findings[0].found


def test_a_signal_that_reacts_three_steps_late():
    late = as_log(heater(late=2))
    found = quickly(late)
    assert serious(found)["heat, delay"] == "stop"
    response = found.limits[0].signals[0].response
    assert response.dead == 2
    assert response.look_ahead >= 3
    assert found.lines == ""
    assert found.needs_backup
    assert found.verdict.startswith("A shield that looks one step ahead is not enough here")
    names: dict[str, Any] = {"log": late}
    exec(found.lookahead_lines.replace("raise NotImplementedError", "return np.zeros((len(observations), 1))"), names)
    shield = names["shield"]
    assert isinstance(shield.quantifier, Calibrated)
    assert isinstance(shield.quantifier.quantifier, Rollout)
    assert shield.backup.horizon == response.look_ahead
    simulated = quickly(late, resets=True)
    assert serious(simulated)["heat, delay"] == "caution"
    assert simulated.lookahead_lines == ""
    assert not simulated.needs_backup


def test_a_backup_is_not_all_that_a_log_without_exploration_needs():
    found = quickly(as_log(heater(late=2, noise=0.0)))
    assert serious(found)["heat, delay"] == serious(found)["exploration"] == "stop"
    assert found.verdict.startswith("No trustworthy shield can be made")
    assert (found.needs_backup, found.lookahead_lines) == (False, "")


def test_a_signal_with_momentum():
    rng = np.random.default_rng(0)
    rows = []
    for episode in range(90):
        place, speed = rng.uniform(-1, 1, size=2) * [1.0, 0.1]
        for _ in range(30):
            action = np.clip(-0.3 * place - speed + 0.3 * rng.normal(), -1, 1)
            before = (place, speed)
            speed += 0.02 * action
            place += speed
            rows.append((*before, action, place, speed, episode))
    table = np.array(rows)
    log = Log(table[:, :2], table[:, 2:3], episodes=table[:, 5], next_observations=table[:, 3:5])
    found = quickly(log, Within(0, low=-3.0, high=3.0))
    assert serious(found)["observation[0], delay"] == "stop"
    response = found.limits[0].signals[0].response
    assert response.dead == 0
    assert response.lasts == response.horizon


def test_actions_that_follow_from_the_state():
    assert serious(quickly(as_log(heater(noise=0.0))))["exploration"] == "stop"
    found = quickly(as_log(heater(noise=0.03)))
    assert serious(found)["exploration"] == "caution"
    assert any("noise" in need.kind for need in found.needs)


def test_actions_never_taken(good):
    chosen = good | {"actions": np.where(good["actions"] > 0, 3.0, 1.0)}
    found = quickly(as_log(chosen))
    assert serious(found)["actions never taken"] == "caution"
    assert found.actions.never == (0, 2)
    assert found.spaces["actions"].startswith("4 choices (inferred")
    assert max(found.limits[0].certified.fresh) <= 0.5
    assert any("0, 2" in need.kind for need in found.needs)


def test_a_log_far_from_its_limits():
    found = quickly(as_log(heater(boldness=2.0, noise=0.3)))
    assert serious(found)["heat, upper limit"] == serious(found)["heat, lower limit"] == "caution"
    assert sum("bolder" in need.kind for need in found.needs) == 2


def test_a_log_that_crossed_its_limit(good):
    found = quickly(as_log(good), Within("heat", high=8.0))
    assert serious(found)["heat, upper limit"] == "caution"
    [near] = found.limits[0].nearness
    assert near.rows_beyond == (good["heat"] > 8).sum() - (good["heat"][::30] > 8).sum()  # first steps: no heat before
    assert near.nearest < 0


def test_gaps_and_clocks(good):
    steps = np.tile(np.arange(30.0), 90)
    even = as_log(good)._replace(signals={"heat": good["heat"], "time": 0.1 * steps})
    assert quickly(even).rows.clock == "time"
    kept = np.ones(2700, dtype=bool)
    kept[100:2700:60] = False
    torn = as_log({name: column[kept] for name, column in good.items()})
    found = quickly(torn._replace(signals={"heat": good["heat"][kept], "time": 0.1 * steps[kept]}))
    assert serious(found)["gaps"] == "caution"
    assert (found.rows.torn, found.rows.late) == (44, 44)


def test_steps_out_of_order(good):
    order = np.random.default_rng(0).permutation(2700)
    found = quickly(as_log({name: column[order] for name, column in good.items()}))
    assert serious(found)["order"] == "stop"


def test_a_log_without_episodes(good):
    found = quickly(as_log(good)._replace(episodes=None))
    assert serious(found)["rows"] == "caution"


def test_several_limits_share_delta(good):
    log = as_log(good)._replace(signals={"heat": good["heat"], "draught": good["next_states"][:, 1]})
    found = quickly(log, AllOf(LIMIT, Within("draught", high=9.0)), delta=0.1, resets=True)
    assert [limit.coverage.delta for limit in found.limits] == [0.05, 0.05]
    assert found.lines.count("Calibrated(ChangeModel(") == 2
    compile(found.lines, "lines", "exec")


def test_the_action_space_is_the_logged_range(good):
    clipped = good | {"actions": np.clip(good["actions"], -1, 1)}
    found = quickly(as_log(clipped))
    told = "the range of the logged actions: put the machine's real bounds"
    assert found.spaces["actions"] == f"-1 to 1 ({told} there)"
    assert f"# {told} here\nactions = spaces.Box(np.array([-1.0], np.float64), np.array([1.0]," in found.lines
    given = quickly(as_log(clipped), action_space=spaces.Box(-2.0, 2.0, (1,)))
    assert given.spaces["actions"] == "-2 to 2"
    assert "real bounds" not in given.lines


def test_what_cannot_be_examined(good):
    with pytest.raises(ValueError, match="not for Budget"):
        quickly(as_log(good), Budget(3.0))
    with pytest.raises(ValueError, match="it has heat"):
        quickly(as_log(good), Within("pressure", high=3.0))
    with pytest.raises(ValueError, match=r"delta=1\.5"):
        quickly(as_log(good), delta=1.5)
    with pytest.raises(ValueError, match="with 2 options: examine Backup"):
        quickly(as_log(good), backup=Backup(np.zeros_like, 5, hold=(0, 3)))
    with pytest.raises(ValueError, match=r"the backup returned actions of shape \(2, 3\)"):
        quickly(as_log(good), backup=Backup(np.zeros_like, 5))
