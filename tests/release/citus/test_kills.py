"""A worker of the cluster or a process of the API is killed while clients write: what was acknowledged is stored."""

from __future__ import annotations

import http.client
import json
import random
import threading
from collections import Counter
from contextlib import closing
from time import monotonic

import pytest

from tests.functional.market_process import SECONDS, ApiProcess, Client
from tests.functional.serving import until
from tests.release.citus.citus_market import (
    SYMBOLS,
    TABLE,
    Asking,
    CitusMarket,
    Item,
    Journal,
    differences,
    first_items,
    stray_rows,
    tick,
)

pytestmark = pytest.mark.functional

AT_MOST = 10.0
"""Seconds that a request for symbols of a living worker may take, on a busy machine."""


class Senders:
    """Clients that send each batch until it is acknowledged, also to a process that was killed and started again."""

    def __init__(self, api: ApiProcess, journal: Journal, count: int, sizes: tuple[int, ...]) -> None:
        self._api, self._token, self._sizes = api, api.token("alg"), sizes
        self.journal = journal
        self.refused: Counter[str] = Counter()
        self.sent = 0
        self.failures: list[object] = []
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(count)]

    def start(self) -> None:
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        self._stopping.set()
        for each in self._threads:
            each.join(SECONDS)
            assert not each.is_alive()
        assert self.failures == []

    def _run(self, number: int) -> None:
        chance = random.Random(number)
        round = 0
        while not self._stopping.wait(0.005):
            round += 1
            items = [tick(chance, f"s{number}-{round}-{n}") for n in range(chance.choice(self._sizes))]
            try:
                while not self._is_acknowledged(items):
                    threading.Event().wait(0.1)
            except Exception as error:
                self.failures.append(error)
                return
            self.sent += 1
            self.journal.batches.append(items)

    def _is_acknowledged(self, items: list[Item]) -> bool:
        try:
            with closing(Asking(self._api.port, self._token)) as ask:
                status, _, content = ask("POST", "/v1/ingest/tick", {"ticks": items})
        except (OSError, http.client.HTTPException):
            self.refused["no answer"] += 1
            return False
        if status == 503:
            self.refused[json.loads(content)["code"]] += 1
            return False
        assert status == 200, content
        assert json.loads(content)["rejected"] == []
        return True


def begun(market: CitusMarket, **settings: str) -> tuple[ApiProcess, Journal]:
    api = market.started(**settings)
    journal = Journal()
    journal.batches.append(first_items(random.Random(1), streamed=0))
    with closing(Client(api.port, api.token("alg"))) as client:
        journal.replay(client)
    return api, journal


def assert_whole(market: CitusMarket, api: ApiProcess, plain: ApiProcess, journal: Journal) -> None:
    """What was acknowledged is stored once, and every answer is that of a plain version."""
    items = [item for batch in journal.batches for item in batch]
    with closing(Client(api.port, api.token("alg"))) as client:
        for first in range(0, len(items), 5000):
            status, answer = client("POST", "/v1/ingest/tick", {"ticks": items[first : first + 5000]})
            assert (status, answer["accepted"]) == (200, 0)
    with closing(Client(plain.port, plain.token("alg"))) as client:
        journal.replay(client)
    assert differences(plain, api, intervals=("1s", "1m", "2h", "1w"))[1] == []
    assert stray_rows(market.database) == []


def test_a_killed_worker_takes_only_its_symbols_with_it(market: CitusMarket, plain: ApiProcess) -> None:
    api, journal = begun(market)
    database = market.database
    node = database.workers[1]
    lost = {symbol for symbol in SYMBOLS if database.node_of(TABLE, symbol) == node}
    assert set() < lost < set(SYMBOLS)
    senders = Senders(api, journal, count=4, sizes=(1, 5, 40, 300))
    senders.start()
    until(lambda: senders.sent > 50, SECONDS)
    node.kill()
    longest = served_meanwhile(api, journal, lost)
    node.start()
    sent = senders.sent
    until(lambda: senders.sent > sent + 50, SECONDS)
    senders.stop()
    assert senders.refused.keys() <= {"database_unavailable", "partly_stored"}
    assert_whole(market, api, plain, journal)
    assert longest < AT_MOST


def served_meanwhile(api: ApiProcess, journal: Journal, lost: set[str]) -> float:
    """Write and read all symbols one by one, twice. Returns the seconds of the longest request of a living worker."""
    chance = random.Random(9)
    longest = 0.0
    with (
        closing(Asking(api.port, api.token("alg"))) as write,
        closing(Asking(api.port, api.token("read"))) as read,
    ):
        for round in range(2):
            for symbol in SYMBOLS:
                sent = tick(chance, f"meanwhile-{round}-{symbol}", symbol)
                began = monotonic()
                stored, _, content = write("POST", "/v1/ingest/tick", sent)
                middle = monotonic()
                status, _, _ = read("GET", f"/v1/chart?symbol={symbol}&interval=1m&limit={chance.randrange(1, 9999)}")
                if symbol in lost:
                    assert (stored, status) == (503, 503)
                else:
                    assert (stored, status) == (201, 200), content
                    longest = max(longest, middle - began, monotonic() - middle)
                    journal.batches.append([sent])
    return longest


def test_a_killed_process_leaves_batches_that_can_be_sent_again(market: CitusMarket, plain: ApiProcess) -> None:
    api, journal = begun(market)
    senders = Senders(api, journal, count=6, sizes=(300, 1000, 3000))
    senders.start()
    for _ in range(5):
        sent = senders.sent
        until(lambda sent=sent: senders.sent > sent + 5, SECONDS)
        port = api.port
        api.kill()
        api.start(port)
    senders.stop()
    assert senders.refused["no answer"] > 0
    assert_whole(market, api, plain, journal)
