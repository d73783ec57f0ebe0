"""Chromium without a window, driven through a pipe: what a page asks of the network, what goes wrong in it,
and what keys do."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--window-size=1000,1400", "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE = 120.0
"""Seconds that an answer may take on a machine that is busy."""
KEYS = {
    "Tab": (9, ""), "Escape": (27, ""), "Enter": (13, "\r"), "End": (35, ""), "ArrowLeft": (37, ""),
    "ArrowUp": (38, ""), "ArrowRight": (39, ""), "ArrowDown": (40, ""), "+": (187, "+"),
}  # fmt: skip


class Browser:
    """Commands and events of the DevTools protocol, as JSON that ends with a zero byte."""

    def __init__(self, commands: int, events: int) -> None:
        self.commands, self.events_from = commands, events
        self.number, self.unread = 0, b""
        self.events: list[dict[str, Any]] = []

    def send(self, method: str, session: str = "", **params: Any) -> dict[str, Any]:
        """What the browser answers; events that come before are kept."""
        self.number += 1
        asked = {"id": self.number, "method": method, "params": params}
        os.write(
            self.commands, json.dumps(asked | ({"sessionId": session} if session else {})).encode() + b"\0"
        )
        while True:
            told = self._read()
            if told.get("id") == self.number:
                assert "error" not in told, told
                return told["result"]
            self.events.append(told)

    def _read(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self.unread:
            ready, _, _ = select.select([self.events_from], [], [], max(0.0, deadline - time.monotonic()))
            some = os.read(self.events_from, 1 << 20) if ready else b""
            assert some, "the browser does not answer"
            self.unread += some
        one, _, self.unread = self.unread.partition(b"\0")
        found: dict[str, Any] = json.loads(one)
        return found


class Page:
    """A page that is open, with what it asked for and what went wrong."""

    def __init__(self, browser: Browser, path: Path) -> None:
        self.browser = browser
        target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        self.send("Performance.enable", timeDomain="threadTicks")
        self.url = path.as_uri()
        self.send("Page.navigate", url=self.url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        return self.browser.send(method, self.session, **params)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        told = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def wait(self, script: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self.run(script):
            assert time.monotonic() < deadline, f"never came true: {script}"
            time.sleep(0.02)

    def press(self, *keys: str) -> None:
        for key in keys:
            code, text = KEYS[key]
            for kind in ("keyDown", "keyUp"):
                typed = {"text": text} if text and kind == "keyDown" else {}
                self.send("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **typed)

    def seconds(self) -> float:
        """Of one processor that the page has taken so far."""
        metrics = {one["name"]: one["value"] for one in self.send("Performance.getMetrics")["metrics"]}
        return float(metrics["TaskDuration"])

    def _events(self, method: str) -> Iterator[dict[str, Any]]:
        for event in self.browser.events:
            if event.get("sessionId") == self.session and event["method"] == method:
                yield event["params"]

    @property
    def asked(self) -> list[str]:
        """What was loaded beside the page and what it carries itself."""
        urls = [event["request"]["url"] for event in self._events("Network.requestWillBeSent")]
        return [url for url in urls if url != self.url and not url.startswith("data:")]

    @property
    def faults(self) -> list[Any]:
        """Exceptions, and what is written to the console."""
        thrown = [event["exceptionDetails"] for event in self._events("Runtime.exceptionThrown")]
        written = [event["args"] for event in self._events("Runtime.consoleAPICalled")]
        return [*thrown, *written, *(event["entry"] for event in self._events("Log.entryAdded"))]

    def close(self) -> None:
        self.send("Page.close")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with an empty profile, which is gone at the end."""
    profile = Path(tempfile.mkdtemp())
    from_us, to_browser = os.pipe()
    from_browser, to_us = os.pipe()
    words = [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
    # The browser reads commands at 3 and writes events at 4, whatever numbers the pipes have here.
    shell = ["bash", "-c", f'exec "$@" 3<&{from_us} 4>&{to_us}', "bash", *words]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = subprocess.Popen(shell, pass_fds=(from_us, to_us), **quiet)
    os.close(from_us)
    os.close(to_us)
    try:
        yield Browser(to_browser, from_browser)
    finally:
        os.close(to_browser)  # without its pipe it ends by itself
        os.close(from_browser)
        try:
            running.wait(20)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
        shutil.rmtree(profile, ignore_errors=True)
