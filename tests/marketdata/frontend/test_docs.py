"""``/docs`` at the frontend is the page of the API behind it."""

from __future__ import annotations

from marketdata.frontend.app import SECURITY_HEADERS
from tests.marketdata.frontend.conftest import Frontend
from tests.marketdata.frontend.scripted_api import ScriptedApi, answered

PAGE = b"<!DOCTYPE html><title>x</title>"


def test_the_page_of_the_api_needs_no_login(frontend: Frontend, upstream: ScriptedApi) -> None:
    upstream.script = lambda _request, _connection: answered(
        "200 OK", "Content-Type: text/html; charset=utf-8", f"Content-Length: {len(PAGE)}", body=PAGE
    )
    answer = frontend.ask("GET", "/docs?x=1")
    assert (answer.status, answer.body) == (200, PAGE)
    assert [each.line for each in upstream.received] == ["GET /docs HTTP/1.1"]
    for name, value in SECURITY_HEADERS:
        assert answer.headers.get_all(name) == [value]


def test_only_the_page_itself_needs_no_login(frontend: Frontend, upstream: ScriptedApi) -> None:
    for path in ("/docs/", "/docs/x", "/api/docs", "/docsx", "/Docs"):
        assert frontend.ask("GET", path).status == 401
    assert frontend.ask("GET", "/docs", Origin="https://evil.example", Upgrade="websocket").status == 403
    assert frontend.ask("DELETE", "/docs").status == 405
    assert upstream.received == []
