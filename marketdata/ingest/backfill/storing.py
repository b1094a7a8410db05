"""The API as the backfill uses it: what is not acknowledged is sent again, until nothing succeeds for too long."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import NamedTuple, TypeVar

from marketdata.errors import MarketError, ProviderError, Stopped
from marketdata.ingest.api_client import ApiClient, ApiUnavailable
from marketdata.ingest.backfill.state import Refusal
from marketdata.ingest.delivery import BATCH, send
from marketdata.ingest.destination import served_table
from marketdata.ingest.outbox import after_restore, encoded, finality
from marketdata.source.evm import Header

_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 8.0

_T = TypeVar("_T")


class RetryLimit:
    """How long all threads together try again without any progress. ``stopping`` ends every wait with Stopped."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._progress_at = monotonic()
        self.stopping = threading.Event()

    def progress(self) -> None:
        self._progress_at = monotonic()

    def wait(self, error: MarketError, seconds: float = _FIRST_PAUSE) -> None:
        """Before the next try. Raises the error when there was no progress for too long, or when it will last."""
        lasting = not isinstance(error, ProviderError | ApiUnavailable)
        if lasting or monotonic() + seconds > self._progress_at + self._seconds:
            raise error
        if self.stopping.wait(seconds):
            raise Stopped("the process ends")

    def retry(self, call: Callable[[], _T]) -> _T:
        """What the call returns, which is tried again, more and more slowly, while the provider or the API fails."""
        pause = _FIRST_PAUSE
        while True:
            try:
                return call()
            except (ProviderError, ApiUnavailable) as error:
                self.wait(error, max(pause, getattr(error, "retry_after", 0.0)))
                pause = min(_LONGEST_PAUSE, pause * 2)


class Stored(NamedTuple):
    """What the API did with ticks."""

    new: int
    known: int
    refusals: list[Refusal]


class Storing:
    """Used by one thread; closing it is closing ``api``."""

    def __init__(self, api: ApiClient, limit: RetryLimit) -> None:
        self._api = api
        self._limit = limit

    def require_table(self, expected: str) -> None:
        """AnotherTable when the API writes to another table."""
        self._limit.retry(lambda: served_table(self._api, expected))

    def ticks(self, items: Sequence[str]) -> Stored:
        """Store ticks, which are JSON."""
        new, known, refused = self._send(items)
        # The ingestor retracted the block of such a tick, which is final and part of the chain.
        again = [body for body, code, _ in refused if code == "retracted"]
        left = [each for each in refused if each.code != "retracted"]
        if again:
            left += self._send([line for body in again for line in after_restore(body)]).refusals
        return Stored(new, known, left)

    def cover(self, symbol: str, start: int, end: int) -> None:
        """The times [start, end) are indexed, in seconds since 1970. On some chains blocks share a time: of those, the
        range may be empty."""
        if start < end:
            body = {"symbol": symbol, "from": start * 1000, "to": end * 1000, "state": "indexed"}
            self._limit.retry(lambda: self._cover(json.dumps(body).encode()))

    def finalize(self, blocks: Mapping[str, Header]) -> None:
        """Each symbol is final up to its block. The API ignores it where it knows of a later one."""
        self._send([encoded(finality(symbol, block.number, block.time)) for symbol, block in blocks.items()])

    def _cover(self, body: bytes) -> None:
        answer = self._api.request("PUT", "/v1/coverage", body)
        if answer.status != 200:
            raise ApiUnavailable(f"{self._api.url} takes no coverage: {answer.detail}", answer.retry_after)

    def _send(self, items: Sequence[str]) -> Stored:
        new = known = 0
        refused: list[Refusal] = []
        for at in range(0, len(items), BATCH):
            part = items[at : at + BATCH]
            sent = self._limit.retry(lambda part=part: send(self._api, part))  # type: ignore[misc]
            new += sent.accepted
            known += sent.duplicates
            refused += [Refusal(part[index], code, detail) for index, code, detail in sent.rejected]
        return Stored(new, known, refused)
