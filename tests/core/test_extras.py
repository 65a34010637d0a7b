"""Missing optional dependencies: the message names the extra that brings them."""

from __future__ import annotations

import doctest
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import safexp
from safexp.core import extras
from safexp.core.extras import EXTRAS, MissingExtraError, needed_for

ROOT = Path(__file__).parents[2]
IMPORTED_AS = {
    "stable_baselines3": "stable-baselines3",
    "sb3_contrib": "sb3-contrib",
    "mujoco": "mujoco-core",
    "PIL": "pillow",
    "imageio_ffmpeg": "imageio-ffmpeg",
    "mlflow": "mlflow-skinny",
    "gym_electric_motor": "gym-electric-motor",
    "highway_env": "highway-env",
    "gymnasium_robotics": "gymnasium-robotics",
}
WITHOUT = """
import importlib.abc, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""


def run_without(missing: str, program: str) -> subprocess.CompletedProcess[str]:
    """A program where a package is not installed."""
    words = [sys.executable, "-c", WITHOUT.format(missing=missing) + program]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_the_example_of_the_documentation() -> None:
    found = doctest.testmod(extras, extraglobs={"safexp": safexp})
    assert found.failed == 0
    assert found.attempted == 3


@pytest.mark.parametrize("package", ["torch", "torch.nn.functional"])
def test_the_extra_is_named(package: str) -> None:
    message = r"^training needs torch: pip install 'safexp\[train\]', or rest\.$"
    with pytest.raises(MissingExtraError, match=message), needed_for("training", instead=", or rest"):
        raise ModuleNotFoundError(name=package)


def test_other_errors_pass_through() -> None:
    with pytest.raises(ModuleNotFoundError, match="nobody"), needed_for("this"):
        import nobody_has_this  # noqa: F401
    with pytest.raises(ZeroDivisionError), needed_for("this"):
        _ = 1 / 0


def test_every_package_is_in_the_extra_that_is_named() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {*EXTRAS, "all", "dev", "docs"} == set(project)
    for extra, packages in EXTRAS.items():
        for package in packages:
            name = IMPORTED_AS.get(package, package)
            assert any(line.startswith(name) for line in project[extra]), (extra, package)


@pytest.mark.parametrize(
    ("missing", "program", "message"),
    [
        ("torch", "import safexp; safexp.MASE", "safexp.MASE needs torch: pip install 'safexp[train]'."),
        ("mujoco", "import safexp; safexp.Layout", "needs mujoco: pip install 'safexp[tasks]'."),
        (
            "mujoco",
            "import gymnasium, safexp; gymnasium.make('safexp/PointGoal1-v0')",
            "a navigation task needs mujoco: pip install 'safexp[tasks]'.",
        ),
        (
            "mujoco",
            "import gymnasium, safexp; gymnasium.make_vec('safexp/HopperVelocity-v0', num_envs=1)",
            "Gymnasium's Hopper needs mujoco: pip install 'safexp[tasks]'.",
        ),
        (
            "torch",
            "import numpy as np, safexp as s; z = np.zeros((9, 1)); s.SparseGP().fit(s.Transitions(z, z, z[:, 0]))",
            "training SparseGP needs torch: pip install 'safexp[train]'.",
        ),
    ],
)
def test_a_missing_package_is_named_where_it_is_needed(missing: str, program: str, message: str) -> None:
    done = run_without(missing, program)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("safexp.core.extras.MissingExtraError")
    assert message in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("missing", "words", "message"),
    [
        ("tyro", [], "safexp: the command safexp needs tyro: pip install 'safexp[train]'.\n"),
        ("plotly", ["report", "runs"], "safexp: `safexp report` needs plotly: pip install 'safexp[report]'.\n"),
    ],
)
def test_the_command_names_the_extra(missing: str, words: list[str], message: str) -> None:
    program = f"import safexp_command; sys.argv = ['safexp', *{words}]; sys.exit(safexp_command.main())"
    done = run_without(missing, program)
    assert (done.returncode, done.stderr) == (2, message)


def test_tasks_are_listed_without_mujoco() -> None:
    done = run_without("mujoco", "from safexp.tasks.listing import task_rows; print(len(task_rows()))")
    assert int(done.stdout) > 30, done.stderr
