"""Whose X-Remote-User is believed."""

from __future__ import annotations

import ipaddress

import pytest

from marketdata.frontend.gate import remote_user

TRUSTED = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8"))


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.9.9.9", "::1", "10.1.2.3", "::ffff:10.1.2.3", "fd00::1"])
def test_a_trusted_peer(peer: str) -> None:
    assert remote_user({"HTTP_X_REMOTE_USER": "bob", "REMOTE_ADDR": peer}, TRUSTED) == "bob"


@pytest.mark.parametrize("peer", ["11.0.0.1", "192.168.0.1", "::ffff:11.0.0.1", "fe80::1", "", "localhost"])
def test_another_peer(peer: str) -> None:
    assert remote_user({"HTTP_X_REMOTE_USER": "bob", "REMOTE_ADDR": peer}, TRUSTED) is None
