"""Delivers the outbox to ``POST /v1/ingest/tick``, in order. An item leaves the outbox when the API answered for it."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from typing import Any

from marketdata.ingest.api_client import NDJSON, Answer, ApiClient, ApiUnavailable
from marketdata.ingest.lease import Lease
from marketdata.ingest.outbox import Held, Outbox, Rejection

BATCH = 5_000
"""Items of one request; the API takes 10 000."""
_BYTES = 6 << 20
"""The API takes 8 MiB."""
_LATER = frozenset({401, 403, 404, 408, 429})
"""Statuses that say nothing about the items, as 500 and more: a token, an address or a load that will be put right."""

_log = logging.getLogger("marketdata.ingestor")


class Delivery:
    """Used by one thread."""

    def __init__(self, outbox: Outbox, api: ApiClient, lease: Lease) -> None:
        self._outbox = outbox
        self._api = api
        self._lease = lease
        self._most = BATCH
        self.delivered = 0
        self.dead = 0

    def step(self) -> bool:
        """Deliver one batch; False when there is nothing to deliver. ApiUnavailable: try again later."""
        self._lease.keep()
        items = _within(self._outbox.first(self._most), _BYTES)
        if not items:
            return False
        answer = self._api.request("POST", "/v1/ingest/tick", "\n".join(item.body for item in items).encode(), NDJSON)
        if answer.status == 200 and isinstance(answer.body, dict):
            self._finish(items, [_rejection(items, each) for each in answer.body["rejected"]], answer)
            self._most = min(BATCH, self._most * 2)
        elif answer.status in _LATER or answer.status >= 500 or answer.status == 200:
            raise ApiUnavailable(f"{self._api.url} stored nothing: {answer.detail}", answer.retry_after)
        elif len(items) > 1:
            self._most = len(items) // 2  # the whole request was refused: find the item
        else:
            code = answer.body.get("code") if isinstance(answer.body, dict) else None
            self._finish(items, [Rejection(items[0], str(code or answer.status), answer.detail)], answer)
        return True

    def _finish(self, items: Sequence[Held], rejections: Sequence[Rejection], answer: Answer) -> None:
        dead, again = self._outbox.acknowledged(items, rejections)
        self.delivered += len(items)
        self.dead += dead
        body: dict[str, Any] = answer.body if answer.status == 200 else {"accepted": 0, "duplicates": 0}
        _log.info(
            "delivered %d items: %d new, %d known, %d refused (%d to the dead letters, %d sent again); %d wait; %s",
            len(items), body["accepted"], body["duplicates"], len(rejections), dead, again, self._outbox.count(),
            _lag(items),
        )  # fmt: skip
        for rejection in rejections[:3] if dead else ():
            _log.warning("refused: %s (%s): %s", rejection.detail, rejection.code, rejection.item.body[:300])


def _rejection(items: Sequence[Held], refused: dict[str, Any]) -> Rejection:
    return Rejection(items[refused["index"]], refused["code"], refused["detail"])


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
