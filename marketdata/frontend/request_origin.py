"""Checks where a request comes from: the Origin and the Host, the client's address, and the user behind a proxy; pure.

A browser sends the credentials of this frontend also with requests from pages of other sites. So such a page may not
change anything. It may not open a WebSocket either, because it could read the messages. Without a login, the Host is
checked too, because after DNS rebinding a browser sends the attacker's host name.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Mapping
from typing import Any

from marketdata.frontend.problems import ForeignOrigin, WrongHost
from marketdata.settings import Network

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_OWN_SITES = frozenset({"same-origin", "none"})
_WITH_PORT = re.compile(r"\[([^\]]*:[^\]]*)\](?::[0-9]+)?|([^:\[\]]+):[0-9]+")
"""``[v6]``, ``[v6]:port`` or ``v4:port``. A proxy may append the port of its peer to the address."""


def check(head: Mapping[str, Any], origins: Collection[str], *, checks_host: bool) -> None:
    """Raise :class:`WrongHost` or :class:`ForeignOrigin` if the request is not allowed. ``origins`` are further
    addresses of the frontend. The host is checked only with ``checks_host``."""
    host = head.get("HTTP_HOST", "").lower()
    if checks_host and not (_is_loopback(host) or host in {origin.partition("://")[2] for origin in origins}):
        raise WrongHost("the frontend has no such host; MARKET_FRONTEND_ORIGINS lists its hosts besides loopback")
    upgrade = head.get("HTTP_UPGRADE", "")
    if upgrade or head["REQUEST_METHOD"] not in _SAFE:
        origin = head.get("HTTP_ORIGIN")
        if origin is None and "websocket" in upgrade.lower():
            raise ForeignOrigin("a WebSocket needs an Origin header")
        if origin is not None and origin.lower() not in {f"http://{host}", *origins}:
            raise ForeignOrigin("a page of another origin sent this request; MARKET_FRONTEND_ORIGINS can allow it")


def check_site(head: Mapping[str, Any]) -> None:
    """Raise :class:`ForeignOrigin` if the browser says that a page of another origin made the request. An address that
    a person typed passes (``none``), and so does a client that sends no such header."""
    if head.get("HTTP_SEC_FETCH_SITE", "none") not in _OWN_SITES:
        raise ForeignOrigin("a page of another origin sent this request: open the address of the frontend instead")


def _is_loopback(host: str) -> bool:
    name = host.partition("]")[0][1:] if host.startswith("[") else host.partition(":")[0]
    address = _parsed(name)
    return name == "localhost" or (address is not None and address.is_loopback)


def remote_user(head: Mapping[str, Any], trusted: Collection[Network]) -> str | None:
    """The user that a trusted proxy names in X-Remote-User; None without such a proxy or user."""
    name: str = head.get("HTTP_X_REMOTE_USER", "").strip()
    return name if name and _is_trusted(_parsed(head.get("REMOTE_ADDR", "")), trusted) else None


def client_address(head: Mapping[str, Any], trusted: Collection[Network]) -> str:
    """The client's address: the peer, or the address that a trusted proxy names in X-Forwarded-For.

    Each proxy appends the address of its peer. So the list is read from its end, and the first address that is not
    trusted is the client. The client may have invented the addresses before that one. An IPv4 address that a socket for
    both families reports as IPv6 is returned as IPv4.
    """
    peer: str = head["REMOTE_ADDR"]
    found = _parsed(peer)
    named = head.get("HTTP_X_FORWARDED_FOR", "").split(",")
    while named and _is_trusted(found, trusted):
        address = _parsed(_without_port(named.pop().strip()))
        if address is None:
            break
        found = address
    return peer if found is None else str(found)


def _without_port(text: str) -> str:
    found = _WITH_PORT.fullmatch(text)
    return text if found is None else found[1] or found[2]


def _parsed(text: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _is_trusted(peer: _Address | None, trusted: Collection[Network]) -> bool:
    return peer is not None and (peer.is_loopback or any(peer in network for network in trusted))
