"""Debian's Firefox, driven over WebDriver BiDi (https://w3c.github.io/webdriver-bidi/)."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from simple_websocket import Client

from tests.functional.serving import until

PROGRAM = shutil.which("firefox-esr")
SECONDS = 60


class _Connection(Client):  # type: ignore[misc]
    def handshake(self) -> None:
        self.host = f"{self.host}:{self.port}"  # Firefox refuses a Host header without its port
        super().handshake()


class Firefox:
    """One tab. ``faults`` has the texts of all errors that scripts reported."""

    def __init__(self, address: str) -> None:
        self._client = _Connection(address)
        self._last = 0
        self.faults: list[str] = []
        self._command("session.new", capabilities={})
        self._command("session.subscribe", events=["log.entryAdded"])
        (tree,) = self._command("browsingContext.getTree")["contexts"]
        self._tab = tree["context"]

    def _command(self, method: str, **params: Any) -> Any:
        self._last += 1
        self._client.send(json.dumps({"id": self._last, "method": method, "params": params}))
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            received = self._client.receive(timeout=SECONDS)
            assert received is not None, f"Firefox does not answer {method}"
            message = json.loads(received)
            if message.get("id") == self._last:
                assert message["type"] == "success", message
                return message["result"]
            if message.get("method") == "log.entryAdded" and message["params"]["level"] == "error":
                self.faults.append(message["params"]["text"])
        raise AssertionError(f"Firefox did not answer {method}")

    def resize(self, width: int, height: int) -> None:
        self._command("browsingContext.setViewport", context=self._tab, viewport={"width": width, "height": height})

    def go(self, url: str) -> None:
        self._command("browsingContext.navigate", context=self._tab, url=url, wait="complete")

    def evaluate(self, expression: str) -> Any:
        """The JSON value of a JavaScript expression in the page."""
        found = self._command(
            "script.evaluate", expression=f"JSON.stringify({expression})", target={"context": self._tab},
            awaitPromise=True,
        )  # fmt: skip
        assert found["type"] == "success", found
        text = found["result"].get("value")
        return None if text is None else json.loads(text)

    def becomes(self, expression: str) -> Any:
        return until(lambda: self.evaluate(expression), SECONDS)

    def press(self, *keys: str, alt: bool = False) -> None:
        """Press and release keys, one after the other."""
        strokes = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        held = {"type": "keyDown", "value": "\ue00a"}, {"type": "keyUp", "value": "\ue00a"}
        actions = [held[0], *strokes, held[1]] if alt else strokes
        keyboard = {"type": "key", "id": "keyboard", "actions": actions}
        self._command("input.performActions", context=self._tab, actions=[keyboard])

    def drag(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        moves = [{"type": "pointerMove", "x": start[0], "y": start[1]}, {"type": "pointerDown", "button": 0},
                 {"type": "pointerMove", "x": end[0], "y": end[1], "duration": 300},
                 {"type": "pointerUp", "button": 0}]  # fmt: skip
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": moves}
        self._command("input.performActions", context=self._tab, actions=[mouse])

    def screenshot(self, path: Path) -> None:
        data = self._command("browsingContext.captureScreenshot", context=self._tab)["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        self._command("browser.close")
        self._client.close()


@contextmanager
def firefox() -> Iterator[Firefox]:
    """A Firefox without a window, with a new profile."""
    assert PROGRAM is not None
    with tempfile.TemporaryDirectory(prefix="firefox-", ignore_cleanup_errors=True) as home:
        process = subprocess.Popen(
            [PROGRAM, "--headless", "--no-remote", "--profile", home, "--remote-debugging-port", "0"],
            env={"HOME": home, "PATH": "/usr/bin:/bin", "MOZ_DISABLE_CONTENT_SANDBOX": "1"},
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert process.stderr is not None
            lines = (re.search(r"WebDriver BiDi listening on (\S+)", line) for line in process.stderr)
            found = next(filter(None, lines), None)
            assert found is not None, "Firefox ended without an address"
            opened = Firefox(f"{found[1]}/session")
            yield opened
            opened.close()
            process.wait(SECONDS)
        finally:
            process.terminate()
            process.wait(SECONDS)
            assert process.stderr is not None
            process.stderr.close()
