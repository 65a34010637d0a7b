"""The PID controller runs as it stands there, and shows what it says."""

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_shield_keeps_the_pid_controller_from_overflowing(capsys):
    runpy.run_path(str(EXAMPLES / "pid_controller.py"), run_name="__main__")
    alone, shielded = capsys.readouterr().out.splitlines()
    assert "(overflows)" in alone
    assert "(does not overflow)" in shielded
    assert "'proposal'" in shielded
    assert "'replacement'" in shielded
    error = float(shielded.partition("mean error ")[2].split()[0])
    assert error < 0.05, "a shield that shuts the valve for good would not overflow either"
