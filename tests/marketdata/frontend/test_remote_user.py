"""X-Remote-User and X-Forwarded-For are accepted from trusted peers only."""

from __future__ import annotations

import ipaddress

import pytest

from marketdata.frontend.request_origin import client_address, remote_user

TRUSTED = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8"))


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.9.9.9", "::1", "10.1.2.3", "::ffff:10.1.2.3", "fd00::1"])
def test_a_trusted_peer_names_the_user(peer: str) -> None:
    assert remote_user({"HTTP_X_REMOTE_USER": "bob", "REMOTE_ADDR": peer}, TRUSTED) == "bob"


@pytest.mark.parametrize("peer", ["11.0.0.1", "192.168.0.1", "::ffff:11.0.0.1", "fe80::1", "", "localhost"])
def test_another_peer_names_no_user(peer: str) -> None:
    assert remote_user({"HTTP_X_REMOTE_USER": "bob", "REMOTE_ADDR": peer}, TRUSTED) is None


@pytest.mark.parametrize(("peer", "forwarded", "address"), [
    ("127.0.0.1", "203.0.113.9", "203.0.113.9"),
    ("10.1.2.3", "203.0.113.9", "203.0.113.9"),
    ("::ffff:10.1.2.3", "2001:db8::1", "2001:db8::1"),
    ("127.0.0.1", "198.51.100.1, 203.0.113.9", "203.0.113.9"),
    ("127.0.0.1", "198.51.100.1,203.0.113.9 , 10.9.9.9", "203.0.113.9"),
    ("127.0.0.1", "10.9.9.9", "10.9.9.9"),
    ("127.0.0.1", "198.51.100.1, unknown", "127.0.0.1"),
    ("127.0.0.1", "198.51.100.1,", "127.0.0.1"),
    ("127.0.0.1", "", "127.0.0.1"),
    ("11.0.0.1", "203.0.113.9", "11.0.0.1"),
    ("192.168.0.1", "127.0.0.1", "192.168.0.1"),
    ("", "203.0.113.9", ""),
])  # fmt: skip
def test_the_client_is_the_last_untrusted_address(peer: str, forwarded: str, address: str) -> None:
    assert client_address({"HTTP_X_FORWARDED_FOR": forwarded, "REMOTE_ADDR": peer}, TRUSTED) == address
    assert client_address({"REMOTE_ADDR": peer}, TRUSTED) == peer.removeprefix("::ffff:")


def test_an_ipv4_client_of_a_socket_for_both_families_has_its_ipv4_address() -> None:
    """Otherwise all IPv4 clients would be one IPv6 network, and would share one token bucket."""
    assert client_address({"REMOTE_ADDR": "::ffff:203.0.113.9"}, TRUSTED) == "203.0.113.9"
