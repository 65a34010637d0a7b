"""The code in README and docs: the README's runs as it stands there, all of it parses and names nothing undefined."""

import builtins
import inspect
import itertools
import re
import shlex
import subprocess
import symtable
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

import safexp
from safexp.cli import main
from support.c_loop import WARNINGS, needs_compiler
from support.cart import Cart, cautious_log

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]

READERS_OWN = {
    "c-export.md": {"observation", "action", "threshold"},
    "backups.md": {"envs", "regulator", "brake", "veer_left", "veer_right"},
    "obstacles.md": {"envs", "log", "brake", "drive_out"},
    "emergency-stop.md": {"envs", "brake"},
    "environment.md": {"env", "place_in"},
    "doctor.md": {"brake", "shield", "env", "controller", "cautious_controller"},
    "deployment.md": {
        *("low", "high", "env", "controller", "cautious_controller", "brake", "running", "plant", "observation"),
    },
}
"""What blocks use that the reader has, and no page can."""


def blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from scopes(child)


def undefined(text: str) -> set[str]:
    """The names that a page's blocks use and neither they nor an earlier block of the page define."""
    known, missing = {*dir(builtins), "__file__", "__name__"}, set()
    for block in blocks(text):
        table = symtable.symtable(block, "block", "exec")
        known |= {name.get_name() for name in table.get_symbols() if name.is_assigned() or name.is_imported()}
        names = [name for scope in scopes(table) for name in scope.get_symbols() if name.is_global()]
        missing |= {name.get_name() for name in names if name.is_referenced()} - known
    return missing


def write_oven_log(path: Path) -> None:
    """Log of a cautious controller of an oven, as the README describes it."""
    rng, rows = np.random.default_rng(0), ["episode,s0,a0,temperature"]
    for episode in range(65):
        now, target = rng.uniform(20.0, 60.0), rng.uniform(30.0, 72.0)
        for _ in range(20):
            heat = 0.0 if now > 74.0 else float(np.clip(0.3 + 0.05 * (target - now) + rng.normal(0.0, 0.2), 0.0, 1.0))
            following = now + 6.0 * heat - 0.04 * (now - 20.0) + rng.normal(0.0, 0.05)
            rows.append(f"{episode},{now},{heat},{following}")
            now = following
    path.write_text("\n".join(rows))


def commands(text: str) -> list[list[str]]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    lines = "".join(block for language, block in fenced if not language).splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("safexp ")]


SHORTER = {"--steps": "2048", "--worlds": "1", "--from": str(ROOT / "results" / "safety-gym")}
EPOCHS = {"small": ["--epochs", "1", "--evaluation", "2"]}


@pytest.mark.slow
def test_all_code_and_commands_of_the_readme_run(tmp_path, monkeypatch, capsys):
    text = README.read_text()
    assert len(text.splitlines()) <= 150
    monkeypatch.chdir(tmp_path)
    write_oven_log(tmp_path / "oven.csv")
    names: dict[str, object] = {}
    for block in blocks(text):
        exec(block, names)
    printed = capsys.readouterr().out
    assert "[1.] proposal" in printed
    assert "0 violations in" in printed
    asked = commands(text)
    assert [words[0] for words in asked] == ["doctor", *["reproduce"] * 3, "check", "train", "report"]
    for words in asked:
        short = [SHORTER.get(before, word) for before, word in itertools.pairwise(["", *words])]
        more = EPOCHS.get(short[short.index("--scale") + 1], []) if "--scale" in short else []
        assert main([*short, *more]) == 0, capsys.readouterr()
    assert (tmp_path / "runs" / "robot.html").is_file()


def test_the_first_run_runs(tmp_path, monkeypatch, capsys):
    (block,) = blocks((ROOT / "docs" / "start" / "first-run.md").read_text())
    monkeypatch.chdir(tmp_path)
    exec(block.replace("30_000", "2_048"), {})
    assert "0 violations in" in capsys.readouterr().out


def section(page: str, heading: str) -> str:
    """The part of a page under a heading of the second level."""
    (found,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    return found


@pytest.fixture
def carts_folder(tmp_path, monkeypatch):
    """Working directory with the log that the pages on a cart describe."""
    monkeypatch.chdir(tmp_path)
    log = cautious_log(drills=True)
    rows = np.column_stack([log.episodes, log.observations, log.actions])
    np.savetxt("cart.csv", rows, delimiter=",", header="episode,s0,s1,a0", comments="")
    return tmp_path


def test_a_cart_behind_a_saved_shield_that_looks_ahead_keeps_its_limits(carts_folder, capsys):
    cart, steps = Cart(), iter(range(60))
    first, _ = cart.reset(seed=0)

    class Running:
        def __bool__(self):
            return next(steps, None) is not None

    names = {"controller": lambda seen: np.ones(1), "plant": lambda action: cart.step(action)[0]}
    names |= {"observation": first, "running": Running()}
    for block in blocks(section("docs/how-to/deployment.md", "A machine with momentum")):
        exec(block, names)
    policy = names["policy"]
    assert policy.violations == 0
    assert policy.counts["replacement"] > 0
    assert policy.counts["proposal"] + policy.counts["replacement"] + policy.counts["backup"] == 60
    assert 0.3 < max(cart.worst) <= 1.0
    assert "'replacement'" in capsys.readouterr().out


@needs_compiler
def test_a_shield_that_looks_ahead_is_exported_as_its_page_says(carts_folder):
    (block,) = blocks(section("docs/how-to/c-export.md", "A shield that looks ahead"))
    exec(block, {})
    subprocess.run(["gcc", *WARNINGS, "-O2", "-ffp-contract=off", "-c", "cart.c"], check=True)
    assert "CART_BACKUP" in (carts_folder / "cart.h").read_text()


def test_a_log_of_arrays_is_read_as_its_page_says():
    names: dict[str, object] = {}
    for block in blocks(section("docs/reference/files.md", "Logs")):
        exec(block, names)
    box = spaces.Box(-np.inf, np.inf, (1,), np.float64), spaces.Box(0.0, 1.0, (1,), np.float64)
    for limit in (safexp.Within("temperature", high=335.0), safexp.Within(0, high=335.0)):
        safexp.Shield(safexp.FeatureRegression(), *box, constraint=limit).fit(names["log"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_name_nothing_that_is_not_there(page):
    assert undefined(page.read_text()) - READERS_OWN.get(page.name, set()) == set()


def test_a_missing_import_is_found():
    first, second = "x = np.zeros(3)", "import numpy as np\n\nprint(np.sum(x), (lambda z: y + z)(1), z)"
    page = f"```python\n{first}\n```\n```python\n{second}\n```\n"
    assert undefined(page) == {"np", "y", "z"}


def test_the_page_on_python_has_all_arguments_of_mase():
    table = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "reference" / "python.md").read_text(), re.MULTILINE)
    assert list(inspect.signature(safexp.MASE).parameters) == table[: table.index("compiled") + 1]
