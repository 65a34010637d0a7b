"""Job of a forked process: run some tests against one copy of the source tree, and report the outcome."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

OPTIONS = (
    "-o",
    "addopts=",
    "-q",
    "--import-mode=importlib",
    "--strict-markers",
    "--tb=no",
    "--no-header",
    "--no-summary",
    "-p",
    "no:cacheprovider",
)
PLUGINS = ("-p", "pytest_timeout", "-p", "_hypothesis_pytestplugin")


class Watcher:
    """Pytest plugin that runs tests in a given order, records durations and failures, and traces them on request."""

    def __init__(self, order: list[str], trace: Any = None) -> None:
        self.order = {name: k for k, name in enumerate(order)}
        self.trace = trace
        self.failed: list[str] = []
        self.seconds: dict[str, float] = {}

    def pytest_sessionstart(self) -> None:
        """Keep Hypothesis from minimising a failing example: its existence suffices."""
        from hypothesis import Phase, settings

        settings.register_profile("mutants", settings(phases=(Phase.explicit, Phase.generate)))
        settings.load_profile("mutants")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: self.order.get(item.nodeid, len(self.order)))

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self.trace is not None:
            self.trace.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed and report.nodeid not in self.failed:
            self.failed.append(report.nodeid)


def use_tree(tree: Path) -> None:
    """Make this process, and those that it starts, import the package only from this tree."""
    os.chdir(tree)
    source = str(tree / "src")
    sys.path.insert(0, source)
    sys.dont_write_bytecode = True
    os.environ.update(
        PYTHONPATH=source, PYTHONDONTWRITEBYTECODE="1", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", OMP_NUM_THREADS="1"
    )


def strangers(tree: Path) -> list[str]:
    """Files of the package that were imported from elsewhere."""
    files = [
        str(module.__file__)
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] == "safexp" and getattr(module, "__file__", None)
    ]
    return [file for file in files if not file.startswith(f"{tree}/")]


def run_tests(tree: Path, tests: list[str]) -> dict[str, Any]:
    """Run these tests in this order up to the first that fails."""
    use_tree(tree)
    watcher = Watcher(tests)
    code = pytest.main([*OPTIONS, *PLUGINS, "-x", *tests], plugins=[watcher])
    return {
        "passed": code == pytest.ExitCode.OK,
        "by": watcher.failed[0] if watcher.failed else f"pytest exit code {int(code)}",
        "strangers": strangers(tree),
    }


def record(tree: Path, test_file: str, sources: list[str]) -> dict[str, Any]:
    """Run all tests of a file, and report the duration of each and the lines of the sources that it ran."""
    use_tree(tree)
    import coverage

    trace = coverage.Coverage(data_file=None, include=[str(tree / source) for source in sources], config_file=False)
    watcher = Watcher([], trace)
    trace.start()
    pytest.main([*OPTIONS, *PLUGINS, test_file], plugins=[watcher])
    trace.stop()
    data = trace.get_data()
    lines: dict[str, dict[str, list[int]]] = {}
    for source in sources:
        for line, tests in data.contexts_by_lineno(str(tree / source)).items():
            for test in tests:
                lines.setdefault(test, {}).setdefault(source, []).append(line)
    return {
        "tests": {name: [round(spent, 3), lines.get(name, {})] for name, spent in watcher.seconds.items()},
        "collected": lines.get("", {}),
        "failed": watcher.failed,
        "strangers": strangers(tree),
    }


def answer(job: dict[str, Any], path: Path) -> None:
    """Run a job, and write its outcome to a file."""
    tree = Path(job["tree"])
    outcome = record(tree, job["record"], job["sources"]) if "record" in job else run_tests(tree, job["tests"])
    path.write_text(json.dumps(outcome))
