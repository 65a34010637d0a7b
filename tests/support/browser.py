"""Headless Chromium, driven by Playwright."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, sync_playwright

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PHONE = 600
"""Narrower windows are those of a telephone, which obeys the page's `viewport` element."""

SETTLED = """new Promise(done => {
    let size = "", still = 0, left = 300;
    const look = () => {
        const root = document.documentElement, now = `${root.scrollWidth} ${root.scrollHeight}`;
        still = now === size ? still + 1 : 0;
        size = now;
        still >= 10 || --left === 0 ? done(1) : requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
})"""
"""Resolves when the page has kept its size for ten frames: plots are laid out again after they were opened."""


class Window:
    """A page in a window; `problems` collects errors and warnings of its console, exceptions and network requests."""

    def __init__(self, page: Page) -> None:
        self.problems: list[str] = []
        self._page = page
        page.on("pageerror", lambda error: self.problems.append(f"raised {error}"))
        page.on("console", self._note_message)
        page.on("request", self._note_request)

    def open(self, path: Path) -> None:
        """Load a file, and wait until everything in it has run."""
        self._page.goto(path.resolve().as_uri())
        self.settle()

    def settle(self) -> None:
        """Wait until the page keeps its size."""
        self.value(SETTLED)

    def value(self, expression: str) -> Any:
        """What a JavaScript expression comes to."""
        return self._page.evaluate(expression)

    def find(self, selector: str) -> Locator:
        """The elements of this CSS selector."""
        return self._page.locator(selector)

    def click(self, element: Locator) -> None:
        """Click with the mouse in the middle of an element."""
        element.click()
        self.settle()

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"{message.type}: {message.text}")

    def _note_request(self, request: Request) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            self.problems.append(f"asked for {request.url}")


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with an empty profile, for as long as it is needed; root's cannot have a sandbox."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, chromium_sandbox=os.geteuid() != 0)
        yield browser
        browser.close()


@contextlib.contextmanager
def window(browser: Browser, width: int = 1280, height: int = 900) -> Iterator[Window]:
    """An empty window of this size."""
    with browser.new_context(viewport={"width": width, "height": height}, is_mobile=width < PHONE) as context:
        yield Window(context.new_page())
