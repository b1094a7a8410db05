"""Authentication and scopes, for every route."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest

from marketdata import token
from marketdata.api.app import ROUTES
from marketdata.store import tokens
from marketdata.store.pool import connect
from tests.marketdata.api.conftest import ADMIN_SECRET, Api

GUARDED = [route for route in ROUTES if route.scope is not None]
REALM = 'Bearer realm="marketdata"'
OF_BINANCE = -2015
"""The code of both refusals in Binance's dialect."""


def path_of(path: str) -> str:
    return path.replace("{id}", "1").replace("{name}", "n")


def ids(route: object) -> str:
    return f"{route.method} {route.path}"  # type: ignore[attr-defined]


@pytest.mark.parametrize("route", GUARDED, ids=ids)
def test_a_request_without_credentials_gets_401(api: Api, route: object) -> None:
    method, path = route.method, path_of(route.path)  # type: ignore[attr-defined]
    response = api(method, path, authorization=None, status=401)
    assert response.headers["WWW-Authenticate"] == REALM
    assert response.json["code"] in ("unauthorized", OF_BINANCE)


@pytest.mark.parametrize("route", GUARDED, ids=ids)
def test_a_token_of_another_scope_gets_403(api: Api, route: object) -> None:
    wanted = route.scope  # type: ignore[attr-defined]
    shown = {"read": "write", "write": "read", "admin": "read", "any": "admin"}[wanted]
    named = "read write" if wanted == "any" else wanted
    method, path = route.method, path_of(route.path)  # type: ignore[attr-defined]
    response = api(method, path, authorization=f"Bearer {api.tokens[shown]}", status=403)
    assert response.headers["WWW-Authenticate"] == f'{REALM}, error="insufficient_scope", scope="{named}"'
    assert response.json["code"] in ("insufficient_scope", OF_BINANCE)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic dXNlcjpwYXNz",
        "Bearer a b",
        "Bearer a,b",
        "Bearer a, Bearer b",  # how a repeated header arrives
        "Bearer =a",
        "Bearer töken",
        "Token abc",
        "Bearer\tabc",
    ],
)
def test_a_malformed_authorization_header_gets_400(api: Api, header: str) -> None:
    response = api("GET", "/v1/admin/tokens", authorization=header, status=400)
    assert response.headers["WWW-Authenticate"] == f'{REALM}, error="invalid_request"'
    assert response.json["code"] == "invalid_request"


@pytest.mark.parametrize(
    ("header", "status"),
    [(None, 401), ("Bearer not-the-secret", 401), ("Bearer {unknown}", 401), ("Bearer {read}", 403)],
)
def test_a_refusal_of_an_admin_request_names_the_file_of_the_secret(api: Api, header: str | None, status: int) -> None:
    shown = header and header.format(**api.tokens, unknown=token.generate())
    detail = api("GET", "/v1/admin/tokens", authorization=shown, status=status).json["detail"]
    assert "the administrator's secret, from the file admin.json in the folder of the token files" in detail


def test_unusable_tokens_all_get_the_same_answer(api: Api, database: str) -> None:
    with connect(database) as connection:
        revoked, revoked_text = tokens.create(connection, "revoked", "write")
        tokens.revoke(connection, revoked.id)
        expired, expired_text = tokens.create(connection, "expired", "write")
        connection.execute(
            "UPDATE api_tokens SET expires_at = now() - interval '1 s' WHERE id = %s::bigint", (expired.id,)
        )
    wrong_checksum = api.tokens["write"][:-1] + ("0" if api.tokens["write"][-1] != "0" else "1")
    answers = set()
    for text in (token.generate(), revoked_text, expired_text, wrong_checksum, "abc", "md_", ADMIN_SECRET + "x"):
        response = api("POST", "/v1/ingest/tick", {}, authorization=f"Bearer {text}", status=401)
        headers = sorted((name, value) for name, value in response.headers.items() if name != "Date")
        answers.add((response.body, str(headers)))
        assert response.headers["WWW-Authenticate"] == f'{REALM}, error="invalid_token"'
    assert len(answers) == 1


def test_unknown_and_known_unusable_tokens_are_looked_up_alike(
    api: Api, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query and the answer are the same each time, so nothing reveals which tokens ever existed."""
    with connect(database) as connection:
        revoked, revoked_text = tokens.create(connection, "revoked", "read")
        tokens.revoke(connection, revoked.id)
        expired, expired_text = tokens.create(connection, "expired", "read")
        connection.execute("UPDATE api_tokens SET expires_at = now() WHERE id = %s::bigint", (expired.id,))
    asked: list[str] = []
    execute, here = psycopg.Cursor.execute, threading.get_ident()

    def noted(cursor: psycopg.Cursor[Any], query: Any, *more: Any, **options: Any) -> psycopg.Cursor[Any]:
        if threading.get_ident() == here:  # other threads of the service query for other reasons
            asked.append(str(query))
        return execute(cursor, query, *more, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", noted)
    ways = []
    for text in (token.generate(), revoked_text, expired_text, token.generate()) * 2:  # twice: none is cached
        asked.clear()
        response = api("GET", "/v1/symbols", authorization=f"Bearer {text}", status=401)
        ways.append((tuple(asked), response.body, response.headers["WWW-Authenticate"]))
    assert len(set(ways)) == 1
    assert len(ways[0][0]) == 1
    assert "token_sha256 = %s" in ways[0][0][0]


def test_a_wrong_checksum_is_refused_before_the_database(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    authenticator = api.service.services.authenticator
    monkeypatch.setattr(authenticator, "_find", asked.append)
    good = token.generate()
    bad = good[:-1] + ("0" if good[-1] != "0" else "1")
    api("POST", "/v1/ingest/tick", {}, authorization=f"Bearer {bad}", status=401)
    assert asked == []
    api("POST", "/v1/ingest/tick", {}, authorization=f"Bearer {good}", status=401)
    assert asked == [token.digest(good)]


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer   "])
def test_the_scheme_is_case_insensitive(api: Api, scheme: str) -> None:
    api("GET", "/v1/admin/tokens", authorization=f"{scheme} {ADMIN_SECRET}", status=200)
