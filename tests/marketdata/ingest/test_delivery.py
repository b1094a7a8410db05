"""Delivery of the outbox over real HTTP to a scripted API."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from marketdata.errors import AlreadyRunning, StateError, UsageError
from marketdata.ingest.api_client import AnotherTable, ApiClient, ApiUnavailable
from marketdata.ingest.delivery import Delivery
from marketdata.ingest.lease import Lease, holder_of, locked
from marketdata.ingest.outbox import Outbox, put, put_coverage
from tests.marketdata.source.provider import Provider, Raw

TABLE = "md_ticks_v1"
READY = {"ready": True, "ticks_table": TABLE, "candles_function": "f"}
LEASE = {"name": "ingestor-md_ticks_v1", "holder": "me", "fencing": 1, "expires_at": "later"}


class Api(Provider):
    """Grants every lease. ``ingest`` returns the response to a batch."""

    def __init__(self) -> None:
        super().__init__(lambda items, _: self.ingest(items))
        self.ingest: Callable[[list[Any]], Any] = stored
        self.lease: Any = LEASE
        self.cover: Any = {}
        self.ready: Any = READY

    def respond(self, method: str, path: str, body: bytes) -> Any:
        if path == "/ready":
            return self.ready
        if path.startswith("/v1/lease/"):
            return self.lease
        if path == "/v1/coverage":
            self.asked.append((method, json.loads(body)))
            return self.cover
        items = [json.loads(line) for line in body.splitlines()]
        self.asked.append(items)
        return self.ingest(items)


def stored(items: list[Any]) -> Any:
    return {"accepted": len(items), "duplicates": 0, "rejected": []}


@pytest.fixture
def api() -> Iterator[Api]:
    found = Api()
    yield found
    found.close()


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    found = Outbox(tmp_path / "o.sqlite")
    with found.transaction() as transaction:
        put(
            transaction,
            [
                {"symbol": "T:1", "id": f"{n}", "ts": 1_700_000_000_000, "block": {"number": n, "hash": "h"}}
                for n in range(10)
            ],
        )
    yield found
    found.close()


Sending = Callable[..., Delivery]


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sending(api: Api, outbox: Outbox, clock: Clock) -> Iterator[Sending]:
    """``sending(table)`` makes a delivery of the outbox that expects the API to write to ``table``."""
    client = ApiClient(api.url, lambda: "md_token")
    yield lambda table=TABLE: Delivery(outbox, client, Lease(client, outbox, table), clock)
    client.close()


def test_a_batch_leaves_the_outbox_when_it_is_acknowledged(api: Api, outbox: Outbox, sending: Sending) -> None:
    delivery = sending()
    assert delivery.step()
    assert outbox.count() == 0
    assert [item["id"] for item in api.asked[0]] == [str(n) for n in range(10)]
    assert not delivery.step()


def test_without_an_acknowledgement_all_items_stay(api: Api, outbox: Outbox, sending: Sending) -> None:
    delivery = sending()
    for status in (401, 403, 404, 408, 429, 500, 503):
        api.ingest = lambda _, status=status: Raw(b'{"detail": "not now"}', status, (("Retry-After", "3"),))
        with pytest.raises(ApiUnavailable, match="not now") as caught:
            delivery.step()
        assert (caught.value.retry_after, outbox.count()) == (3, 10), status
    api.ingest = lambda _: Raw(b'{"accepted"', length=100)
    with pytest.raises(ApiUnavailable):
        delivery.step()
    api.close()
    with pytest.raises(ApiUnavailable, match="does not answer"):
        delivery.step()
    assert outbox.count() == 10


def test_the_item_that_makes_the_api_refuse_a_batch_is_found(api: Api, outbox: Outbox, sending: Sending) -> None:
    def answer(items: list[Any]) -> Any:
        if any(item["id"] == "7" for item in items):
            return Raw(b'{"code": "malformed_json", "detail": "not JSON"}', 400)
        return stored(items)

    api.ingest = answer
    delivery = sending()
    while delivery.step():
        pass
    [letter] = outbox.dead_letters()
    assert (json.loads(letter.body)["id"], letter.code) == ("7", "malformed_json")
    acknowledged = [item["id"] for items in api.asked for item in items if answer(items) == stored(items)]
    assert acknowledged == [str(n) for n in range(10) if n != 7]


def cover(outbox: Outbox, *ranges: tuple[str, int, int, str]) -> None:
    with outbox.transaction() as transaction:
        for each in ranges:
            put_coverage(transaction, *each)


def test_coverage_follows_its_ticks_and_adjacent_ranges_are_one_request(
    api: Api, outbox: Outbox, sending: Sending
) -> None:
    cover(outbox, ("T:1", 10, 20, "indexed"), ("T:2", 0, 5, "indexed"), ("T:1", 20, 30, "indexed"))
    cover(outbox, ("T:1", 25, 30, "failed"), ("T:1", 25, 40, "indexed"), ("T:1", 40, 41, "indexed"))
    api.ingest = lambda _: Raw(b"", 503)
    delivery = sending()
    with pytest.raises(ApiUnavailable):
        delivery.step()
    delivery.cover()
    assert len(api.asked) == 1, "nothing is covered yet"
    api.ingest = stored
    delivery.step()
    delivery.cover()
    assert api.asked[2:] == [
        ("PUT", {"symbol": symbol, "from": since * 1000, "to": until * 1000, "state": state})
        for symbol, since, until, state in (
            ("T:1", 10, 30, "indexed"), ("T:2", 0, 5, "indexed"), ("T:1", 25, 30, "failed"), ("T:1", 25, 41, "indexed"),
        )
    ]  # fmt: skip
    assert outbox.coverage(10) == []


def test_coverage_is_delivered_every_five_seconds(api: Api, outbox: Outbox, sending: Sending, clock: Clock) -> None:
    delivery = sending()
    for second in range(12):
        cover(outbox, ("T:1", second, second + 1, "indexed"))
        clock.now = 100.0 + second
        delivery.step()
    assert [body["to"] for _, body in api.asked[1:]] == [1000, 6000, 11000]


def test_coverage_stays_until_it_is_recorded(api: Api, outbox: Outbox, sending: Sending) -> None:
    cover(outbox, ("T:1", 10, 20, "indexed"))
    delivery = sending()
    api.cover = Raw(b"", 500)
    with pytest.raises(ApiUnavailable, match="recorded no coverage"):
        delivery.step()
    assert (outbox.count(), len(outbox.coverage(10))) == (0, 1)
    api.cover = Raw(b'{"detail": "why"}', 422)  # a refusal that no retry can mend
    delivery.cover()
    assert outbox.coverage(10) == []


def test_delivery_continues_while_the_disk_is_full(api: Api, outbox: Outbox, sending: Sending) -> None:
    delivery = sending()
    batches = api.asked
    outbox.rows("PRAGMA busy_timeout = 0")
    with closing(sqlite3.connect(outbox.path)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert delivery.step()
        with pytest.raises(StateError, match="locked"):
            delivery.step()
    assert [len(items) for items in batches] == [10]
    assert outbox.count() == 10
    assert not delivery.step()
    assert outbox.count() == 0


def test_a_lease_of_another_ingestor_is_already_running(api: Api, outbox: Outbox, sending: Sending) -> None:
    api.lease = Raw(b'{"code": "lease_held", "detail": "released just now"}', 409)
    with pytest.raises(ApiUnavailable, match="released just now"):
        sending().step()
    api.lease = Raw(b'{"code": "lease_held", "detail": "elsewhere holds the lease", "holder": "elsewhere"}', 409)
    with pytest.raises(AlreadyRunning, match="elsewhere holds the lease"):
        sending().step()
    assert outbox.count() == 10


def test_the_api_of_another_table_is_refused(sending: Sending) -> None:
    with pytest.raises(UsageError, match=r"TICKS_TABLE is md_ticks_v2, but the API at .* writes to md_ticks_v1"):
        sending("md_ticks_v2").step()


def test_an_api_that_changed_its_table_gets_nothing(api: Api, outbox: Outbox, sending: Sending) -> None:
    delivery = sending()
    assert delivery.step()
    with outbox.transaction() as transaction:
        put(transaction, [{"symbol": "T:1", "id": "11"}])
    api.ingest = lambda _: Raw(b"", 503)  # and then the API of another version responds
    with pytest.raises(ApiUnavailable):
        delivery.step()
    api.ingest, api.ready = stored, READY | {"ticks_table": "md_ticks_v2"}
    sent = len(api.asked)
    with pytest.raises(AnotherTable, match="writes to md_ticks_v2"):
        delivery.step()
    with pytest.raises(UsageError, match=r"o\.sqlite belongs to the table md_ticks_v1, but the API writes to md_ti"):
        sending("md_ticks_v2").step()
    assert (len(api.asked), outbox.count()) == (sent, 1)


def test_the_name_of_the_holder_survives_a_new_host_name_and_outbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = []
    for host in ("one", "other"):
        monkeypatch.setattr("socket.gethostname", lambda host=host: host)
        with closing(Outbox(tmp_path / "o.sqlite")) as outbox:
            held.append(holder_of(outbox))
        for path in tmp_path.glob("*.sqlite*"):
            path.unlink()
    assert held[0] == held[1]
    assert held[0].startswith("one ")


def test_no_request_outlasts_the_deadline(api: Api) -> None:
    release = threading.Event()
    api.ingest = lambda items: release.wait(10) and stored(items)
    with closing(ApiClient(api.url, lambda: "md_token")) as client:
        assert client.request("GET", "/ready").status == 200  # the connection is kept
        client.deadline = time.monotonic() + 0.1
        with pytest.raises(ApiUnavailable, match="timed out"):
            client.request("POST", "/v1/ingest/tick", b"{}")
        with pytest.raises(ApiUnavailable, match="in time"):
            client.request("GET", "/ready")
    release.set()


def test_the_lock_file_has_one_holder(tmp_path: Path) -> None:
    with locked(tmp_path / "a"):
        with locked(tmp_path / "b"):
            pass
        with pytest.raises(AlreadyRunning, match=r"another ingestor, process [0-9]+, holds"), locked(tmp_path / "a"):
            pass
    with locked(tmp_path / "a"):
        pass


def test_a_refused_item_becomes_a_dead_letter_unless_it_is_pruned(api: Api, outbox: Outbox, sending: Sending) -> None:
    rejected = [
        {"index": 2, "code": "pruned", "detail": "why"},
        {"index": 4, "code": "tick_conflict", "detail": "another one"},
    ]
    api.ingest = lambda items: {"accepted": len(items) - 2, "duplicates": 0, "rejected": rejected}
    delivery = sending()
    assert delivery.step()
    assert (outbox.count(), delivery.pruned) == (0, 1)
    [letter] = outbox.dead_letters()
    assert (json.loads(letter.body)["id"], letter.code, letter.detail) == ("4", "tick_conflict", "another one")
