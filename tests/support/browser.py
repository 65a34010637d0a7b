"""Headless Chromium, driven by the DevTools protocol over two pipes."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

SWITCHES = (
    *("--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars"),
)


class Page:
    """One tab; `problems` collects what its console says of errors, uncaught exceptions and requests."""

    def __init__(self, reading: int, writing: int) -> None:
        self.problems: list[str] = []
        self._reading, self._writing = reading, writing
        self._waiting = b""
        self._sent = 0
        self._session: str | None = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def open(self, path: Path, width: int = 1280, height: int = 900) -> None:
        """Load a file in a window of this size, and wait until everything in it has run."""
        mobile = width < 600
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.send("Page.navigate", url=path.resolve().as_uri())
        while self._receive().get("method") != "Page.loadEventFired":
            pass
        self.settle()

    def settle(self) -> None:
        """Wait until the page has kept its size for ten frames: plots are laid out again after they were opened."""
        self.value("""new Promise(done => {
            let size = "", still = 0, left = 300;
            const look = () => {
                const root = document.documentElement, now = `${root.scrollWidth} ${root.scrollHeight}`;
                still = now === size ? still + 1 : 0;
                size = now;
                still >= 10 || --left === 0 ? done(1) : requestAnimationFrame(look);
            };
            requestAnimationFrame(look);
        })""")

    def value(self, expression: str) -> Any:
        """What a JavaScript expression comes to."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def click(self, element: str) -> None:
        """Click with the mouse in the middle of what a JavaScript expression gives."""
        self.value(f"({element}).scrollIntoView({{block: 'center'}})")
        self.settle()
        box = self.value(f"(({element}).getBoundingClientRect()).toJSON()")
        place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)

    def picture(self, path: Path) -> None:
        """Save the whole page as it looks."""
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Do something and wait for the answer."""
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": parameters}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._sent:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._waiting:
            part = os.read(self._reading, 1 << 20)
            if not part:
                raise RuntimeError("Chromium has gone.")
            self._waiting += part
        text, _, self._waiting = self._waiting.partition(b"\0")
        message = json.loads(text)
        match message:
            case {"method": "Runtime.exceptionThrown", "params": {"exceptionDetails": details}}:
                self.problems.append(json.dumps(details))
            case {"method": "Runtime.consoleAPICalled", "params": {"type": "error" | "warning", "args": said}}:
                self.problems.append(json.dumps(said))
            case {"method": "Log.entryAdded", "params": {"entry": {"level": "error" | "warning"} as entry}}:
                self.problems.append(json.dumps(entry))
            case {"method": "Network.requestWillBeSent", "params": {"request": {"url": url}}}:
                if not url.startswith(("file:", "data:", "blob:")):
                    self.problems.append(f"asked for {url}")
        return message


@contextlib.contextmanager
def chromium(profile: Path) -> Iterator[Page]:
    """A browser with an empty profile, for as long as it is needed."""
    assert PROGRAM, "ask for it only where it is installed"
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    reads, writes = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (theirs_in, theirs_out))  # not 3 or 4
    switches = [*SWITCHES, f"--user-data-dir={profile}", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    process = subprocess.Popen(
        ["bash", "-c", f'exec "$@" 3<&{reads} 4>&{writes}', "bash", PROGRAM, *switches],
        pass_fds=(reads, writes),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for end in (theirs_in, theirs_out, reads, writes):
        os.close(end)
    try:
        page = Page(ours_in, ours_out)
        yield page
        with contextlib.suppress(RuntimeError, BrokenPipeError):
            page._session = None
            page.send("Browser.close")
    finally:
        os.close(ours_out)  # without its pipe the browser ends, if it has not already
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(ours_in)
