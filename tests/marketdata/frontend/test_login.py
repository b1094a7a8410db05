"""The login: checks of passwords, remembered logins, and the throttle of failed logins."""

from __future__ import annotations

import threading

import bcrypt
import pytest

from marketdata.errors import StateError
from marketdata.frontend.login import (
    BURST,
    FRESH_BURST,
    OWN_BURST,
    REMEMBERED_SECONDS,
    SECONDS_EACH,
    Login,
    Throttle,
)
from marketdata.frontend.problems import LoginRequired, LoginUnavailable, TooManyTries
from tests.marketdata.frontend.conftest import PASSWORD, USER, Frontend, Response, basic, quick_hash
from tests.marketdata.frontend.scripted_api import ScriptedApi


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Checks:
    """The cost of each bcrypt check."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.costs: list[int] = []
        real = bcrypt.hashpw

        def counted(password: bytes, salt: bytes) -> bytes:
            self.costs.append(int(salt.split(b"$")[2]))
            return real(password, salt)

        monkeypatch.setattr(bcrypt, "hashpw", counted)

    @property
    def count(self) -> int:
        return len(self.costs)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def users() -> dict[str, bytes]:
    return {USER: quick_hash(PASSWORD).encode()}


@pytest.fixture
def login(users: dict[str, bytes], clock: Clock) -> Login:
    return Login(lambda: users, clock)


def test_a_password_is_checked_once_a_minute(login: Login, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = Checks(monkeypatch)
    for _ in range(20):
        assert login.user(basic(), "a") == USER
    clock.now += REMEMBERED_SECONDS - 1
    assert login.user(basic(), "b") == USER
    assert checks.count == 1
    clock.now += 2
    assert login.user(basic(), "a") == USER
    assert checks.count == 2


def test_simultaneous_requests_share_one_check(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    checks, found = Checks(monkeypatch), []
    threads = [threading.Thread(target=lambda: found.append(login.user(basic(), "a"))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (found, checks.count) == ([USER] * 20, 1)


def test_removing_a_user_or_changing_the_password_ends_the_login_at_once(login: Login, users: dict[str, bytes]) -> None:
    login.user(basic(), "a")
    users[USER] = quick_hash("another password").encode()
    with pytest.raises(LoginRequired):
        login.user(basic(), "a")
    assert login.user(basic(USER, "another password"), "a") == USER
    stands = login.standing(USER)
    assert stands()
    del users[USER]
    assert not stands()
    with pytest.raises(LoginRequired):
        login.user(basic(USER, "another password"), "a")


MALFORMED = (
    None, "", "Basic", "Basic !", "Basic YWxpY2U=", "Bearer x", "Digest username=alice", "Basic gICA",
    basic(USER, ""), basic(USER, PASSWORD + " "), basic(USER, PASSWORD[:-1]), basic(USER.upper(), PASSWORD),
    basic("", PASSWORD), basic(USER, "\0"), basic(USER, "x" * 73), basic("bob", PASSWORD), "Basic " + "A" * 9000,
)  # fmt: skip


def test_a_malformed_authorization_is_refused(login: Login) -> None:
    for number, header in enumerate(MALFORMED):
        with pytest.raises(LoginRequired):
            pytest.fail(f"{header}: {login.user(header, f'address {number}')}")


def test_a_password_beyond_bcrypts_limit_is_wrong(users: dict[str, bytes], login: Login) -> None:
    users["long"] = quick_hash("é" * 36).encode()
    assert login.user(basic("long", "é" * 36), "a") == "long"
    with pytest.raises(LoginRequired):
        login.user(basic("long", "é" * 36 + "x"), "a")


def test_an_unknown_user_costs_the_same_work(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """htpasswd may give users different costs. The time of a failed login still does not tell whether a user exists."""
    users = {f"user{cost}": bcrypt.hashpw(b"right", bcrypt.gensalt(cost)) for cost in (4, 5, 6)}
    login, checks = Login(lambda: users, clock), Checks(monkeypatch)

    def costs(name: str) -> list[int]:
        checks.costs.clear()
        for address in ("a", "b"):
            clock.now += 1000
            with pytest.raises(LoginRequired):
                login.user(basic(name, "wrong"), address)
        return list(checks.costs)

    assert [costs(f"user{cost}") for cost in (4, 5, 6)] == [[4, 4], [5, 5], [6, 6]]
    unknown = [costs(f"nobody{n}") for n in range(60)]
    assert all(first == again for first, again in unknown)
    assert {first for first, _ in unknown} == {4, 5, 6}


def test_an_unknown_user_does_not_get_in_with_the_password_of_another(login: Login) -> None:
    for n in range(20):
        with pytest.raises(LoginRequired):
            login.user(basic(f"nobody{n}", PASSWORD), f"address {n}")


def test_wrong_tries_of_an_address_are_slowed(login: Login, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(BURST):
        with pytest.raises(LoginRequired):
            login.user(basic(f"user{n}", "wrong"), "a")
    checks = Checks(monkeypatch)
    with pytest.raises(TooManyTries) as refused:
        login.user(basic(), "a")
    assert (checks.count, refused.value.retry_after) == (0, SECONDS_EACH)
    assert login.user(basic(), "b") == USER  # from another address
    clock.now += SECONDS_EACH
    with pytest.raises(LoginRequired):
        login.user(basic("x", "wrong"), "a")
    with pytest.raises(TooManyTries):
        login.user(basic("x", "wrong"), "a")


def tried(login: Login, name: str, address: str) -> bool:
    """Whether a wrong password was looked at."""
    with pytest.raises((LoginRequired, TooManyTries)) as refused:
        login.user(basic(name, "wrong"), address)
    return refused.type is LoginRequired


def test_wrong_tries_for_a_user_are_slowed(login: Login, clock: Clock) -> None:
    """Whatever the number of addresses that go on, and however many new ones there are."""
    for name in (USER, "nobody"):
        assert sum(tried(login, name, f"{n} for {name}") for n in range(3 * FRESH_BURST)) == FRESH_BURST
        again = sum(tried(login, name, f"{n} for {name}") for n in range(FRESH_BURST) for _ in range(BURST))
        assert again == FRESH_BURST * OWN_BURST + BURST
        clock.now += SECONDS_EACH
        assert sum(tried(login, name, f"{n} for {name}") for n in range(FRESH_BURST)) == 1


def test_a_user_who_never_logged_in_is_not_locked_out_from_elsewhere(login: Login, clock: Clock) -> None:
    """Others go on with wrong passwords from fifty addresses. The user mistypes twice, then gets in."""
    for _ in range(20):
        for n in range(50):
            for _ in range(3):
                tried(login, USER, f"address {n}")
        clock.now += SECONDS_EACH
    assert tried(login, USER, "home")
    assert tried(login, USER, "home")
    assert login.user(basic(), "home") == USER
    clock.now += REMEMBERED_SECONDS + 1
    for n in range(3 * FRESH_BURST):
        tried(login, USER, f"a further address {n}")
    assert login.user(basic(), "another home of the user") == USER  # a remembered login is not delayed


def test_only_the_current_password_escapes_the_throttle(login: Login, users: dict[str, bytes], clock: Clock) -> None:
    login.user(basic(), "home")
    users[USER] = quick_hash("another password").encode()
    for n in range(FRESH_BURST):
        with pytest.raises(LoginRequired):
            login.user(basic(), f"address {n}")
    with pytest.raises(TooManyTries):
        login.user(basic(), "a new address")


def test_the_addresses_of_one_ipv6_network_count_as_one(login: Login) -> None:
    for n in range(BURST):
        with pytest.raises(LoginRequired):
            login.user(basic(f"user{n}", "wrong"), f"2001:db8::{n}")
    with pytest.raises(TooManyTries):
        login.user(basic("x", "wrong"), "2001:db8::ffff:1")


def test_right_tries_take_no_tokens(login: Login, users: dict[str, bytes], clock: Clock) -> None:
    for _ in range(3 * BURST):
        clock.now += REMEMBERED_SECONDS + 1
        assert login.user(basic(), "a") == USER


def test_the_number_of_buckets_is_bounded(clock: Clock) -> None:
    table = Throttle(clock, max_keys=10)
    for n in range(100):
        assert table.take(("address", n)) == 0
    assert len(table) == 10


def test_with_an_unusable_users_file_nobody_can_log_in(clock: Clock) -> None:
    def broken() -> dict[str, bytes]:
        raise StateError("broken")

    with pytest.raises(LoginUnavailable):
        Login(broken, clock).user(basic(), "a")


def test_the_login_works_over_http(fresh: tuple[Frontend, ScriptedApi]) -> None:
    frontend, _ = fresh
    for authorization in ({}, {"Authorization": basic(USER, "wrong")}, {"Authorization": "Bearer x"}):
        answer = frontend.ask("GET", "/api/v1/chart", **authorization)
        assert (answer.status, answer.json["code"]) == (401, "login_required")
        assert answer.headers["WWW-Authenticate"] == 'Basic realm="marketdata", charset="UTF-8"'
        assert answer.headers["Content-Type"] == "application/problem+json"
    assert frontend.get("/api/v1/chart").status == 200
    of_the_page = frontend.ask("GET", "/api/v1/chart", **{"X-Login-Prompt": "none"})
    assert (of_the_page.status, of_the_page.headers["WWW-Authenticate"]) == (401, 'X-Basic realm="marketdata"')


def test_changes_of_the_users_file_take_effect_at_once(fresh: tuple[Frontend, ScriptedApi]) -> None:
    frontend, _ = fresh
    assert frontend.get("/whoami").status == 200
    frontend.set_users(bob="the password of bob")
    assert frontend.get("/whoami").status == 401
    bob = {"Authorization": basic("bob", "the password of bob")}
    assert frontend.get("/whoami", **bob).json["user"] == "bob"
    (frontend.secrets / "frontend.json").write_text("{")
    answer = frontend.get("/whoami", **bob)
    assert (answer.status, answer.json["code"], answer.headers["Retry-After"]) == (503, "login_unavailable", "5")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_wrong_tries_behind_a_proxy_slow_the_client_that_makes_them(
    fresh: tuple[Frontend, ScriptedApi], method: str
) -> None:
    """The client's own header field changes nothing. For a large body, the listener checks the login."""
    frontend, _ = fresh
    body = b"x" * 100_000 if method == "POST" else None

    def tried(n: int, forwarded: str, password: str = "wrong") -> Response:
        name = USER if password == PASSWORD else f"user{n}"
        fields = {"Authorization": basic(name, password), "X-Forwarded-For": forwarded}
        return frontend.ask(method, "/api/v1/x", body, **fields)

    found = [tried(n, f"198.51.100.{n}, 203.0.113.9") for n in range(BURST + 1)]
    assert [answer.status for answer in found] == [401] * BURST + [429]
    assert (found[-1].json["code"], found[-1].headers["Retry-After"]) == ("too_many_tries", "6")
    assert tried(0, "203.0.113.9", PASSWORD).status == 429
    assert tried(0, "203.0.113.10", PASSWORD).status == 200
