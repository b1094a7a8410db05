"""The status of the chosen session: how old it may be, and what it reports about a session on another card."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from cardapp.card.model import Identity
from cardapp.errors import SessionUnavailable, TooSlow
from cardapp.session_client.link import Choice
from cardapp.session_client.session_status import SessionStatus, SessionWatch
from tests.functional.session_process import eventually

SERVED = Identity("arena", "u-1", "1.0.0", "a" * 64)
CARD = {**SERVED.as_json(), "title": "Arena"}
SOURCE = "/cards/my card/card_source.json"
BINDING = {"container_id": "c", "instance": "i", "profile": "p", "target": "t"}


class Link:
    """The link to a session that the test chooses. It counts its calls, and answers only when the test allows it."""

    def __init__(self) -> None:
        self.name: str | None = "s"
        self.card: dict[str, Any] = dict(CARD)
        self.error: Exception | None = None
        self.let = threading.Event()
        self.let.set()
        self.asked = threading.Semaphore(0)

    def target(self) -> tuple[Choice, None]:
        if self.name is None:
            raise SessionUnavailable("no session is chosen")
        return Choice(self.name, f"/nonexistent/{self.name}"), None

    def binding(self, *, seconds: float = 0) -> dict[str, Any]:
        self.asked.release()
        self.let.wait(60)
        if self.error is not None:
            raise self.error
        return {**BINDING, "runtime": "local", "card": dict(self.card), "card_source": SOURCE}


class Stage:
    """A status with a :class:`Link`, and with a clock and a served card that the test sets."""

    def __init__(self) -> None:
        self.link = Link()
        self.now = 0.0
        self.served = SERVED
        loader = SimpleNamespace(current=lambda: SimpleNamespace(identity=self.served))
        sources = SimpleNamespace(changes=lambda uuid: [] if uuid == self.served.uuid else None)
        parts: tuple[Any, ...] = (self.link, loader, sources, lambda: self.now)
        self.status = SessionStatus(*parts, max_age=1.0)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_concurrent_readers_get_the_last_status_while_one_queries_the_session(stage: Stage) -> None:
    first = stage.status.brief()
    assert (first["available"], first["binding"], first["card"]) == (True, BINDING, CARD)
    assert stage.link.asked.acquire(timeout=30)
    stage.link.let.clear()
    stage.now = 5.0
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(stage.status.brief)
        assert stage.link.asked.acquire(timeout=30)
        assert stage.status.brief() == first
        stage.link.let.set()
        assert slow.result(30) == first
    assert not stage.link.asked.acquire(blocking=False)


def test_another_choice_or_another_served_card_is_asked_for_at_once(stage: Stage) -> None:
    stage.status.brief()
    stage.link.name = "other"
    assert stage.status.brief()["name"] == "other"
    stage.served = Identity("arena", "u-1", "1.0.1", "b" * 64)
    assert stage.status.brief()["mismatch"]["code"] == "other_revision"
    assert sum(stage.link.asked.acquire(blocking=False) for _ in range(9)) == 3


def test_a_session_on_another_card_is_told_with_the_ways_out(stage: Stage) -> None:
    assert stage.status.brief()["mismatch"] is None
    stage.link.name, stage.link.card = "b", {**CARD, "id": "calc", "uuid": "u-2", "title": "Calculator"}
    found = stage.status.describe()
    assert (found["card"], found["changes"], found["mismatch"]["code"]) == (stage.link.card, None, "other_card")
    for part in ("'Calculator'", "arena 1.0.0", "CARD_SOURCE='/cards/my card/card_source.json'", "select NAME"):
        assert part in found["mismatch"]["detail"]


def test_what_is_known_needs_no_call(stage: Stage) -> None:
    assert stage.status.known() == {"name": "s", "card": None, "mismatch": None}
    assert not stage.link.asked.acquire(blocking=False)
    stage.status.read()
    card = {"id": "arena", "uuid": "u-1", "title": "Arena"}
    assert stage.status.known() == {"name": "s", "card": card, "mismatch": None}
    stage.link.name = None
    assert stage.status.known() == {"name": None, "card": None, "mismatch": None}
    assert stage.status.brief()["reason"] == "no session is chosen"


def test_the_watch_asks_a_new_choice_and_again_until_it_answers(stage: Stage) -> None:
    changes = threading.Semaphore(0)
    watch = SessionWatch(stage.status, changes.release)
    watch.start()
    try:
        assert changes.acquire(timeout=30)
        stage.link.error = TooSlow("busy")
        stage.link.card["uuid"], stage.link.name = "u-2", "b"
        assert changes.acquire(timeout=30)
        assert stage.status.known()["mismatch"] is None
        stage.link.error, stage.now = None, 9.0
        assert changes.acquire(timeout=30)
        eventually(lambda: stage.status.known()["mismatch"])
        stage.link.name = None
        assert changes.acquire(timeout=30)
    finally:
        watch.stop()
