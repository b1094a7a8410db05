"""The limits of connections: which bodies are kept, and when a connection is overdue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cardapp.errors import CardAppError, TooLarge, WrongHost
from cardapp.web import connections
from cardapp.web.connections import UNCOUNTED_BYTES, Activity, BodyBudget, RequestLimits, Rules, Timeouts
from cardapp.web.failures import ForeignUser, TooManyBodies
from cardapp.web.gate import Gate, Intake, Tcp

LARGE = 100_000
OWN = {"HTTP_HOST": "localhost:1", "REQUEST_METHOD": "POST", "PATH_INFO": "/", "CONTENT_TYPE": "image/png"}


def rules(bodies: BodyBudget) -> Rules:
    return Rules(Gate(Tcp("127.0.0.1", 1), {"/": Intake(("image/png",), LARGE)}), bodies)


def reception(bodies: BodyBudget) -> RequestLimits:
    found = RequestLimits(rules(bodies), None)
    assert found.check_head(OWN, has_body=True) is None
    return found


def kind(make: Any) -> type[CardAppError]:
    return type(make())


def test_a_body_larger_than_the_limit_of_its_path_is_refused() -> None:
    found = reception(BodyBudget(10 * LARGE))
    assert found.count_body(LARGE) is None
    assert kind(found.count_body(LARGE + 1)) is TooLarge


def test_bodies_share_one_bound() -> None:
    bodies = BodyBudget(2 * LARGE)
    first, second, third = (reception(bodies) for _ in range(3))
    for size in (UNCOUNTED_BYTES + 1, LARGE // 2, LARGE):
        assert first.count_body(size) is None
        assert second.count_body(size) is None
    assert third.count_body(UNCOUNTED_BYTES) is None, "small bodies do not count"
    assert kind(third.count_body(UNCOUNTED_BYTES + 1)) is TooManyBodies
    first.close()
    first.close()
    assert third.count_body(LARGE) is None
    assert kind(reception(bodies).count_body(UNCOUNTED_BYTES + 1)) is TooManyBodies


def test_the_gate_judges_requests_with_a_body_only() -> None:
    found = RequestLimits(rules(BodyBudget(LARGE)), None)
    foreign = {**OWN, "HTTP_HOST": "evil.example"}
    assert kind(found.check_head(foreign, has_body=True)) is WrongHost
    assert found.check_head(foreign, has_body=False) is None


def test_a_foreign_account_is_refused_first() -> None:
    found = RequestLimits(rules(BodyBudget(LARGE)), lambda: ForeignUser("why"))
    for has_body in (True, False):
        assert kind(found.check_head({**OWN, "HTTP_HOST": "evil.example"}, has_body=has_body)) is ForeignUser


# -- time --------------------------------------------------------------------------------------------------------------

TIMEOUTS = Timeouts(arrival=100.0, idle=10.0, crowded=2.0, linger=5.0)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    found = Clock()
    monkeypatch.setattr(connections, "monotonic", found)
    return found


def overdue(activity: Activity, *, crowded: bool = False, is_sending: bool = False, is_served: bool = False) -> bool:
    return activity.is_overdue(TIMEOUTS, crowded=crowded, is_sending=is_sending, is_served=is_served)


def test_an_idle_connection_is_overdue(clock: Clock) -> None:
    activity = Activity()
    clock.now += 10.5
    assert overdue(activity)
    assert overdue(activity, is_sending=True, is_served=True), "a client that does not read"
    assert not overdue(activity, is_served=True), "a request that runs"
    activity.arriving(is_partial=True)
    assert not overdue(activity)


def test_a_request_has_to_arrive_in_time(clock: Clock) -> None:
    activity = Activity()
    for _ in range(20):
        activity.arriving(is_partial=True)
        clock.now += 5.0
    assert not overdue(activity)
    clock.now += 0.5
    assert overdue(activity)
    activity.arriving(is_partial=False)
    assert not overdue(activity)


def test_a_client_that_a_worker_blocks_on_has_to_read(clock: Clock) -> None:
    activity = Activity()
    activity.sending()
    activity.is_blocking = True
    for _ in range(10):
        clock.now += 1.0
        activity.sent(connections.MIN_RATE)
    assert not overdue(activity, is_sending=True, crowded=True)
    for _ in range(5):
        clock.now += 1.0
        activity.sent(connections.MIN_RATE // 2)
    assert overdue(activity, is_sending=True, crowded=True)
    assert not overdue(activity, is_sending=True), "while no request waits for a worker"


def test_a_refused_request_is_read_for_a_while(clock: Clock) -> None:
    activity = Activity()
    activity.arriving(is_partial=True)
    activity.linger()
    assert activity.is_unused(100.0)
    clock.now += 5.0
    assert activity.drop(connections.LINGER_BYTES - 1)
    assert not overdue(activity)
    clock.now += 0.5
    assert overdue(activity)
    assert not activity.drop(1)
