"""A headless Chromium driven over a pipe with the DevTools protocol; nothing but the standard library."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
ANSWER_SECONDS = 120
_PAINTED = "new Promise(done => new PerformanceObserver(() => done()).observe({type: 'paint', buffered: true}))"
KEY_CODES = {"Home": 36, "End": 35, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "PageDown": 34}


def installed() -> str | None:
    """Where a Chromium is; None if there is none."""
    return next((found for name in NAMES if (found := shutil.which(name)) is not None), None)


class Tab:
    """One page of a running browser."""

    def __init__(self, to: int, from_: int) -> None:
        self._to, self._from, self._read, self._asked, self._session = to, from_, b"", 0, ""
        self.complaints: list[str] = []
        """Errors and warnings of the console, uncaught exceptions, and requests that failed."""
        self.requests: list[str] = []
        """URLs that the page asked for."""
        self._loaded = False
        made = self.call("Target.createTarget", url="about:blank")
        self._session = self.call("Target.attachToTarget", targetId=made["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of one command."""
        self._asked += 1
        message: dict[str, Any] = {"id": self._asked, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            found = self._message()
            if found.get("id") == self._asked:
                assert "error" not in found, (method, found["error"])
                result: dict[str, Any] = found["result"]
                return result

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._from], [], [], ANSWER_SECONDS)
            assert ready, f"the browser did not answer within {ANSWER_SECONDS} s"
            more = os.read(self._from, 1 << 16)
            assert more, "the browser has ended"
            self._read += more
        text, _, self._read = self._read.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        self._note(found.get("method", ""), found.get("params", {}))
        return found

    def _note(self, method: str, params: dict[str, Any]) -> None:
        match method:
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.complaints.append(details.get("exception", {}).get("description", details["text"]))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.complaints.append(str(params["args"]))
            case "Log.entryAdded":
                self.complaints.append(params["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Page.loadEventFired":
                self._loaded = True

    def open(self, page: Path, fragment: str = "") -> None:
        """Load a file and wait until it is seen: keys and pointers that come before a first frame are lost."""
        self._loaded = False
        self.call("Page.navigate", url="about:blank")
        while not self._loaded:
            self._message()
        self._loaded = False
        self.complaints.clear()
        self.requests.clear()
        self.call("Page.navigate", url=page.as_uri() + fragment)
        while not self._loaded:
            self._message()
        self.run(_PAINTED)

    def wait(self, condition: str) -> None:
        """Wait until an expression is true, looked at once per frame."""
        look = f"const look = () => {condition} ? done() : requestAnimationFrame(look)"
        self.run(f"new Promise(done => {{{look}; look()}})")

    def run(self, script: str) -> Any:
        """The JSON value of an expression."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, *keys: str) -> None:
        """Press keys one after another."""
        for key in keys:
            text = {"text": key} if len(key) == 1 else {}
            code = KEY_CODES.get(key, ord(key[0].upper()))
            for kind in ("keyDown", "keyUp"):
                more = text if kind == "keyDown" else {}
                self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **more)

    def move(self, x: float, y: float) -> None:
        """Move the pointer."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x: float, y: float) -> None:
        """Click with the first button."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def scheme(self, name: str) -> None:
        """Prefer ``light`` or ``dark``."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def size(self, width: int, height: int) -> None:
        """Set the size of the window."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)


_LAUNCH = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Becomes the browser, which reads commands from descriptor 3 and answers on 4."""


def _pipe() -> tuple[int, int]:
    """The ends of a pipe, with numbers that are out of the way of the browser's own."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


@contextmanager
def browsing(program: str, profile: Path) -> Iterator[Tab]:
    """A browser with its data in the new folder ``profile``, ended with the context."""
    to_read, to_write = _pipe()
    from_read, from_write = _pipe()
    options = [
        "--headless=new",
        "--remote-debugging-pipe",
        f"--user-data-dir={profile}",
        "--no-first-run",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--hide-scrollbars",
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
    ]
    running = subprocess.Popen(
        [sys.executable, "-c", _LAUNCH, str(to_read), str(from_write), program, *options],
        pass_fds=(to_read, from_write),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read)
    os.close(from_write)
    try:
        yield Tab(to_write, from_read)
    finally:
        os.close(to_write)
        os.close(from_read)
        running.terminate()
        running.wait(ANSWER_SECONDS)
