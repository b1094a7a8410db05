"""A client of Hasura's metadata API, and the file with its credential.

``graphql-admin.json`` is ``{"url": "http://…", "admin_secret": "…"}``. Optional are ``source``, Hasura's name of
the database, and ``role``, the role that may read. No message contains the secret.
https://hasura.io/docs/2.0/api-reference/metadata-api/index/
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from marketdata import secretfile
from marketdata.errors import MarketError, MissingRequirement, StateError, UsageError
from marketdata.settings import Warn

READER = "marketdata_reader"
"""The role with which a GraphQL engine reads. It may read the data of every version, but no tokens."""
TIMEOUT = 30.0
"""Seconds in which a response must be complete."""
ENDPOINT = "/v1/metadata"

_OPTIONAL = {"source": "default", "role": READER}
_REQUIRED = ("url", "admin_secret")
_FORM = '{"url": "http://127.0.0.1:8080", "admin_secret": "…"}, optionally with "source" and "role"'
_SECRET = re.compile(r"[!-~]([ -~]*[!-~])?")
"""The texts that a header can carry unchanged."""
_URL = re.compile(r"[!-~]+")
_STEP = re.compile(r"\$\.args\[([0-9]+)\]")
"""The path of an error in a bulk begins with the index of the call that failed."""
_MAX_ANSWER = 16 << 20
_MAX_REASON = 300


class Refused(MarketError):
    """Hasura refused a call. ``index`` is the call's place in the bulk, or None if the response does not contain it."""

    def __init__(self, detail: str, code: str, index: int | None) -> None:
        super().__init__(detail, code=code)
        self.index = index


@dataclass(frozen=True)
class Credential:
    """The content of ``graphql-admin.json``."""

    path: Path
    url: str
    admin_secret: str = field(repr=False)
    source: str
    role: str


def load(folder: Path, *, warn: Warn) -> Credential:
    """Read the credential. Raises MissingRequirement when the file does not exist, StateError when it cannot be
    trusted. Raises UsageError when a member is wrong."""
    path = folder / secretfile.GRAPHQL_ADMIN
    try:
        found = secretfile.read(path, warn=warn)
    except MissingRequirement as error:
        raise MissingRequirement(f"{error.detail}: create it (0600) as {_FORM}") from error
    unknown = sorted(found.keys() - {*_REQUIRED, *_OPTIONAL})
    if unknown:
        raise UsageError(f"{path}: unknown member {unknown[0]!r}; it must be {_FORM}")
    values: dict[str, str] = {}
    for name in (*_REQUIRED, *_OPTIONAL):
        value = found.get(name, _OPTIONAL.get(name))
        if not isinstance(value, str) or not value:
            raise UsageError(f"{path}: {name} must be a text that is not empty; the file must be {_FORM}")
        values[name] = value
    if not _SECRET.fullmatch(values["admin_secret"]):
        raise UsageError(f"{path}: admin_secret has characters that cannot be sent in an HTTP header")
    return Credential(path, **(values | {"url": _checked_url(path, values["url"])}))


def _checked_url(path: Path, url: str) -> str:
    fault = UsageError(
        f"{path}: url must be the address of Hasura, like http://127.0.0.1:8080, without user, query and {ENDPOINT}"
    )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise fault from None
    has_more = parts.query or parts.fragment or parts.username is not None or parts.path.rstrip("/").endswith(ENDPOINT)
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or has_more or not _URL.fullmatch(url):
        raise fault
    return url.rstrip("/")


class Name(NamedTuple):
    """The name of a table or a function."""

    schema: str
    name: str


@dataclass(frozen=True)
class Tracked:
    """The tables and functions that Hasura tracks in the source of the credential."""

    tables: frozenset[Name]
    functions: frozenset[Name]


class Engine:
    """Calls Hasura's metadata API at the address of a credential.

    Calls raise StateError when there is no usable response within ``seconds``. One thread calls at a time. Any thread
    may ``interrupt`` the call, which then raises StateError.
    """

    def __init__(self, credential: Credential, seconds: float = TIMEOUT) -> None:
        self._credential = credential
        self._seconds = seconds
        self._socket: socket.socket | None = None

    def bulk(self, calls: Sequence[Mapping[str, Any]]) -> None:
        """Run the calls in their order, all or none. Raises Refused with the index of the first call that failed."""
        status, answer = self._post({"type": "bulk", "args": list(calls)})
        if status != http.client.OK or not isinstance(answer, list) or len(answer) != len(calls):
            raise self._not_hasura(status, answer)

    def tracked(self) -> Tracked:
        """The tables and functions that Hasura tracks. Raises StateError also when Hasura has no such source."""
        try:
            status, answer = self._post({"type": "export_metadata", "version": 2, "args": {}})
        except Refused as error:
            raise StateError(
                f"{self._credential.url} does not export its metadata: {error.code}: {error.detail}"
            ) from error
        try:
            sources = {each["name"]: each for each in answer["metadata"]["sources"]}
            source = sources.get(self._credential.source)
            if source is not None:
                return Tracked(_names(source, "table"), _names(source, "function"))
        except (AttributeError, KeyError, TypeError):
            raise self._not_hasura(status, answer) from None
        raise StateError(
            f"{self._credential.url} has no source {self._credential.source!r}: correct source in "
            f"{self._credential.path} to the name that Hasura has for this database"
        )

    def interrupt(self) -> None:
        """End the call of another thread."""
        if (used := self._socket) is not None:
            with suppress(OSError):  # the socket was closed meanwhile
                # SSLSocket.shutdown would discard the TLS state that the other thread still uses.
                socket.socket.shutdown(used, socket.SHUT_RDWR)

    def _post(self, body: Mapping[str, Any]) -> tuple[int, Any]:
        """Returns the status and the decoded body. The body is None when it is not JSON. Raises Refused when Hasura
        refuses the call."""
        status, content = self._exchange(json.dumps(body))
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError):
            return status, None
        code = answer.get("code") if isinstance(answer, dict) else None
        if status in (http.client.UNAUTHORIZED, http.client.FORBIDDEN) or code == "access-denied":
            raise StateError(
                f"{self._credential.url} refuses the admin secret: {_reason(answer)}; correct admin_secret in "
                f"{self._credential.path}"
            )
        if status == http.client.BAD_REQUEST and isinstance(code, str):
            place = _STEP.match(str(answer.get("path")))
            raise Refused(_reason(answer), code, int(place[1]) if place else None)
        return status, answer

    def _exchange(self, body: str) -> tuple[int, bytes]:
        parts = urlsplit(self._credential.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self._seconds)
        headers = {"Content-Type": "application/json", "X-Hasura-Admin-Secret": self._credential.admin_secret}
        # A socket's timeout applies to each operation, so a response could continue forever, byte by byte.
        deadline = threading.Timer(self._seconds, self.interrupt)
        deadline.name = "graphql-deadline"
        began = monotonic()
        deadline.start()
        try:
            connection.connect()
            self._socket = connection.sock
            connection.request("POST", parts.path + ENDPOINT, body, headers)
            response = connection.getresponse()
            content = response.read(_MAX_ANSWER)
            if response.length:  # the number of missing bytes: read(size) does not fail if the connection ends early
                raise http.client.IncompleteRead(content, response.length)
            return response.status, content
        except (OSError, http.client.HTTPException) as error:
            is_late = monotonic() - began >= self._seconds
            reason = f"no answer within {self._seconds:g} s" if is_late else str(error) or type(error).__name__
            raise StateError(
                f"{self._credential.url} does not answer: {reason}; start Hasura, or correct url in "
                f"{self._credential.path}"
            ) from error
        finally:
            self._socket = None
            deadline.cancel()
            deadline.join()
            connection.close()

    def _not_hasura(self, status: int, answer: Any) -> StateError:
        return StateError(
            f"{self._credential.url}{ENDPOINT} answers with HTTP status {status} and not as Hasura does "
            f"({_reason(answer)}): correct url in {self._credential.path}, and see that Hasura's metadata API is "
            "enabled"
        )


def _names(source: Mapping[str, Any], kind: str) -> frozenset[Name]:
    """The names of the tables or functions of a source. A plain text is a name in the schema ``public``. The list of a
    kind may be missing if it is empty."""
    given = [each[kind] for each in source.get(f"{kind}s") or ()]
    return frozenset(
        Name("public", each) if isinstance(each, str) else Name(each.get("schema", "public"), each["name"])
        for each in given
    )


def _reason(answer: Any) -> str:
    reason = answer.get("error") if isinstance(answer, dict) else None
    return " ".join(str(reason).split())[:_MAX_REASON] if reason else "no reason given"
