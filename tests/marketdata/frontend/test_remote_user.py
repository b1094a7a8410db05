"""X-Remote-User and X-Forwarded-For are accepted from trusted peers only."""

from __future__ import annotations

import ipaddress

from marketdata.frontend.request_origin import client_address, remote_user

TRUSTED = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8"))


def test_only_a_trusted_peer_names_the_user() -> None:
    for peer in ("127.0.0.1", "127.9.9.9", "::1", "10.1.2.3", "::ffff:10.1.2.3", "fd00::1"):
        assert remote_user({"HTTP_X_REMOTE_USER": "bob", "REMOTE_ADDR": peer}, TRUSTED) == "bob", peer
    for peer in ("11.0.0.1", "192.168.0.1", "::ffff:11.0.0.1", "fe80::1", "", "localhost"):
        assert remote_user({"HTTP_X_REMOTE_USER": "bob", "REMOTE_ADDR": peer}, TRUSTED) is None, peer


def test_the_client_is_the_last_untrusted_address() -> None:
    for peer, forwarded, address in (
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
    ):
        found = client_address({"HTTP_X_FORWARDED_FOR": forwarded, "REMOTE_ADDR": peer}, TRUSTED)
        assert found == address, (peer, forwarded)
        assert client_address({"REMOTE_ADDR": peer}, TRUSTED) == peer.removeprefix("::ffff:")


def test_the_address_that_a_proxy_names_may_have_a_port() -> None:
    for forwarded, address in (
        ("203.0.113.9:51234", "203.0.113.9"),
        ("[2001:db8::7]:443", "2001:db8::7"),
        ("[2001:db8::7]", "2001:db8::7"),
        ("2001:db8::7", "2001:db8::7"),
        ("[::ffff:203.0.113.9]:80", "203.0.113.9"),
        ("198.51.100.1, 203.0.113.9:1, 10.0.0.2:8080", "203.0.113.9"),
        ("203.0.113.9:port", "127.0.0.1"),
        ("203.0.113.9:", "127.0.0.1"),
        ("[203.0.113.9]:80", "127.0.0.1"),
        ("[2001:db8::7", "127.0.0.1"),
        ("[2001:db8::7]443", "127.0.0.1"),
    ):
        head = {"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": forwarded}
        assert client_address(head, TRUSTED) == address, forwarded


def test_an_ipv4_client_of_a_socket_for_both_families_has_its_ipv4_address() -> None:
    """Otherwise all IPv4 clients would be one IPv6 network, and would share one token bucket."""
    assert client_address({"REMOTE_ADDR": "::ffff:203.0.113.9"}, TRUSTED) == "203.0.113.9"
