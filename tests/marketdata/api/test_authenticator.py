"""How long the authenticator caches a token, with a clock and a look-up that the test provides."""

from __future__ import annotations

import math

import pytest

from marketdata import token
from marketdata.api.auth import CACHE_SECONDS, Authenticator, Caller
from marketdata.errors import Unauthorized
from marketdata.store.tokens import ValidToken

CALLER = Caller("7", "mine", "read")
TEXT = token.generate()


class Database:
    """One token, which can be revoked, and a clock that only the test moves; ``asked`` counts the look-ups."""

    def __init__(self, seconds_left: float = math.inf) -> None:
        self.now = 1000.0
        self.ends = self.now + seconds_left
        self.is_revoked = False
        self.asked = 0
        self.takes = 0.0
        self.is_revoked_meanwhile = False
        self.authenticator = Authenticator(self._find, clock=lambda: self.now)

    def _find(self, digest: bytes) -> ValidToken | None:
        self.asked += 1
        left = self.ends - self.now
        self.now += self.takes
        is_valid = digest == token.digest(TEXT) and left > 0 and not self.is_revoked
        if self.is_revoked_meanwhile:
            self.is_revoked = True
            self.authenticator.forget(CALLER.id)
        return ValidToken(CALLER.id, CALLER.name, CALLER.scope, left) if is_valid else None

    def admit(self, text: str = TEXT) -> Caller:
        return self.authenticator.admit(f"Bearer {text}", "read")

    def refuses(self, text: str = TEXT) -> bool:
        with pytest.raises(Unauthorized) as refused:
            self.admit(text)
        return refused.value.code == "invalid_token"


def test_a_token_is_cached_for_half_a_minute_and_no_longer() -> None:
    database = Database()
    assert database.admit() == CALLER
    database.is_revoked = True
    database.now += CACHE_SECONDS - 0.001
    assert database.admit() == CALLER
    assert database.asked == 1
    database.now += 0.001
    assert database.refuses()
    assert database.asked == 2
    assert CACHE_SECONDS == 30


def test_the_caching_counts_from_the_query_not_from_its_result() -> None:
    database = Database()
    database.takes = 20
    database.admit()
    database.takes = 0
    database.is_revoked = True
    database.now += CACHE_SECONDS - 20
    assert database.refuses()


def test_a_token_that_expires_is_cached_until_then() -> None:
    database = Database(seconds_left=5)
    assert database.admit() == CALLER
    database.now += 4.999
    assert database.admit() == CALLER
    assert database.asked == 1
    database.now += 0.001
    assert database.refuses()


def test_a_revoked_token_is_looked_up_again() -> None:
    database = Database()
    database.admit()
    database.authenticator.forget("8")
    database.admit()
    assert database.asked == 1
    database.is_revoked = True
    database.authenticator.forget(CALLER.id)
    assert database.refuses()


def test_a_token_revoked_during_its_look_up_is_not_cached() -> None:
    database = Database()
    database.is_revoked_meanwhile = True
    assert database.admit() == CALLER
    assert database.refuses()


def test_an_unknown_token_is_looked_up_each_time_and_one_with_a_wrong_checksum_never() -> None:
    database, unknown = Database(), token.generate()
    for asked in (1, 2):
        assert database.refuses(unknown)
        assert database.asked == asked
    assert database.refuses(unknown[:-1] + ("0" if unknown[-1] != "0" else "1"))
    assert database.asked == 2
