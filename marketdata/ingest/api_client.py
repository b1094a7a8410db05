"""Requests to the data API over one kept-alive connection."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from contextlib import suppress
from math import inf
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from marketdata.errors import MarketError

TIMEOUT = 15.0
JSON, NDJSON = "application/json", "application/x-ndjson"


class ApiUnavailable(MarketError):
    """The API gave no answer, or none that settles the request; ``retry_after`` is in seconds."""

    code = "api_unavailable"

    def __init__(self, detail: str, retry_after: float = 0.0) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class Answer(NamedTuple):
    """``body`` is decoded JSON, or None when the answer is something else."""

    status: int
    body: Any
    retry_after: float

    @property
    def detail(self) -> str:
        """One line about a refusal."""
        detail = self.body.get("detail") if isinstance(self.body, dict) else None
        return f"HTTP status {self.status}: {detail or 'no reason given'}"


class ApiClient:
    """One thread uses it. ``token`` is asked for each request, so that a rotated token is used at once."""

    def __init__(self, url: str, token: Callable[[], str], timeout: float = TIMEOUT) -> None:
        parts = urlsplit(url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname or "", parts.port, timeout=timeout)
        self._base = parts.path.rstrip("/")
        self._token = token
        self._timeout = timeout
        self.deadline = inf
        """The time (``monotonic``) at which every request ends, with or without an answer."""
        self.url = f"{parts.scheme}://{parts.hostname}:{self._connection.port}{self._base}"

    def request(self, method: str, path: str, body: bytes | None = None, kind: str = JSON) -> Answer:
        """The answer, whatever its status; ApiUnavailable without one."""
        headers = {"Authorization": f"Bearer {self._token()}", "Content-Type": kind}
        left = min(self._timeout, self.deadline - monotonic())
        if left <= 0:
            raise ApiUnavailable(f"{self.url} does not answer in time")
        self._connection.timeout = left
        try:
            if self._connection.sock is not None:
                self._connection.sock.settimeout(left)
            self._connection.request(method, quote(self._base + path), body, headers)
            response = self._connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise ApiUnavailable(f"{self.url} does not answer: {str(error) or type(error).__name__}") from error
        decoded = None
        with suppress(ValueError):
            decoded = json.loads(content)
        after = response.headers.get("Retry-After", "")
        return Answer(response.status, decoded, float(after) if after.isdecimal() else 0.0)

    def close(self) -> None:
        self._connection.close()
