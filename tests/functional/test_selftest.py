"""The security self-test holds on the real service, and fails on every service that lacks a part of the gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from cardapp.serve import Service
from cardapp.settings import Settings
from cardapp.web import gate, selftest
from cardapp.web.app import make_app
from cardapp.web.connections import Parser
from cardapp.web.failures import WsgiApp
from cardapp.web.gate import Intake, Transport
from cardapp.web.listener import Listener

pytestmark = pytest.mark.functional


def failed(build: Callable[[Settings], Any]) -> set[str]:
    return {finding.attack for finding in selftest.findings_of(build) if not finding.held}


def test_the_real_service_holds() -> None:
    lines: list[str] = []
    assert selftest.run(Service, lines.append)
    assert lines[0].split() == ["attack", "expected", "got", "verdict"]
    assert lines[-1] == f"all {len(lines) - 2} checks held"
    assert len(lines) > 50


class Ungated(Service):
    """The service as it would be if somebody forgot the gate."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.listener = Listener(settings, make_app(self.services), guard=open_door)


def open_door(app: WsgiApp, _transport: Transport, _intakes: Mapping[str, Intake]) -> WsgiApp:
    return app


def test_a_service_without_the_gate_fails() -> None:
    lines: list[str] = []
    assert not selftest.run(Ungated, lines.append)
    broken = {line.split("  ")[0] for line in lines if line.endswith("FAILED")}
    assert {"another Host", "a foreign Origin", "JSON sent as text/plain", "what all of it changed"} <= broken
    assert "of them failed" in lines[-1]


@pytest.mark.parametrize(
    ("check", "attack"),
    [
        ("_check_host", "a rebound name with our port"),
        ("_check_origin", "Origin null"),
        ("_check_body", "JSON sent as text/plain over the Unix socket"),
    ],
)
def test_each_part_of_the_gate_is_missed(monkeypatch: pytest.MonkeyPatch, check: str, attack: str) -> None:
    monkeypatch.setattr(gate, check, lambda *_: None)
    broken = failed(Service)
    assert attack in broken
    assert "what all of it changed" in broken or check == "_check_host"


def test_a_parser_that_takes_two_framings_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Parser, "parse_header")
    assert "two framings with a request hidden behind" in failed(Service)


def test_a_header_that_is_missing_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "SECURITY_HEADERS", gate.SECURITY_HEADERS[1:])
    assert "(an honest request)" in failed(Service)


def test_a_service_that_refuses_everything_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate.Tcp, "names", frozenset())
    assert "(an honest request)" in failed(Service)
