"""Report of the examination of a log: in the terminal, and as a self-contained HTML page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from safexp.core.files import write_bytes
from safexp.core.findings import RANKS, Finding, Severity, percent
from safexp.doctor.examination import Examination, Limit
from safexp.report.terminal import plain_console, print_rows

STYLES: Mapping[Severity, str] = MappingProxyType({"ok": "bold green", "caution": "bold yellow", "stop": "bold red"})
"""Styles in the terminal."""

SIGNS: Mapping[Severity, str] = MappingProxyType({"ok": "ok", "caution": "caution", "stop": "STOP"})


def print_examination(found: Examination, as_json: bool) -> None:
    """Print the examination."""
    if as_json:
        print(json.dumps(found.to_json(), indent=1, allow_nan=False))
        return
    console = plain_console()
    console.print(found.verdict, style=STYLES["caution" if found.needs_backup else found.severity], markup=False)
    for one in by_severity(found):
        console.print(f"\n{SIGNS[one.severity]}: {one.topic}", style=STYLES[one.severity], markup=False)
        console.print(f"  {one.found}", markup=False)
        if one.means:
            console.print(f"  It means: {one.means}", markup=False)
        if one.remedy:
            console.print(f"  Remedy: {one.remedy}", markup=False)
    for limit in found.limits:
        if limit.models:
            console.print(f"\nModels of the change of {', '.join(limit.names)} (errors as shares of the usual change):")
            print_rows(model_rows(limit), as_json=False)
        if limit.certified:
            console.print("\nCertified, by the size of the limits (1: as given):")
            print_rows(certified_rows(limit), as_json=False)
    if found.needs:
        console.print("\nFurther episodes that would help:")
        for line in need_lines(found):
            console.print(f"  - {line}", markup=False)
    if found.lines:
        console.print("\nThe recommended shield:\n", markup=False)
        print(found.lines, end="")
    if found.lookahead_lines:
        console.print("\nA shield that looks ahead, to be completed with your backup controller:\n", markup=False)
        print(found.lookahead_lines, end="")


def write_examination(path: Path, found: Examination) -> None:
    """Write the page."""
    write_bytes(path, render(found).encode())


def render(found: Examination) -> str:
    """The page as HTML."""
    from safexp.report.doctor_pictures import pictures  # the extra `report`, which only a page needs
    from safexp.report.pages import page_template

    return page_template("doctor.html").render(
        found=found,
        findings=by_severity(found),
        signs=SIGNS,
        limits=[
            {
                "names": ", ".join(limit.names),
                "pictures": pictures(limit),
                "models": model_rows(limit),
                "certified": certified_rows(limit),
            }
            for limit in found.limits
        ],
        needs=need_lines(found),
    )


def by_severity(found: Examination) -> list[Finding]:
    """The findings, the most serious first."""
    return sorted(found.findings, key=lambda one: -RANKS[one.severity])


def model_rows(limit: Limit) -> list[dict[str, str]]:
    """Table of the compared models."""
    if limit.models is None:
        return []
    rows = []
    for one in limit.models.compared:
        random, bold = one.scores["random"], one.scores["bold"]
        told = one.name != "linear trend alone"
        rows.append(
            {
                "model": f"{one.name}{' (recommended)' if one is limit.models.best else ''}",
                "inputs": str(len(one.inputs)),
                "error, random": percent(random.error),
                "error, bold": percent(bold.error),
                "within width, random": percent(random.covered / random.steps) if told else "-",
                "within width, bold": percent(bold.covered / bold.steps) if told else "-",
                "width needed": f"{one.width:.3g}",
            }
        )
    return rows


def certified_rows(limit: Limit) -> list[dict[str, str]]:
    """Table of certified actions by the size of the limits."""
    if limit.certified is None:
        return []
    shares = zip(limit.certified.factors, limit.certified.logged, limit.certified.fresh, strict=True)
    return [
        {"limits": f"{factor:g}", "logged actions": percent(logged), "fresh actions": percent(fresh)}
        for factor, logged, fresh in shares
    ]


def need_lines(found: Examination) -> list[str]:
    """Further episodes that would help, as sentences."""
    return [
        f"{'' if one.episodes is None else f'{one.episodes:,} more '}episodes {one.kind}: {one.why}."
        for one in found.needs
    ]
