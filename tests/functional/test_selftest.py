"""The security self-test passes on the real service, and fails on every service that lacks a part of the gate."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from waitress.receiver import ChunkedReceiver

from cardapp.serve import Service
from cardapp.settings import Settings
from cardapp.web import gate, selftest, waitress_adapter
from cardapp.web.peer import OwnerOnly
from cardapp.web.waitress_adapter import Parser

pytestmark = pytest.mark.functional


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shorter timeout, because a server that lacks a rule may wait for the rest of a request."""
    monkeypatch.setattr(selftest, "_TIMEOUT", 1.0)


def failed(build: Callable[[Settings], Any]) -> set[str]:
    return {finding.attack for finding in selftest.findings_of(build) if finding.verdict == "FAILED"}


def test_the_real_service_passes() -> None:
    lines: list[str] = []
    assert selftest.run(Service, lines.append)
    assert lines[0].split() == ["attack", "expected", "got", "verdict"]
    missing = sum(line.endswith("  not tried") for line in lines)
    assert lines[-1] == f"all {len(lines) - 2 - missing} checks held" + ("; 1 not tried" if missing else "")
    assert missing == (os.geteuid() != 0), "only root can become another account"
    assert len(lines) > 50


@pytest.mark.full
@pytest.mark.usefixtures("impatient")
def test_a_service_without_the_gate_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate.Gate, "refusal", lambda *_: None)
    lines: list[str] = []
    assert not selftest.run(Service, lines.append)
    broken = {line.split("  ")[0] for line in lines if line.endswith("FAILED")}
    assert {
        "another Host",
        "a foreign Origin",
        "JSON sent as text/plain",
        "events recorded by all these requests",
    } <= broken
    assert "of them failed" in lines[-1]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("check", "attack"),
    [
        ("_check_host", "a rebound name with our port"),
        ("_check_origin", "Origin null"),
        ("_check_body", "JSON sent as text/plain over the Unix socket"),
    ],
)
def test_a_gate_without_one_of_its_checks_fails(monkeypatch: pytest.MonkeyPatch, check: str, attack: str) -> None:
    monkeypatch.setattr(gate, check, lambda *_: None)
    broken = failed(Service)
    assert attack in broken
    assert "events recorded by all these requests" in broken or check == "_check_host"


@pytest.mark.full
@pytest.mark.usefixtures("impatient")
def test_a_parser_that_accepts_two_framings_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Parser, "parse_header")
    assert "Content-Length and chunks, and a hidden request" in failed(Service)


@pytest.mark.usefixtures("impatient")
@pytest.mark.full
def test_a_lenient_chunk_decoder_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waitress_adapter, "_StrictChunks", ChunkedReceiver)
    assert {"a bare line feed after a chunk's size", "an empty line before a chunk"} <= failed(Service)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")
def test_a_service_that_admits_every_account_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OwnerOnly, "refusal", lambda *_: None)
    assert failed(Service) == {"a request of another account of this machine"}


def test_without_root_another_account_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest.os, "geteuid", lambda: 1000)
    finding = selftest._of_another_account(1)
    assert (finding.verdict, "root" in finding.got) == ("not tried", True)


def test_a_service_without_a_security_header_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "SECURITY_HEADERS", gate.SECURITY_HEADERS[1:])
    assert "(a valid request)" in failed(Service)


def test_a_service_that_refuses_everything_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate.Tcp, "names", frozenset())
    assert "(a valid request)" in failed(Service)
