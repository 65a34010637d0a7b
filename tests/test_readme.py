"""The README's code runs as it stands there."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_fifteen_lines_run(tmp_path, monkeypatch, capsys):
    block, one_liner, _ = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len([line for line in block.splitlines() if line]) <= 15
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(block.replace("30_000", "2_048") + one_liner, names)
    assert "0 violations in" in capsys.readouterr().out
