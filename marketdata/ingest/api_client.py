"""Sends requests to the data API over one kept-alive connection, and asks which table of ticks the API writes to."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from contextlib import suppress
from math import inf
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from marketdata.errors import MarketError, UsageError
from marketdata.settings import Settings

TIMEOUT = 15.0
_MIN_PAUSE, _MAX_PAUSE = 0.25, 5.0
JSON, NDJSON = "application/json", "application/x-ndjson"


class ApiUnavailable(MarketError):
    """The API did not respond, or its response does not settle the request. ``retry_after`` is in seconds."""

    code = "api_unavailable"

    def __init__(self, detail: str, retry_after: float = 0.0) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class Response(NamedTuple):
    """A response of the API. ``body`` is decoded JSON, or None when the body is not JSON. ``retry_after`` is in
    seconds."""

    status: int
    body: Any
    retry_after: float

    @property
    def detail(self) -> str:
        """One line for messages about a refusal."""
        detail = self.body.get("detail") if isinstance(self.body, dict) else None
        return f"HTTP status {self.status}: {detail or 'no reason given'}"


class ApiClient:
    """A client of the API, used by one thread. ``token`` is called for each request, so a rotated token is used at
    once."""

    def __init__(self, url: str, token: Callable[[], str], timeout: float = TIMEOUT) -> None:
        self._given = url
        parts = urlsplit(url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname or "", parts.port, timeout=timeout)
        self._base = parts.path.rstrip("/")
        self._token = token
        self._timeout = timeout
        self.deadline = inf
        """The time (``monotonic``) at which every request ends, even without a response."""
        self.url = f"{parts.scheme}://{parts.hostname}:{self._connection.port}{self._base}"

    def request(self, method: str, path: str, body: bytes | None = None, kind: str = JSON) -> Response:
        """Send a request and return the response, whatever its status. Raises ApiUnavailable if there is no
        response."""
        headers = {"Authorization": f"Bearer {self._token()}", "Content-Type": kind}
        left = min(self._timeout, self.deadline - monotonic())
        if left <= 0:
            raise ApiUnavailable(f"{self.url} does not answer in time")
        self._connection.timeout = left
        try:
            if self._connection.sock is not None:
                self._connection.sock.settimeout(left)
            self._connection.request(method, quote(self._base + path, safe="/?&="), body, headers)
            response = self._connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise ApiUnavailable(f"{self.url} does not answer: {str(error) or type(error).__name__}") from error
        decoded = None
        with suppress(ValueError):
            decoded = json.loads(content)
        after = response.headers.get("Retry-After", "")
        return Response(response.status, decoded, float(after) if after.isdecimal() else 0.0)

    def beside(self) -> ApiClient:
        """Another client of the same API, for another thread."""
        return ApiClient(self._given, self._token, self._timeout)

    def close(self) -> None:
        self._connection.close()


# -- the table of ticks -----------------------------------------------------------------------------------------------

Wait = Callable[[ApiUnavailable, float], None]
"""Callback before the next try, with the reason and the seconds to wait. It raises an error to give up."""


class AnotherTable(UsageError):
    """The API does not write to the expected table."""


def served_table(api: ApiClient, expected: str | None = None) -> str:
    """The table that the API writes to. It belongs to the current version, which a cutover may change.

    Raises AnotherTable if the table is not ``expected``. Raises ApiUnavailable if the API does not respond or is not
    ready.
    """
    response = api.request("GET", "/ready")
    table = response.body.get("ticks_table") if isinstance(response.body, dict) else None
    if response.status != 200 or not isinstance(table, str):
        raise ApiUnavailable(f"{api.url} is not ready: {response.detail}")
    if expected not in (None, table):
        raise AnotherTable(
            f"TICKS_TABLE is {expected}, but the API at {api.url} writes to {table}: "
            "set API_UPSTREAM to the API of that version"
        )
    return table


def find_table(settings: Settings, api: ApiClient, wait: Wait) -> str:
    """The table that the settings name. If they name none, ask the API for its table, and wait until it responds."""
    pause = _MIN_PAUSE
    while settings.ticks_table is None:
        try:
            return served_table(api)
        except ApiUnavailable as error:
            wait(error, pause)
            pause = min(_MAX_PAUSE, pause * 2)
    return settings.ticks_table
