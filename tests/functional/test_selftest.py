"""The security self-test passes on the real service, and fails on a service that lacks the gate."""

from __future__ import annotations

import os

import pytest

from cardapp.serve import Service
from cardapp.web import gate, selftest
from cardapp.web.peer import OwnerOnly
from tests.functional.other_accounts import needs_root

pytestmark = pytest.mark.functional


NOT_REFUSED = {
    "another Host", "no Host", "a rebound name with our port", "our Host without its port",
    "another host in the request line", "a foreign Origin", "Origin null", "https instead of http in Origin",
    "Sec-Fetch-Site same-site", "an upgrade with a foreign Origin", "an upgrade without Origin",
    "keys for the editor from a foreign page", "JSON sent as text/plain",
    "JSON sent as text/plain over the Unix socket", "JSON sent without a type", "a body over every limit",
    "events recorded by all these requests",
}  # fmt: skip
"""What a service without the gate does not refuse, among others."""


def test_the_real_service_passes() -> None:
    lines: list[str] = []
    assert selftest.run(Service, lines.append)
    assert lines[0].split() == ["attack", "expected", "got", "verdict"]
    missing = sum(line.endswith("  not tried") for line in lines)
    assert lines[-1] == f"all {len(lines) - 2 - missing} checks held" + ("; 1 not tried" if missing else "")
    assert missing == (os.geteuid() != 0), "only root can become another account"
    assert len(lines) > 50


def test_a_service_without_the_gate_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate.Gate, "refusal", lambda *_: None)
    lines: list[str] = []
    # Without the gate the service waits for the rest of some requests.
    assert not selftest.run(Service, lines.append, timeout=1.0)
    assert {line.split("  ")[0] for line in lines if line.endswith("FAILED")} >= NOT_REFUSED
    assert "of them failed" in lines[-1]


@needs_root
def test_a_service_that_admits_every_account_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OwnerOnly, "refusal", lambda *_: None)
    failed = {finding.attack for finding in selftest.findings_of(Service) if finding.verdict == "FAILED"}
    assert failed == {"a request of another account of this machine"}
