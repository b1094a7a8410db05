"""When the frontend itself is at fault, people see no path of its files; its log names the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from marketdata.errors import StateError
from marketdata.frontend.pages import Pages
from tests.marketdata.frontend.conftest import Frontend

ADDRESSES = ("/", "/whoami", "/static/market.css", "/api/v1/chart")
BROWSER = "text/html,application/xhtml+xml"


def missing(file: Path) -> None:
    file.unlink()


def malformed(file: Path) -> None:
    file.write_text("{")


def of_another_form(file: Path) -> None:
    file.write_text(json.dumps({"users": {"a b": "x"}, "token": "x y", "scope": "write", "name": "n"}))


def writable_by_others(file: Path) -> None:
    file.chmod(0o666)


def folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("name", ["frontend.json", "read.json"])
@pytest.mark.parametrize("damage", [missing, malformed, of_another_form, writable_by_others, folder])
def test_a_file_that_cannot_be_used_is_named_in_the_log_alone(
    frontend_with: Callable[..., Frontend],
    caplog: pytest.LogCaptureFixture,
    name: str,
    damage: Callable[[Path], None],
) -> None:
    frontend = frontend_with()
    damage(frontend.secrets / name)
    found = [frontend.get(path, Accept=accept) for path in ADDRESSES for accept in (BROWSER, "application/json")]
    assert 503 in {answer.status for answer in found}
    assert not [
        answer.body for answer in found if b"/tmp" in answer.body or str(frontend.secrets).encode() in answer.body
    ]
    assert str(frontend.secrets / name) in caplog.text


@pytest.mark.parametrize("accept", [BROWSER, "application/json"])
def test_a_fault_without_an_error_of_its_own_shows_no_path(
    frontend_with: Callable[..., Frontend],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    accept: str,
) -> None:
    frontend = frontend_with()
    for fault in (StateError(f"{frontend.secrets} is broken"), PermissionError(13, "denied", str(frontend.secrets))):

        def broken(*_: object, fault: Exception = fault) -> None:
            raise fault

        monkeypatch.setattr(Pages, "reply", broken)
        answer = frontend.get("/", Accept=accept)
        assert (answer.status, str(frontend.secrets).encode() in answer.body) == (500, False)
        assert b"nternal error: the log of the frontend has the details" in answer.body
        assert str(frontend.secrets) in caplog.text
        caplog.clear()
