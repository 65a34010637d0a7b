"""Report of the check of an environment in the terminal."""

from __future__ import annotations

import json

from rich.table import Table
from rich.text import Text

from safexp.check.check_env import EnvCheck
from safexp.report.doctor import SIGNS, STYLES
from safexp.report.terminal import plain_console


def print_check(found: EnvCheck, as_json: bool) -> None:
    """Print one table with a row for each finding, and the verdict."""
    if as_json:
        print(json.dumps(found.to_json(), indent=1))
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("check", no_wrap=True)
    table.add_column("result", no_wrap=True)
    table.add_column("found")
    for one in found.findings:
        told = " ".join(part for part in (one.found, one.means, f"Remedy: {one.remedy}" if one.remedy else "") if part)
        table.add_row(Text(one.topic), Text(SIGNS[one.severity], style=STYLES[one.severity]), Text(told))
    console = plain_console()
    console.print(table)
    console.print(found.verdict, style=STYLES[found.severity], markup=False)
