"""The page, its files, and the other paths that the frontend serves itself."""

from __future__ import annotations

import gzip
import os
from itertools import product
from pathlib import Path

import pytest

from marketdata.errors import NotFound
from marketdata.frontend.app import SECURITY_HEADERS
from marketdata.frontend.pages import FOLDER, Pages
from tests.marketdata.frontend.conftest import LOGIN, Frontend
from tests.marketdata.frontend.scripted_api import ScriptedApi, answered

CSP = ("script-src 'self'", "style-src 'self' 'unsafe-inline'", "img-src 'self' data: blob:", "connect-src 'self'")


def test_the_page_needs_the_login_and_is_revalidated(frontend: Frontend) -> None:
    assert frontend.ask("GET", "/").status == 401
    page = frontend.get("/")
    assert (page.status, page.body) == (200, (FOLDER / "index.html").read_bytes())
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert page.headers["Cache-Control"] == "private, no-cache"
    again = frontend.get("/", If_None_Match=page.headers["ETag"])
    assert (again.status, again.body, again.headers["ETag"]) == (304, b"", page.headers["ETag"])
    assert frontend.ask("GET", "/", If_None_Match=page.headers["ETag"]).status == 401
    assert frontend.get("/", If_None_Match='"another"').status == 200
    head = frontend.ask("HEAD", "/", **LOGIN)
    assert (head.status, head.body, head.headers["Content-Length"]) == (200, b"", str(len(page.body)))


def test_a_changed_file_is_served_at_once(tmp_path: Path) -> None:
    pages = Pages(tmp_path)
    (tmp_path / "vendor").mkdir()
    file = tmp_path / "vendor" / "chart.min.js"
    file.write_text("one")
    first = pages.reply("/static/vendor/chart.min.js")
    assert (first.body, first.media_type) == (b"one", "text/javascript; charset=utf-8")
    file.write_text("another")
    os.utime(file, ns=(1, 1))
    second = pages.reply("/static/vendor/chart.min.js")
    assert second.body == b"another"
    assert second.headers != first.headers


def test_text_is_compressed_for_those_who_accept_it(frontend: Frontend) -> None:
    """Each variant has its own tag, so a cache never confuses them."""
    for path, file in (("/", "index.html"), ("/static/page.js", "page.js")):
        content = (FOLDER / file).read_bytes()
        plain, small = frontend.get(path), frontend.get(path, Accept_Encoding="br, gzip;q=0.5")
        assert (plain.body, plain.headers["Content-Encoding"]) == (content, None)
        assert small.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(small.body) == content
        assert int(small.headers["Content-Length"]) == len(small.body) < len(content) / 2
        assert plain.headers["Vary"] == small.headers["Vary"] == "Accept-Encoding"
        assert plain.headers["ETag"] != small.headers["ETag"]
        again = frontend.get(path, Accept_Encoding="gzip", If_None_Match=small.headers["ETag"])
        assert (again.status, again.body, again.headers["ETag"]) == (304, b"", small.headers["ETag"])
        assert again.headers["Vary"] == "Accept-Encoding"
        assert frontend.get(path, If_None_Match=small.headers["ETag"]).body == content
        head = frontend.ask("HEAD", path, **LOGIN, Accept_Encoding="gzip")
        assert (head.body, head.headers["Content-Length"]) == (b"", str(len(small.body)))


SMALL = ("gzip", "GZIP", "*", "deflate, gzip ; q=0.001", "*;q=0, gzip")
WHOLE = ("", "identity", "gzip;q=0", "gzip;q=0.000, *", "br", "*;q=0", "xgzip")


def test_the_weights_of_codings_are_read(tmp_path: Path) -> None:
    (tmp_path / "page.css").write_text("body { margin: 0; }\n" * 100)
    (tmp_path / "dot.png").write_bytes(b"\0" * 1000)
    pages = Pages(tmp_path)
    for accept in SMALL + WHOLE:
        is_small = ("Content-Encoding", "gzip") in pages.reply("/static/page.css", accept).headers
        assert is_small == (accept in SMALL), accept
        picture = pages.reply("/static/dot.png", accept)
        assert (picture.body, len(picture.headers)) == (b"\0" * 1000, 1)


def test_other_names_and_types_are_not_found(tmp_path: Path) -> None:
    folder = tmp_path / "static"
    for each in ("a", "sub/.git"):
        (folder / each).mkdir(parents=True)
    for each in (".hidden.js", "sub/.git/x.js", "../x.js", "x.py", "a/x.js", "x"):
        (folder / each).write_text("secret")
    for name in (
        "", "a/", ".hidden.js", "sub/.git/x.js", "../x.js", "x.py", "none.js", "a//x.js", "x", "x" * 300 + ".js",
        "a/" * 3000 + "x.js",
    ):  # fmt: skip
        with pytest.raises(NotFound):
            pytest.fail(f"{name}: {Pages(folder).reply(f'/static/{name}')}")


def test_every_answer_has_the_security_headers(frontend: Frontend) -> None:
    paths = ("/", "/healthz", "/whoami", "/logout", "/api/v1/chart", "/api/metrics", "/static/none.js", "/nothing")
    for authorization, path in product(({}, LOGIN), paths):
        answer = frontend.ask("GET", path, **authorization)
        for name, value in SECURITY_HEADERS:
            assert answer.headers.get_all(name) == [value], path
        assert all(rule in answer.headers["Content-Security-Policy"] for rule in CSP)


def test_health_needs_no_login(frontend: Frontend) -> None:
    answer = frontend.ask("GET", "/healthz")
    assert (answer.status, answer.json) == (200, {"status": "ok"})


def test_the_type_of_a_problem_is_the_address_of_its_explanation(frontend: Frontend) -> None:
    """The page needs no login, because an error may be about the login."""
    for headers in ({}, LOGIN):
        problem = frontend.ask("GET", "/nothing", **headers).json
        path, _, code = problem["type"].partition("#")
        assert code == problem["code"]
        page = frontend.ask("GET", path)
        assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert f'id="{code}"'.encode() in page.body
        assert page.headers.get_all("Content-Security-Policy") == [SECURITY_HEADERS[0][1]]


def test_whoami_names_the_user(frontend: Frontend) -> None:
    answer = frontend.get("/whoami")
    assert (answer.status, answer.json) == (200, {"user": "alice", "auth": "basic"})
    assert answer.headers["Cache-Control"] == "no-store"


def test_logout_refuses_every_password_without_a_prompt(frontend: Frontend) -> None:
    answer = frontend.get("/logout")
    assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, 'X-Basic realm="marketdata"')
    assert b"logged out" in answer.body
    assert frontend.get("/whoami").status == 200  # the server keeps no session; only the browser forgets the password


def test_a_browsers_navigation_gets_errors_as_pages(frontend: Frontend) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for answer, status, said in (
        (frontend.ask("GET", "/", **browser), 401, b"Log in to see this page."),
        (frontend.get("/nosuch", **browser), 404, b"There is nothing at this path."),
    ):
        assert (answer.status, answer.headers["Content-Type"]) == (status, "text/html; charset=utf-8")
        assert said in answer.body
        assert b"$" not in answer.body
    assert frontend.ask("GET", "/", **browser).headers["WWW-Authenticate"].startswith("Basic ")
    assert frontend.ask("GET", "/api/v1/symbols", **browser).headers["Content-Type"] == "application/problem+json"
    assert frontend.get("/nosuch").headers["Content-Type"] == "application/problem+json"


def test_the_frontends_own_paths_refuse_other_methods(frontend: Frontend) -> None:
    for path in ("/", "/healthz", "/whoami", "/logout"):
        answer = frontend.ask("POST", path, **LOGIN)
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


def test_the_apis_page_of_its_documentation_needs_no_login(frontend: Frontend, upstream: ScriptedApi) -> None:
    page = b"<!DOCTYPE html><title>x</title>"
    upstream.script = lambda _request, _connection: answered("200 OK", f"Content-Length: {len(page)}", body=page)
    answer = frontend.ask("GET", "/docs?x=1")
    assert (answer.status, answer.body) == (200, page)
    assert [answer.headers.get_all(name) for name, _ in SECURITY_HEADERS] == [[value] for _, value in SECURITY_HEADERS]
    for path in ("/docs/", "/docs/x", "/api/docs", "/docsx", "/Docs"):
        assert frontend.ask("GET", path).status == 401, path
    assert frontend.ask("GET", "/docs", Origin="https://evil.example", Upgrade="websocket").status == 403
    assert frontend.ask("DELETE", "/docs").status == 405
    assert [each.line for each in upstream.received] == ["GET /docs HTTP/1.1"]
