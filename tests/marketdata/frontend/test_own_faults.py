"""When the frontend itself is at fault, people see no path of its files; its log names the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from marketdata.errors import StateError
from marketdata.frontend.pages import Pages
from tests.marketdata.frontend.conftest import Frontend
from tests.marketdata.frontend.scripted_api import ScriptedApi

ADDRESSES = ("/", "/whoami", "/static/market.css", "/api/v1/chart")
BROWSER = "text/html,application/xhtml+xml"


OF_ANOTHER_FORM = json.dumps({"users": {"a b": "x"}, "token": "x y", "scope": "write", "name": "n"})
DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "malformed": lambda file: file.write_text("{"),
    "of another form": lambda file: file.write_text(OF_ANOTHER_FORM),
    "writable by others": lambda file: file.chmod(0o666),
    "a folder": lambda file: (file.unlink(), file.mkdir()),
}


def test_a_file_that_cannot_be_used_is_named_in_the_log_alone(
    frontend: Frontend, upstream: ScriptedApi, caplog: pytest.LogCaptureFixture
) -> None:
    for name, damage in product(("frontend.json", "read.json"), DAMAGES):
        file = frontend.secrets / name
        kept = file.read_text()
        caplog.clear()
        DAMAGES[damage](file)
        found = [frontend.get(path, Accept=accept) for path in ADDRESSES for accept in (BROWSER, "application/json")]
        code = "login_unavailable" if name == "frontend.json" else "data_unavailable"
        assert (found[-1].status, found[-1].json["code"], found[-1].headers["Retry-After"]) == (503, code, "5"), damage
        assert not [answer.body for answer in found if str(frontend.secrets).encode() in answer.body]
        assert str(file) in caplog.text, (name, damage)
        if file.is_dir():
            file.rmdir()
        file.write_text(kept)
        file.chmod(0o600)


def test_a_fault_without_an_error_of_its_own_shows_no_path(
    frontend: Frontend, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    faults = (StateError(f"{frontend.secrets} is broken"), PermissionError(13, "denied", str(frontend.secrets)))
    for fault, accept in product(faults, (BROWSER, "application/json")):

        def broken(*_: object, fault: Exception = fault) -> None:
            raise fault

        monkeypatch.setattr(Pages, "reply", broken)
        answer = frontend.get("/", Accept=accept)
        assert (answer.status, str(frontend.secrets).encode() in answer.body) == (500, False)
        assert b"nternal error: the log of the frontend has the details" in answer.body
        assert str(frontend.secrets) in caplog.text
        caplog.clear()
