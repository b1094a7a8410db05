"""Stores ticks, coverage and finality through the API, and repeats a request until the API acknowledges it, or until
nothing has succeeded for too long."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import NamedTuple, TypeVar

from marketdata.errors import MarketError, ProviderError, Pruned, Stopped
from marketdata.ingest.api_client import ApiClient, ApiUnavailable, served_table
from marketdata.ingest.delivery import MAX_BATCH_ITEMS, send
from marketdata.ingest.outbox import after_restore, encoded, finality
from marketdata.limits import MAX_ITEMS
from marketdata.source.evm import Header

_MIN_PAUSE, _MAX_PAUSE = 0.25, 8.0

_T = TypeVar("_T")


class RetryLimit:
    """Limits how long all threads together may retry without progress. Setting ``stopping`` ends every wait with
    Stopped."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._progress_at = monotonic()
        self.stopping = threading.Event()

    def progress(self) -> None:
        self._progress_at = monotonic()

    def wait(self, error: MarketError, seconds: float = _MIN_PAUSE) -> None:
        """Wait before the next try. Raises the error when nothing succeeded for too long, or when a retry is
        useless."""
        is_permanent = not isinstance(error, ProviderError | ApiUnavailable)
        if is_permanent or monotonic() + seconds > self._progress_at + self._seconds:
            raise error
        if self.stopping.wait(seconds):
            raise Stopped("the process ends")

    def retry(self, call: Callable[[], _T]) -> _T:
        """The result of ``call``. If the provider or the API fails, ``call`` is repeated after growing pauses."""
        pause = _MIN_PAUSE
        while True:
            try:
                return call()
            except (ProviderError, ApiUnavailable) as error:
                self.wait(error, max(pause, getattr(error, "retry_after", 0.0)))
                pause = min(_MAX_PAUSE, pause * 2)


class Refusal(NamedTuple):
    """A tick, as JSON, that the API refused to store."""

    body: str
    code: str
    detail: str


class Stored(NamedTuple):
    """The API's response to ticks: the number of new ticks, the number of known ticks, the refused ticks, and the
    number of ticks that were refused because those of their time are pruned. The latter are not among the refused."""

    new: int
    known: int
    refusals: list[Refusal]
    pruned: int = 0


class ApiWriter:
    """Stores ticks, coverage and finality through the API. Used by one thread; the caller closes ``api``."""

    def __init__(self, api: ApiClient, limit: RetryLimit) -> None:
        self._api = api
        self._limit = limit

    def require_table(self, expected: str) -> None:
        """Raise AnotherTable if the API writes to another table than ``expected``."""
        self._limit.retry(lambda: served_table(self._api, expected))

    def ticks(self, items: Sequence[str]) -> Stored:
        """Store ticks, which are JSON."""
        new, known, refused, pruned = self._send(items)
        # The API refuses a tick as retracted if the ingestor once retracted its block. Now the block is final, so the
        # block is restored and the tick is sent again.
        again = [body for body, code, _ in refused if code == "retracted"]
        left = [each for each in refused if each.code != "retracted"]
        if again:
            left += self._send([line for body in again for line in after_restore(body)]).refusals
        return Stored(new, known, left, pruned)

    def cover(self, symbols: Sequence[str], start: int, end: int, state: str = "indexed") -> None:
        """Report the times [start, end), in seconds since 1970, as indexed or failed. On some chains several blocks
        have the same time, so the range may be empty. An empty range is not reported."""
        if start == end:
            return
        for at in range(0, len(symbols), MAX_ITEMS):
            part = symbols[at : at + MAX_ITEMS]
            body = {"symbols": part, "from": start * 1000, "to": end * 1000, "state": state}
            self._limit.retry(lambda body=body: self._cover(json.dumps(body).encode()))  # type: ignore[misc]

    def finalize(self, blocks: Mapping[str, Header]) -> None:
        """Report each symbol as final up to its block. The API ignores a block below the final block that it knows."""
        self._send([encoded(finality(symbol, block.number, block.time)) for symbol, block in blocks.items()])

    def _cover(self, body: bytes) -> None:
        response = self._api.request("PUT", "/v1/coverage", body)
        if response.status != 200:
            raise ApiUnavailable(f"{self._api.url} takes no coverage: {response.detail}", response.retry_after)

    def _send(self, items: Sequence[str]) -> Stored:
        new = known = pruned = 0
        refused: list[Refusal] = []
        for at in range(0, len(items), MAX_BATCH_ITEMS):
            part = items[at : at + MAX_BATCH_ITEMS]
            sent = self._limit.retry(lambda part=part: send(self._api, part))  # type: ignore[misc]
            new += sent.accepted
            known += sent.duplicates
            rejected = [Refusal(part[index], code, detail) for index, code, detail in sent.rejected]
            left = [each for each in rejected if each.code != Pruned.code]
            pruned += len(rejected) - len(left)
            refused += left
        return Stored(new, known, refused, pruned)
