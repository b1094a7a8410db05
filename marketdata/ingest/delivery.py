"""Delivers the outbox to ``POST /v1/ingest/tick``, in order, and then coverage to ``PUT /v1/coverage``. An item leaves
the outbox when the API answered for it.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from time import monotonic
from typing import NamedTuple

from marketdata.errors import StateError
from marketdata.ingest.api_client import NDJSON, Answer, ApiClient, ApiUnavailable
from marketdata.ingest.lease import Lease
from marketdata.ingest.outbox import Coverage, Held, Outbox, Rejection

BATCH = 5_000
"""Items of one request; the API takes 10 000."""
_BYTES = 6 << 20
"""The API takes 8 MiB."""
COVERAGE_S = 5.0
"""Seconds for which coverage is collected: adjacent ranges of a symbol are one request, however fast blocks come."""
_MAX_COVERAGE = 10_000
_LATER = frozenset({401, 403, 404, 408, 429})
"""Statuses that say nothing about the items, as 500 and more: a token, an address or a load that will be put right."""

_log = logging.getLogger("marketdata.ingestor")


class Sent(NamedTuple):
    """What the API answered for items; ``rejected`` has the index, the code and the detail of each refused one."""

    accepted: int
    duplicates: int
    rejected: list[tuple[int, str, str]]


def send(api: ApiClient, items: Sequence[str]) -> Sent:
    """Have the API store items, which are JSON. ApiUnavailable: try again later."""
    answer = api.request("POST", "/v1/ingest/tick", "\n".join(items).encode(), NDJSON)
    body = answer.body if isinstance(answer.body, dict) else {}
    if answer.status == 200 and "rejected" in body:
        rejected = [(each["index"], each["code"], each["detail"]) for each in body["rejected"]]
        return Sent(body["accepted"], body["duplicates"], rejected)
    if answer.status == 200 or _says_nothing(answer):
        raise ApiUnavailable(f"{api.url} stored nothing: {answer.detail}", answer.retry_after)
    if len(items) == 1:
        return Sent(0, 0, [(0, str(body.get("code") or answer.status), answer.detail)])
    # The whole request was refused: find the item.
    middle = len(items) // 2
    first, second = send(api, items[:middle]), send(api, items[middle:])
    later = [(middle + index, code, detail) for index, code, detail in second.rejected]
    return Sent(first.accepted + second.accepted, first.duplicates + second.duplicates, first.rejected + later)


class _Answered(NamedTuple):
    """The first and the last item of a batch that the API answered for, without their bodies."""

    items: tuple[Held, Held]
    rejections: Sequence[Rejection]


class Delivery:
    """Used by one thread."""

    def __init__(self, outbox: Outbox, api: ApiClient, lease: Lease) -> None:
        self._outbox = outbox
        self._api = api
        self._lease = lease
        self._cover_at = 0.0
        self._answered: list[_Answered] = []
        """What is still to be removed from the outbox."""
        self.delivered = 0

    def step(self) -> bool:
        """Deliver one batch, and coverage when it is time; False when there was no batch to deliver. ApiUnavailable:
        try again later."""
        try:
            return self._step()
        except ApiUnavailable:
            self._lease.renew()
            raise

    def _step(self) -> bool:
        self._lease.keep()
        after = self._answered[-1].items[-1].id if self._answered else 0
        items = _within(self._outbox.first(BATCH, after), _BYTES)
        if items:
            self._finish(items, send(self._api, [item.body for item in items]))
        try:
            self._remove_answered()
        except StateError:  # the disk may be full: what is on it can be delivered nevertheless
            if not items:
                raise
        if monotonic() >= self._cover_at:
            self.cover()
        return bool(items)

    def cover(self) -> None:
        """Have the API record the coverage whose ticks it has."""
        self._cover_at = monotonic() + COVERAGE_S
        collected = self._outbox.coverage(_MAX_COVERAGE)
        for each in _merged(collected):
            body = {"symbol": each.symbol, "from": each.since * 1000, "to": each.until * 1000, "state": each.state}
            answer = self._api.request("PUT", "/v1/coverage", json.dumps(body).encode())
            if answer.status == 200:
                continue
            if _says_nothing(answer):
                raise ApiUnavailable(f"{self._api.url} recorded no coverage: {answer.detail}", answer.retry_after)
            _log.warning("coverage was refused: %s: %s", answer.detail, body)
        if collected:
            self._outbox.recorded(collected)

    def _finish(self, items: Sequence[Held], sent: Sent) -> None:
        rejections = [Rejection(items[index], code, detail) for index, code, detail in sent.rejected]
        self._answered.append(_Answered((items[0]._replace(body=""), items[-1]._replace(body="")), rejections))
        self.delivered += len(items)
        _log.info(
            "delivered %d items: %d new, %d known, %d refused; %s",
            len(items), sent.accepted, sent.duplicates, len(rejections), _lag(items),
        )  # fmt: skip

    def _remove_answered(self) -> None:
        while self._answered:
            items, rejections = self._answered[0]
            dead, again = self._outbox.acknowledged(items, rejections)
            del self._answered[0]
            if dead or again:
                _log.info("refused items: %d to the dead letters, %d sent again", dead, again)
            for rejection in rejections[:3] if dead else ():
                _log.warning("refused: %s (%s): %s", rejection.detail, rejection.code, rejection.item.body[:300])


def _says_nothing(answer: Answer) -> bool:
    return answer.status in _LATER or answer.status >= 500


def _merged(coverage: Sequence[Coverage]) -> list[Coverage]:
    """Adjacent ranges of one state as one; the order in which they replace each other is kept."""
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


def _within(items: list[Held], size: int) -> list[Held]:
    """The first items whose JSON has no more than ``size`` bytes together, at least one."""
    for at, item in enumerate(items):
        size -= len(item.body) + 1
        if size < 0:
            return items[: max(at, 1)]
    return items


def _lag(items: Sequence[Held]) -> str:
    """How old the newest tick of a batch is."""
    for item in reversed(items):
        tick = json.loads(item.body)
        if "ts" in tick:
            return f"block {tick['block']['number']}, {time.time() - tick['ts'] / 1000:.1f} s old"
    return "no ticks"
