"""What is mutated and what is not, and that outcomes are kept, found again and counted."""

from __future__ import annotations

import ast
import json
import random
from pathlib import Path

import pytest

from mutants.mutations import compiles, mutations
from mutants.reach import Reach, functions
from mutants.results import Mutant, Results, digest, kill_rate, known_equivalent, split


def changes(source):
    """All (before, after) of a piece of source."""
    return {(m.before, m.after) for m in mutations(source.encode())}


@pytest.mark.parametrize(
    ("source", "before", "after"),
    [
        ("x = a < b", "a < b", "a <= b"),
        ("x = a >= b", "a >= b", "a > b"),
        ("x = a == b", "a == b", "a != b"),
        ("x = a in b", "a in b", "a not in b"),
        ("x = a + b", "a + b", "a - b"),
        ("x = a / b", "a / b", "a * b"),
        ("x = a & b", "a & b", "a | b"),
        ("x = a and b", "a and b", "a or b"),
        ("x = a and b", "a and b", "b"),
        ("x = not a", "not a", "a"),
        ("x = ~a", "~a", "a"),
        ("x = -a", "-a", "a"),
        ("x = 3", "3", "4"),
        ("x = 3", "3", "2"),
        ("x = 0.25", "0.25", "0.5"),
        ("x = 0.0", "0.0", "1.0"),
        ("x = True", "True", "False"),
        ("x = all(y)", "all", "any"),
        ("x = y.all(axis=1)", "y.all", "y.any"),
        ("x = np.maximum(y, z)", "np.maximum", "np.minimum"),
        ("x = f(y, side='left')", "'left'", "'right'"),
        ("x = a if b else c", "b", "not b"),
        ("if a:\n    f()", "a", "not a"),
        ("if not a:\n    f()", "not a", "a"),
        ("if a:\n    f()", "a", "True"),
        ("if a:\n    f()", "f()", "pass"),
        ("def f():\n    return a", "return a", "return None"),
        ("def f():\n    self.x = a", "self.x = a", "pass"),
        ("def f():\n    x += a", "x += a", "x -= a"),
        ("def f():\n    raise ValueError('a')", "raise ValueError('a')", "pass"),
        ("def f(x=1):\n    pass", "1", "2"),
        ("x = [a for a in b if a > 0]", "a > 0", "True"),
    ],
)
def test_each_kind_of_mutation(source, before, after):
    assert (before, after) in changes(source)


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring of 3 words."""',
        "def f():\n    '''1 < 2'''",
        "x: Array[1]",
        "def f(x: Box[1]) -> Box[2]:\n    '''Nothing.'''",
        "__all__ = ['a', 'b']",
        "import a",
        "from a import b",
        "if TYPE_CHECKING:\n    import a",
        "class A:\n    def __repr__(self):\n        return 1 + 2",
        "def f():\n    log.warning('%d', 1 + 2)",
        "def f():\n    assert a < b",
        "x = f'{a + 1}'",
        "x = y.reshape(-1)",
    ],
)
def test_what_only_people_or_type_checkers_read_is_left_alone(source):
    assert changes(source) == set()


def test_the_text_of_an_error_is_left_alone():
    assert changes("def f():\n    raise ValueError(f'{a + 1}', 2)") == {("raise ValueError(f'{a + 1}', 2)", "pass")}


def test_a_name_that_would_then_be_missing_is_not_deleted():
    assert ("x = f(1)", "pass") not in changes("def g():\n    x = f(1)")
    assert ("x = f(x)", "pass") in changes("def g(x):\n    x = f(x)")


def test_every_mutation_of_a_real_file_changes_its_meaning_and_compiles():
    import safexp.constraints.whole_episode as module

    source = Path(module.__file__).read_bytes()
    original = ast.dump(ast.parse(source))
    found = mutations(source)
    assert len(found) > 100
    assert len({(m.start, m.end, m.after) for m in found}) == len(found)
    for mutation in random.Random(0).sample(found, 40):
        mutated = mutation.apply(source)
        assert compiles(mutated)
        assert ast.dump(ast.parse(mutated)) != original
    assert not compiles(b"x = (")


def test_a_line_knows_its_function():
    source = b"x = 1\n\nclass A:\n    y = 2\n\n    def f(self):\n        return 3\n"
    names = functions(source)
    assert (names[1], names[4], names[7]) == ("module", "A", "A.f")
    assert {m.before: m.function for m in mutations(source)} == {
        "1": "module",
        "2": "A",
        "return 3": "A.f",
        "3": "A.f",
    }


def mutant_of(source=b"def f():\n    return 3\n", file="src/a.py", k=0):
    return Mutant(file, mutations(source)[k], digest(source))


def test_outcomes_outlive_a_crash_in_the_middle_of_a_line(tmp_path):
    results = Results(tmp_path / "r.jsonl")
    results.add(mutant_of(), "survived", "", 1.0)
    results.add(mutant_of(k=1), "killed", "test_x", 1.0)
    results.add(mutant_of(), "killed", "test_y", 1.0)
    with (tmp_path / "r.jsonl").open("a") as stream:
        stream.write('{"identity": ["src/a')
    again = Results(tmp_path / "r.jsonl")
    assert {outcome["by"] for outcome in again.outcomes.values()} == {"test_x", "test_y"}
    again.add(mutant_of(k=2), "killed", "test_z", 1.0)
    assert len(Results(tmp_path / "r.jsonl").outcomes) == 3


def test_equivalent_mutants_are_left_out_wherever_their_file_is(tmp_path):
    known = tmp_path / "equivalent.toml"
    mutant = mutant_of()
    fields = {"file": "elsewhere/a.py", "function": "f", "line": "return 3", "after": mutant.mutation.after}
    text = "[[equivalent]]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in fields.items())
    known.write_text(text)
    with pytest.raises(ValueError, match="needs a reason"):
        known_equivalent(known)
    known.write_text(text + 'reason = "nobody looks"\n')
    results = Results(tmp_path / "r.jsonl")
    for k, status in enumerate(["survived", "killed", "unreached"]):
        results.add(mutant_of(k=k), status, "", 1.0)
    counted, left_out = split(results.outcomes.values(), known_equivalent(known))
    assert (len(counted), left_out) == (2, 1)
    assert kill_rate(counted) == 0.5
    assert kill_rate([]) == 1.0


def test_the_quickest_tests_that_run_a_line_come_first(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "tests").mkdir()
    source = b"LIMIT = 3\n\n\ndef f(x):\n    if x:\n        return 7\n    return 8\n\n\ndef g():\n    return 9\n"
    (tmp_path / "src" / "a.py").write_bytes(source)
    (tmp_path / "tests" / "test_a.py").write_text("from a import LIMIT")
    (tmp_path / "tests" / "test_b.py").write_text("")
    reach = Reach(tmp_path / "reach.json")
    assert reach.missing(tmp_path, ["tests/test_a.py"]) == ["tests/test_a.py"]
    tests = {
        "slow": [9.0, {"src/a.py": [5, 6]}],
        "quick": [0.2, {"src/a.py": [5, 6]}],
        "other": [0.1, {"src/a.py": [5, 7]}],
        "broken": [0.1, {"src/a.py": [5, 6]}],
    }
    reach.add(tmp_path, "tests/test_a.py", {"tests": tests, "failed": ["broken"], "collected": {"src/a.py": [1, 11]}})
    reach.add(tmp_path, "tests/test_b.py", {"tests": {"b": [0.5, {}]}, "failed": [], "collected": {}})
    again = Reach(tmp_path / "reach.json")
    assert again.missing(tmp_path, ["tests/test_a.py"]) == []

    def tests_of(before, most=100.0):
        return again.tests("src/a.py", next(m for m in mutations(source) if m.before == before), most)

    assert tests_of("return 7") == ["quick", "slow"]
    assert tests_of("return 7", most=1.0) == ["quick"]
    assert tests_of("return 8") == ["other"]
    assert tests_of("x") == ["other", "quick", "slow"]
    assert tests_of("return 9") == ["other", "quick", "slow"], "what is run to make a parameter counts for all"
    assert tests_of("3") == ["other", "quick", "slow"]
    (tmp_path / "tests" / "test_a.py").write_text("changed")
    assert again.missing(tmp_path, ["tests/test_a.py"]) == ["tests/test_a.py"]
    again.forget_all_but(["tests/test_b.py"])
    assert list(again.files) == ["tests/test_b.py"]
