"""Authentication and scopes, for every route."""

from __future__ import annotations

from marketdata import token
from marketdata.api.app import ROUTES
from marketdata.store import tokens
from marketdata.store.pool import connect
from tests.marketdata.api.conftest import ADMIN_SECRET, Api

REALM = 'Bearer realm="marketdata"'
OF_BINANCE = -2015
"""The code of both refusals in Binance's dialect."""


def test_each_route_needs_a_token_of_its_scope(api: Api) -> None:
    guarded = [route for route in ROUTES if route.scope is not None]
    assert len(guarded) > 20
    for route in guarded:
        name = f"{route.method} {route.path}"
        path = route.path.replace("{id}", "1").replace("{name}", "n")
        without = api(route.method, path, authorization=None, status=401)
        assert without.headers["WWW-Authenticate"] == REALM, name
        assert without.json["code"] in ("unauthorized", OF_BINANCE), name
        shown = {"read": "write", "write": "read", "admin": "read", "any": "admin"}[route.scope]
        wrong = api(route.method, path, authorization=f"Bearer {api.tokens[shown]}", status=403)
        scope = "read write" if route.scope == "any" else route.scope
        assert wrong.headers["WWW-Authenticate"] == f'{REALM}, error="insufficient_scope", scope="{scope}"', name
        assert wrong.json["code"] in ("insufficient_scope", OF_BINANCE), name


def test_a_malformed_authorization_header_gets_400(api: Api) -> None:
    for header in (
        "", "Bearer", "Bearer ", "Basic dXNlcjpwYXNz", "Bearer a b", "Bearer a,b",
        "Bearer a, Bearer b",  # how a repeated header arrives
        "Bearer =a", "Bearer töken", "Token abc", "Bearer\tabc",
    ):  # fmt: skip
        response = api("GET", "/v1/admin/tokens", authorization=header, status=400)
        assert response.headers["WWW-Authenticate"] == f'{REALM}, error="invalid_request"', header
        assert response.json["code"] == "invalid_request", header
    assert api("GET", "/api/v3/ping", authorization="Basic abc", status=400).json["code"] == -2014


def test_the_scheme_is_case_insensitive(api: Api) -> None:
    for scheme in ("Bearer", "bearer", "BEARER", "Bearer   "):
        api("GET", "/v1/admin/tokens", authorization=f"{scheme} {ADMIN_SECRET}", status=200)


def test_a_refusal_of_an_admin_request_names_the_file_of_the_secret(api: Api) -> None:
    for bearer, status in ((None, 401), ("not-the-secret", 401), (token.generate(), 401), (api.tokens["read"], 403)):
        shown = bearer and f"Bearer {bearer}"
        detail = api("GET", "/v1/admin/tokens", authorization=shown, status=status).json["detail"]
        assert "the administrator's secret, from the file admin.json in the folder of the token files" in detail


def test_unusable_tokens_all_get_the_same_answer(api: Api, database: str) -> None:
    with connect(database) as connection:
        revoked, revoked_text = tokens.create(connection, "revoked", "write")
        tokens.revoke(connection, revoked.id)
        expired, expired_text = tokens.create(connection, "expired", "write")
        connection.execute("UPDATE api_tokens SET expires_at = now() WHERE id = %s::bigint", (expired.id,))
    wrong_checksum = api.tokens["write"][:-1] + ("0" if api.tokens["write"][-1] != "0" else "1")
    answers = set()
    for text in (token.generate(), revoked_text, expired_text, wrong_checksum, "abc", "md_", ADMIN_SECRET + "x"):
        response = api("POST", "/v1/ingest/tick", {}, authorization=f"Bearer {text}", status=401)
        headers = sorted((name, value) for name, value in response.headers.items() if name != "Date")
        answers.add((response.body, str(headers)))
        assert response.headers["WWW-Authenticate"] == f'{REALM}, error="invalid_token"'
    assert len(answers) == 1
