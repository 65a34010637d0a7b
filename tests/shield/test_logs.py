"""Logged data sets: what a file means, and what is wrong with it, to the line."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from safexp import ExactGP, Log, Shield, Within, read_log
from safexp.shield.logs import encode_log

STATES = spaces.Box(-10.0, 10.0, (2,), np.float64)
ACTIONS = spaces.Box(-1.0, 1.0, (1,), np.float64)
FINITE = st.floats(-9, 9, allow_nan=False, width=64)

CSV = "a0,s1,s0,cost,episode\n0.5,2,1,0.25,0\n-0.5,4,3,0,1\n"


def written(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content)
    return path


def test_columns_are_found_by_their_names(tmp_path):
    log = read_log(written(tmp_path, "log.csv", CSV))
    np.testing.assert_array_equal(log.observations, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(log.actions, [[0.5], [-0.5]])
    np.testing.assert_array_equal(log.costs, [0.25, 0.0])
    np.testing.assert_array_equal(log.episodes, [0, 1])
    assert log.margins is None


def test_margins_and_signals_need_no_costs(tmp_path):
    log = read_log(written(tmp_path, "log.csv", "s0,a0,n0,margin,speed\n0,0,1,0.5,3\n1,0,2,-0.1,4\n"))
    assert log.costs is None
    np.testing.assert_array_equal(log.margins, [0.5, -0.1])
    np.testing.assert_array_equal(log.next_observations, [[1], [2]])
    assert list(log.signals) == ["speed"]
    np.testing.assert_array_equal(log.signals["speed"], [3, 4])
    parts = {
        "states": [[0.0], [1.0]],
        "actions": np.zeros((2, 1)),
        "next_states": [[1.0], [2.0]],
        "margins": [0.5, -0.1],
    }
    np.savez(tmp_path / "log.npz", **parts, speed=[3.0, 4.0])
    again = read_log(tmp_path / "log.npz")
    np.testing.assert_array_equal(again.signals["speed"], log.signals["speed"])
    np.testing.assert_array_equal(again.next_observations, log.next_observations)


def test_several_costs_are_numbered(tmp_path):
    log = read_log(written(tmp_path, "log.csv", "s0,a0,cost1,cost0\n0,0,0.1,0.9\n"))
    np.testing.assert_array_equal(log.costs, [[0.9, 0.1]])


@given(arrays(np.float64, (3, 2), elements=FINITE), arrays(np.float64, 3, elements=FINITE))
def test_csv_and_npz_give_the_same_log_to_the_last_bit(tmp_path_factory, states, margins):
    folder = tmp_path_factory.mktemp("logs")
    actions = margins[:, None] / 10
    np.savez(folder / "log.npz", states=states, actions=actions, margins=margins)
    rows = "".join(
        f"{float(s[0])!r},{float(s[1])!r},{float(a[0])!r},{float(m)!r}\n"
        for s, a, m in zip(states, actions, margins, strict=True)
    )
    (folder / "log.csv").write_text("s0,s1,a0,margin\n" + rows)
    for one, other in zip(read_log(folder / "log.npz"), read_log(folder / "log.csv"), strict=True):
        np.testing.assert_array_equal(one, other)


def test_parquet_gives_the_same_log(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra 'parquet'")
    from pyarrow import parquet

    table = pyarrow.table({"s0": [1, 3], "s1": [2.0, 4.0], "a0": [0.5, -0.5], "cost": [0.25, 0.0], "episode": [0, 1]})
    parquet.write_table(table, tmp_path / "log.parquet")
    same = read_log(written(tmp_path, "log.csv", CSV))
    for one, other in zip(read_log(tmp_path / "log.parquet"), same, strict=True):
        np.testing.assert_array_equal(one, other)
    parquet.write_table(pyarrow.table({"s0": [1.0], "a0": ["x"], "cost": [0.0]}), tmp_path / "text.parquet")
    with pytest.raises(ValueError, match="cannot be read as a table of numbers"):
        read_log(tmp_path / "text.parquet")
    parquet.write_table(
        pyarrow.table({"s0": [1.0, None], "a0": [0.0, 0.0], "cost": [0.0, 0.0]}), tmp_path / "null.parquet"
    )
    with pytest.raises(ValueError, match=r"row 1 of .*: s0 is nan"):
        read_log(tmp_path / "null.parquet")


def test_without_pyarrow_the_remedy_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"needs pyarrow: pip install 'safexp\[parquet\]', or save the log as .csv"):
        read_log(written(tmp_path, "log.parquet", ""))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("s0,a0,cost\n0,0,0\n0,x,0\n", r"line 3 of .*log.csv: a0 is 'x', expected a number"),
        ("s0,a0,cost\n0,0,0\n0,0\n", r"line 3 of .* has 2 values for 3 columns"),
        ("s0,a0,cost\n0,0,nan\n", r"line 2 of .*: cost is nan, expected a finite number"),
        ("s0,a0,cost\n0,0,inf\n", r"line 2 of .*: cost is inf"),
        ("cost\n0\n", "has no states, actions; expected"),
        ("s0,s2,a0,cost\n0,0,0,0\n", "has 2 columns s…, but no s1: number them from 0"),
        ("speed,cost\n0,1\n", r"has no states, actions \(it has speed\); expected"),
        ("s0,s0,a0,cost\n0,0,0,1\n", "has a duplicate column"),
        ("s0,a0,cost\n", "has no transitions"),
        ("", "has no states, actions; expected"),
    ],
)
def test_what_is_wrong_with_a_csv_file_is_named(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        read_log(written(tmp_path, "log.csv", content))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"states": np.zeros((2, 1)), "action": np.zeros((2, 1))}, r"the signal action has shape \(2, 1\), expected"),
        (
            {"states": np.array([[0.0], [np.nan]]), "actions": np.zeros((2, 1)), "costs": np.zeros(2)},
            "row 1 of .*: states is nan",
        ),
        (
            {"states": np.array(["a"]), "actions": np.zeros((1, 1)), "costs": np.zeros(1)},
            "states are <U1 of shape .*, expected rows of numbers",
        ),
        ({"states": np.array([{}]), "actions": np.zeros((1, 1)), "costs": np.zeros(1)}, "without pickled objects"),
    ],
)
def test_what_is_wrong_with_an_npz_file_is_named(tmp_path, parts, message):
    np.savez(tmp_path / "log.npz", **parts)
    with pytest.raises(ValueError, match=message):
        read_log(tmp_path / "log.npz")


@pytest.mark.parametrize(("name", "message"), [("log.txt", "expected one of .csv"), ("log.npz", "is not a file")])
def test_a_file_of_another_kind_is_refused(tmp_path, name, message):
    with pytest.raises(ValueError, match=message):
        read_log(tmp_path / name)


def test_a_shield_learns_from_a_file_as_from_memory(tmp_path):
    rng = np.random.default_rng(0)
    states, actions = rng.normal(size=(40, 2)), rng.uniform(-1, 1, (40, 1))
    costs = np.abs(actions[:, 0])
    np.savez(tmp_path / "log.npz", states=states, actions=actions, costs=costs)
    one, other = (Shield(ExactGP(1.0), STATES, ACTIONS) for _ in range(2))
    one.fit(tmp_path / "log.npz")
    other.fit(Log(states, actions, costs))
    assert one.filter(states[0], actions[0], 0.7) == other.filter(states[0], actions[0], 0.7)


def test_a_cost_out_of_range_is_named_by_its_line(tmp_path):
    path = written(tmp_path, "log.csv", "s0,s1,a0,cost\n0,0,0,0\n0,0,0,3\n")
    with pytest.raises(ValueError, match=r"transition 1 \(line 3 of a CSV file\) has 3.0"):
        Shield(ExactGP(1.0), STATES, ACTIONS).fit(path)


def test_discrete_actions_must_be_whole(tmp_path):
    shield = Shield(ExactGP(1.0), STATES, spaces.Discrete(3))
    shield.fit(written(tmp_path, "log.csv", "s0,s1,a0,cost\n0,0,2,0\n"))
    with pytest.raises(ValueError, match=r"\[1.5\] are not all indices of 3 choices"):
        shield.fit(written(tmp_path, "log.csv", "s0,s1,a0,cost\n0,0,1.5,0\n"))


def test_a_spreadsheets_mark_is_not_a_part_of_the_first_name(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("s0,a0,cost\n1,2,0.5\n", encoding="utf-8-sig")
    np.testing.assert_array_equal(read_log(path).observations, [[1.0]])


def test_a_log_of_a_named_signal_makes_a_shield(tmp_path):
    rng = np.random.default_rng(0)
    places, rows = 0.0, ["s0,a0,level,episode"]
    for step in range(400):
        move = rng.uniform(-0.3, 0.3) - 0.3 * places
        rows.append(f"{places},{move},{places + move + 5},{step // 20}")
        places += move
    path = written(tmp_path, "log.csv", "\n".join(rows))
    box = spaces.Box(-1.0, 1.0, (1,))
    shield = Shield(ExactGP(1.0, 3.0), box, box, constraint=Within("level", low=4.0, high=6.0))
    shield.fit(path)
    assert not shield.filter(np.zeros(1), np.zeros(1), measured=5.0).intervened
    decision = shield.filter(np.zeros(1), np.full(1, 0.5), measured=5.8)
    assert decision.stopped or (decision.intervened and decision.action < 0.2)
    with pytest.raises(ValueError, match=r"the signal level is not in the observation.*: give measured=\[level\]"):
        shield.filter(np.zeros(1), np.zeros(1))


def test_actions_in_other_units_are_warned_of(caplog):
    box, states = spaces.Box(-1.0, 1.0, (1,), np.float32), spaces.Box(-1.0, 1.0, (1,))
    encode_log(Log(np.zeros((3, 1)), np.array([[0.1], [5.0], [-3.0]]), np.zeros(3)), states, box)
    assert "2 of 3 logged actions lie outside Box" in caplog.text
    caplog.clear()
    encode_log(Log(np.zeros((2, 1)), np.array([[0.1], [1.0]]), np.zeros(2)), states, box)
    assert not caplog.text


def test_a_log_of_another_kind_is_named():
    shield = Shield(ExactGP(), spaces.Box(-1.0, 1.0, (1,)), spaces.Box(-1.0, 1.0, (1,)))
    with pytest.raises(TypeError, match="got a ndarray, expected Log"):
        shield.fit(np.zeros((3, 2)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("0.1,0.1,0.5\n1,2,0.5\n", "starts with numbers, not with column names; expected s0"),
        ("s0;a0;cost\n1;2;0.5\n", "separates its columns with semicolons; expected commas"),
    ],
)
def test_what_a_csv_file_begins_with_is_checked(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        read_log(written(tmp_path, "log.csv", content))
