"""Delivers the outbox: items in order to ``POST /v1/ingest/tick``, then coverage to ``PUT /v1/coverage``.

An item leaves the outbox after the API has stored or refused it.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from time import monotonic
from typing import Any, NamedTuple

from marketdata.errors import Pruned, StateError
from marketdata.ingest.api_client import NDJSON, ApiClient, ApiUnavailable, Response
from marketdata.ingest.lease import Lease
from marketdata.ingest.outbox import Coverage, Outbox, OutboxItem, Rejection, chain_of
from marketdata.limits import MAX_BODY_BYTES, MAX_ITEMS

MAX_BATCH_ITEMS = MAX_ITEMS // 2
"""Maximum number of items of one request."""
_MAX_BATCH_BYTES = MAX_BODY_BYTES * 3 // 4
COVERAGE_S = 5.0
"""Seconds between two deliveries of coverage. Adjacent ranges of a symbol become one request."""
_MAX_COVERAGE = 10_000
_RETRIED_STATUSES = frozenset({401, 403, 404, 408, 429})
"""Statuses that concern the token, the address or the load, but not the items, so a later try may succeed. The same
holds for 500 and above."""

_log = logging.getLogger("marketdata.ingestor")


class Sent(NamedTuple):
    """The API's response to items. ``rejected`` contains the index, the code and the detail of each refused item."""

    accepted: int
    duplicates: int
    rejected: list[tuple[int, str, str]]


def send(api: ApiClient, items: Sequence[str]) -> Sent:
    """Send items, which are JSON. Raises ApiUnavailable if the API has not stored or refused all of them; send all of
    them again later."""
    response = api.request("POST", "/v1/ingest/tick", "\n".join(items).encode(), NDJSON)
    body = response.body if isinstance(response.body, dict) else {}
    if response.status == 200 and "rejected" in body:
        rejected = [(each["index"], each["code"], each["detail"]) for each in body["rejected"]]
        return Sent(body["accepted"], body["duplicates"], rejected)
    if response.status == 200 or _is_retried(response):
        raise ApiUnavailable(f"{api.url} did not store the batch: {response.detail}", response.retry_after)
    if len(items) == 1:
        return Sent(0, 0, [(0, str(body.get("code") or response.status), response.detail)])
    # The API refused the whole request because of some item. Sending halves finds the item.
    middle = len(items) // 2
    first, second = send(api, items[:middle]), send(api, items[middle:])
    later = [(middle + index, code, detail) for index, code, detail in second.rejected]
    return Sent(first.accepted + second.accepted, first.duplicates + second.duplicates, first.rejected + later)


class _SettledBatch(NamedTuple):
    """A batch whose items the API has stored or refused. ``items`` are the first and the last item, without bodies."""

    items: tuple[OutboxItem, OutboxItem]
    rejections: Sequence[Rejection]


class Delivery:
    """Delivers one outbox. Used by one thread."""

    def __init__(self, outbox: Outbox, api: ApiClient, lease: Lease, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._outbox = outbox
        self._api = api
        self._lease = lease
        self._cover_at = 0.0
        self._settled: list[_SettledBatch] = []
        """Settled batches that are still in the outbox."""
        self.delivered = 0
        self.pruned = 0
        """Items that the API refused, because ticks of their time are pruned."""

    def step(self) -> bool:
        """Deliver one batch, and also coverage if ``COVERAGE_S`` seconds have passed. Returns False if no item waited.
        Raises ApiUnavailable if the API has neither stored nor refused the items; try again later."""
        try:
            return self._step()
        except ApiUnavailable:
            self._lease.renew()
            raise

    def _step(self) -> bool:
        self._lease.keep()
        after = self._settled[-1].items[-1].id if self._settled else 0
        items = _within(self._outbox.first(MAX_BATCH_ITEMS, after), _MAX_BATCH_BYTES)
        if items:
            self._finish(items, send(self._api, [item.body for item in items]))
        try:
            self._remove_settled()
        except StateError:  # a full disk must not prevent delivery
            if not items:
                raise
        if self._clock() >= self._cover_at:
            self.cover()
        return bool(items)

    def cover(self) -> None:
        """Deliver the coverage whose ticks were all delivered."""
        self._cover_at = self._clock() + COVERAGE_S
        collected = self._outbox.coverage(_MAX_COVERAGE)
        for body in _requests(_merged(collected)):
            response = self._api.request("PUT", "/v1/coverage", json.dumps(body).encode())
            if response.status == 200:
                continue
            if _is_retried(response):
                raise ApiUnavailable(f"{self._api.url} recorded no coverage: {response.detail}", response.retry_after)
            _log.warning("coverage was refused: %s: %s", response.detail, json.dumps(body)[:300])
        if collected:
            self._outbox.recorded(collected)

    def _finish(self, items: Sequence[OutboxItem], sent: Sent) -> None:
        rejections = [Rejection(items[index], code, detail) for index, code, detail in sent.rejected]
        self._settled.append(_SettledBatch((items[0]._replace(body=""), items[-1]._replace(body="")), rejections))
        self.delivered += len(items)
        _log.info(
            "delivered %d items: %d new, %d known, %d refused; %s",
            len(items), sent.accepted, sent.duplicates, len(rejections), _lag(items),
        )  # fmt: skip

    def _remove_settled(self) -> None:
        while self._settled:
            items, rejections = self._settled[0]
            dead, again = self._outbox.acknowledged(items, rejections)
            del self._settled[0]
            pruned = sum(rejection.code == Pruned.code for rejection in rejections)
            self.pruned += pruned
            if dead or again or pruned:
                counts = (dead, again, pruned)
                _log.info("refused items: %d became dead letters, %d are sent again, %d were pruned", *counts)
            shown = [rejection for rejection in rejections if rejection.code != Pruned.code]
            for rejection in shown[:3] if dead else ():
                _log.warning("refused: %s (%s): %s", rejection.detail, rejection.code, rejection.item.body[:300])


def _is_retried(response: Response) -> bool:
    return response.status in _RETRIED_STATUSES or response.status >= 500


def _merged(coverage: Sequence[Coverage]) -> list[Coverage]:
    """Merges adjacent ranges of a symbol that have the same state. The order of ranges of a symbol stays, because a
    later range replaces the earlier ones."""
    found: list[Coverage] = []
    newest: dict[str, int] = {}
    for each in coverage:
        at = newest.get(each.symbol)
        if at is not None and found[at].state == each.state and found[at].until == each.since:
            found[at] = found[at]._replace(until=each.until)
        else:
            newest[each.symbol] = len(found)
            found.append(each)
    return found


def _requests(coverage: Sequence[Coverage]) -> Iterator[dict[str, Any]]:
    """The bodies of the requests that record coverage, in order. Successive symbols with the same times become one
    request."""

    def key(each: Coverage) -> tuple[bool, int, int, str]:
        return chain_of(each.symbol) == each.symbol, each.since, each.until, each.state

    for (is_chain, since, until, state), group in groupby(coverage, key):
        names = [each.symbol for each in group]
        times = {"from": since * 1000, "to": until * 1000, "state": state}
        for at in range(0, len(names), MAX_ITEMS):
            part = names[at : at + MAX_ITEMS]
            if is_chain:
                yield {"chain": part[0], **times}
            else:
                yield {"symbol": part[0], **times} if len(part) == 1 else {"symbols": part, **times}


def _within(items: list[OutboxItem], size: int) -> list[OutboxItem]:
    """The first items that have at most ``size`` bytes of JSON together, but at least one item."""
    for at, item in enumerate(items):
        size -= len(item.body) + 1
        if size < 0:
            return items[: max(at, 1)]
    return items


def _lag(items: Sequence[OutboxItem]) -> str:
    """The block and the age of the newest tick of a batch, for the log."""
    for item in reversed(items):
        tick = json.loads(item.body)
        if "ts" in tick:
            return f"block {tick['block']['number']}, {time.time() - tick['ts'] / 1000:.1f} s old"
    return "no ticks"
