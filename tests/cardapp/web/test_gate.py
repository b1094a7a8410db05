"""The gate: which requests pass and which are refused, by transport, headers and method."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from cardapp.errors import CardAppError, TooLarge, WrongHost
from cardapp.web import gate as gate_module
from cardapp.web.failures import ForeignUser, TooManyBodies
from cardapp.web.gate import (
    ADDRESS,
    CHUNKED,
    JSON_LIMIT,
    SECURITY_HEADERS,
    UNCOUNTED_BYTES,
    Arrival,
    BodyBudget,
    Intake,
    Tcp,
    Transport,
    Unix,
    head_of,
)

TCP = Tcp("127.0.0.1", 8080)
UNIX = Unix("http://127.0.0.1:8080")
UPLOAD = "/upload"


class Behind:
    """The application behind the gate: counts the requests that pass and keeps the last environment."""

    def __init__(self) -> None:
        self.through = 0
        self.environ: dict[str, Any] = {}

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        self.through += 1
        self.environ = environ
        start_response("200 OK", [("Content-Type", "application/json"), ("Referrer-Policy", "origin")])
        return [b"{}"]


class Gate:
    def __init__(self) -> None:
        self.behind = Behind()

    def __call__(self, transport: Transport = TCP, **environ: Any) -> tuple[int, dict[str, Any], dict[str, str]]:
        """Send a request. Returns status, problem (or {}) and headers. ``environ`` has WSGI's keys; None omits a
        key."""
        intakes = {UPLOAD: Intake(("image/png",), 100_000)}
        defaults = {"REQUEST_METHOD": "GET", "PATH_INFO": "/api/state", "HTTP_HOST": "127.0.0.1:8080"}
        whole = {name: value for name, value in (defaults | environ).items() if value is not None}
        seen: dict[str, Any] = {}

        def start_response(status: str, headers: list[tuple[str, str]]) -> None:
            seen.update(status=int(status.split()[0]), headers=dict(headers))

        body = b"".join(gate_module.Gate(transport, intakes).guard(self.behind)(whole, start_response))
        return seen["status"], json.loads(body) if body else {}, seen["headers"]


@pytest.fixture
def gate() -> Gate:
    return Gate()


def refused(gate: Gate, status: int, code: str, transport: Transport = TCP, **environ: Any) -> None:
    found, problem, headers = gate(transport, **environ)
    assert (found, problem.get("code")) == (status, code)
    assert gate.behind.through == 0
    assert headers["Content-Type"] == "application/problem+json"


def passed(gate: Gate, transport: Transport = TCP, **environ: Any) -> None:
    before = gate.behind.through
    assert gate(transport, **environ)[0] == 200
    assert gate.behind.through == before + 1


def test_our_own_hosts_pass(gate: Gate) -> None:
    for host in ("127.0.0.1:8080", "localhost:8080", "LOCALHOST:8080", "[::1]:8080"):
        passed(gate, HTTP_HOST=host, HTTP_ORIGIN=f"http://{host}")
    passed(gate, Tcp("127.0.0.2", 8080), HTTP_HOST="127.0.0.2:8080")
    passed(gate, Tcp("::1", 8080), HTTP_HOST="[::1]:8080")


def test_any_other_host_is_refused(gate: Gate) -> None:
    for host in (
        None, "", "127.0.0.1", "localhost", "127.0.0.1:8081", "evil.example", "evil.example:8080", "localhost.:8080",
        "localhost.evil.example:8080", "127.0.0.1:8080, evil.example", "127.0.0.1:8080@evil.example", "0.0.0.0:8080",
        "127.1:8080", "127.0.0.2:8080",
    ):  # fmt: skip
        refused(gate, 421, "wrong_host", HTTP_HOST=host)


def test_a_port_of_80_may_be_left_out(gate: Gate) -> None:
    for host in ("localhost", "localhost:80"):
        passed(gate, Tcp("127.0.0.1", 80), HTTP_HOST=host, HTTP_ORIGIN=f"http://{host}")
    refused(Gate(), 421, "wrong_host", Tcp("127.0.0.1", 80), HTTP_HOST="localhost:8080")


def test_the_request_line_names_no_other_host(gate: Gate) -> None:
    for target in ("http://evil.example/api/state", "https://evil.example:8080/", "evil.example:443", "http://[/", "x"):
        refused(gate, 421, "wrong_host", REQUEST_URI=target)
    for target in ("http://localhost:8080/api/state", "/api/state?x=http://evil.example", "*"):
        passed(gate, REQUEST_URI=target)


def test_a_foreign_origin_is_refused_for_any_method(gate: Gate) -> None:
    for origin in (
        "null", "", "http://evil.example", "https://127.0.0.1:8080", "http://127.0.0.1", "http://127.0.0.1:8081",
        "http://127.0.0.1:8080.evil.example", "http://127.0.0.1:8080/", "file://",
    ):  # fmt: skip
        for method in ("GET", "POST"):
            refused(gate, 403, "forbidden_origin", REQUEST_METHOD=method, HTTP_ORIGIN=origin)


def test_only_our_own_page_may_change(gate: Gate) -> None:
    for site in ("cross-site", "same-site", "Cross-Site"):
        for method in ("POST", "PUT", "DELETE", "PATCH", "X-OWN"):
            refused(Gate(), 403, "forbidden_origin", REQUEST_METHOD=method, HTTP_SEC_FETCH_SITE=site)
        for method in ("GET", "HEAD"):
            assert gate(REQUEST_METHOD=method, HTTP_SEC_FETCH_SITE=site)[0] == 200
    for site in ("same-origin", "none"):
        passed(gate, REQUEST_METHOD="POST", HTTP_SEC_FETCH_SITE=site, HTTP_ORIGIN="http://127.0.0.1:8080")


def test_an_upgrade_over_tcp_must_say_its_origin(gate: Gate) -> None:
    upgrade = {"HTTP_UPGRADE": "websocket", "HTTP_CONNECTION": "Upgrade", "PATH_INFO": "/api/editor-ui"}
    refused(gate, 403, "forbidden_origin", **upgrade)
    refused(gate, 403, "forbidden_origin", **upgrade, HTTP_ORIGIN="http://evil.example")
    refused(gate, 421, "wrong_host", **upgrade, HTTP_ORIGIN="http://evil.example:8080", HTTP_HOST="evil.example:8080")
    passed(gate, **upgrade, HTTP_ORIGIN="http://127.0.0.1:8080")
    passed(gate, UNIX, **upgrade)


def test_forwarding_headers_change_nothing(gate: Gate) -> None:
    forwarded = {
        "HTTP_X_FORWARDED_HOST": "127.0.0.1:8080",
        "HTTP_X_FORWARDED_FOR": "127.0.0.1",
        "HTTP_FORWARDED": "host=127.0.0.1:8080",
        "HTTP_X_HTTP_METHOD_OVERRIDE": "GET",
    }
    refused(gate, 421, "wrong_host", HTTP_HOST="evil.example", **forwarded)
    crossing = {"REQUEST_METHOD": "POST", "HTTP_SEC_FETCH_SITE": "cross-site"}
    refused(gate, 403, "forbidden_origin", **crossing, **forwarded)


def test_the_unix_socket_skips_host_and_origin_only(gate: Gate) -> None:
    passed(gate, UNIX, HTTP_HOST=None)
    passed(gate, UNIX, HTTP_HOST="anything", HTTP_ORIGIN="null")
    gate = Gate()
    posted = {"REQUEST_METHOD": "POST", "CONTENT_TYPE": "text/plain", "CONTENT_LENGTH": "2"}
    refused(gate, 415, "unsupported_media_type", UNIX, **posted)
    large = {"REQUEST_METHOD": "POST", "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(JSON_LIMIT + 1)}
    refused(gate, 413, "too_large", UNIX, **large)


def test_json_routes_take_json_only(gate: Gate) -> None:
    for media_type in (
        "text/plain", "text/plain;application/json", "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x", "application/json5", "application/problem+json", "image/png",
        "application/json; charset=latin-1", "application/json;charset=utf-16", None, "",
    ):  # fmt: skip
        for method in ("POST", "PUT", "PATCH"):
            posted = {"REQUEST_METHOD": method, "CONTENT_TYPE": media_type, "CONTENT_LENGTH": "1"}
            refused(gate, 415, "unsupported_media_type", **posted)
    for media_type in (
        "application/json", "Application/JSON; charset=UTF-8", 'application/json;charset="utf-8"',
        "application/json; charset=utf8", "application/json; version=1",
    ):  # fmt: skip
        passed(gate, REQUEST_METHOD="POST", CONTENT_TYPE=media_type, CONTENT_LENGTH="2")


def test_without_a_body_a_missing_type_passes_and_a_wrong_one_is_refused(gate: Gate) -> None:
    passed(gate, REQUEST_METHOD="POST")
    passed(gate, REQUEST_METHOD="POST", CONTENT_LENGTH="")
    refused(Gate(), 415, "unsupported_media_type", REQUEST_METHOD="POST", CONTENT_TYPE="text/plain")


def test_an_encoded_body_is_refused(gate: Gate) -> None:
    posted = {"REQUEST_METHOD": "POST", "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": "2"}
    refused(gate, 415, "unsupported_media_type", **posted, HTTP_CONTENT_ENCODING="gzip")
    passed(gate, **posted, HTTP_CONTENT_ENCODING="identity")


def test_sizes_are_bounded_per_path(gate: Gate) -> None:
    def sent(path: str, media_type: str, length: int) -> dict[str, Any]:
        return {"REQUEST_METHOD": "POST", "PATH_INFO": path, "CONTENT_TYPE": media_type, "CONTENT_LENGTH": str(length)}

    passed(gate, **sent("/api/events", "application/json", JSON_LIMIT))
    passed(gate, **sent(UPLOAD, "image/png", 100_000))
    gate = Gate()
    refused(gate, 413, "too_large", **sent("/api/events", "application/json", JSON_LIMIT + 1))
    refused(gate, 413, "too_large", **sent(UPLOAD, "image/png", 100_001))
    refused(gate, 415, "unsupported_media_type", **sent(UPLOAD, "application/json", 2))
    refused(gate, 413, "too_large", **{**sent("/api/state", "", JSON_LIMIT + 1), "REQUEST_METHOD": "GET"})


def test_a_length_that_is_no_number_is_refused(gate: Gate) -> None:
    for length in ("-1", "+1", "1.0", "0x1", "²"):
        refused(gate, 400, "bad_request", REQUEST_METHOD="POST", CONTENT_LENGTH=length)


def test_every_answer_carries_the_security_headers(gate: Gate) -> None:
    refusal = gate(HTTP_HOST="evil.example")[2]
    assert {name: refusal[name] for name, _ in SECURITY_HEADERS} == dict(SECURITY_HEADERS)
    through = gate()[2]
    assert through["Referrer-Policy"] == "origin", "a header that the application sets is kept"
    for headers in (refusal, through):
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert not [name for name in headers if name.lower().startswith("access-control-")]
    status, problem, _ = gate(REQUEST_METHOD="HEAD", HTTP_HOST="evil.example")
    assert (status, problem) == (421, {}), "a refused HEAD has no body"


def test_the_address_is_the_one_the_client_may_use(gate: Gate) -> None:
    gate(HTTP_HOST="localhost:8080")
    assert gate.behind.environ[ADDRESS] == "http://localhost:8080"
    gate(UNIX, HTTP_HOST="evil.example")
    assert gate.behind.environ[ADDRESS] == "http://127.0.0.1:8080"
    assert Tcp("::1", 8080).address == "http://[::1]:8080"


def test_a_body_in_chunks_needs_a_type_before_its_length_is_known(gate: Gate) -> None:
    chunked = {"REQUEST_METHOD": "POST", CHUNKED: "chunked"}
    refused(gate, 415, "unsupported_media_type", **chunked)
    refused(gate, 415, "unsupported_media_type", **chunked, CONTENT_TYPE="text/plain")
    passed(gate, **chunked, CONTENT_TYPE="application/json")


def test_a_head_equals_the_wsgi_environment() -> None:
    headers = {"HOST": "a", "CONTENT_TYPE": "b", "CONTENT_LENGTH": "1", "CONTENT_ENCODING": "gzip"}
    head = head_of(headers, "PUT", "//x/y", "//x/y?q", is_chunked=False)
    assert head == {
        "HTTP_HOST": "a",
        "CONTENT_TYPE": "b",
        "CONTENT_LENGTH": "1",
        "HTTP_CONTENT_ENCODING": "gzip",
        "REQUEST_METHOD": "PUT",
        "PATH_INFO": "/x/y",
        "REQUEST_URI": "//x/y?q",
    }
    assert head_of({}, "GET", "/", "/", is_chunked=True)[CHUNKED]


# -- bodies that are arriving ------------------------------------------------------------------------------------------

LARGE = 100_000
OWN = {"HTTP_HOST": "localhost:1", "REQUEST_METHOD": "POST", "PATH_INFO": "/", "CONTENT_TYPE": "image/png"}


def arrival(bodies: BodyBudget, foreign: Any = None) -> Arrival:
    return Arrival(gate_module.Gate(Tcp("127.0.0.1", 1), {"/": Intake(("image/png",), LARGE)}), bodies, foreign)


def accepted(bodies: BodyBudget) -> Arrival:
    found = arrival(bodies)
    assert found.check_head(OWN, has_body=True) is None
    return found


def kind(make: Any) -> type[CardAppError]:
    return type(make())


def test_a_body_larger_than_the_limit_of_its_path_is_refused() -> None:
    found = accepted(BodyBudget(10 * LARGE))
    assert found.count_body(LARGE) is None
    assert kind(found.count_body(LARGE + 1)) is TooLarge


def test_all_bodies_share_one_budget() -> None:
    bodies = BodyBudget(2 * LARGE)
    first, second, third = (accepted(bodies) for _ in range(3))
    for size in (UNCOUNTED_BYTES + 1, LARGE // 2, LARGE):
        assert first.count_body(size) is None
        assert second.count_body(size) is None
    assert third.count_body(UNCOUNTED_BYTES) is None, "small bodies do not count"
    assert kind(third.count_body(UNCOUNTED_BYTES + 1)) is TooManyBodies
    first.close()
    first.close()
    assert third.count_body(LARGE) is None
    assert kind(accepted(bodies).count_body(UNCOUNTED_BYTES + 1)) is TooManyBodies


def test_before_the_body_only_requests_with_a_body_are_checked() -> None:
    found = arrival(BodyBudget(LARGE))
    foreign = {**OWN, "HTTP_HOST": "evil.example"}
    assert kind(found.check_head(foreign, has_body=True)) is WrongHost
    assert found.check_head(foreign, has_body=False) is None


def test_a_foreign_account_is_refused_first() -> None:
    found = arrival(BodyBudget(LARGE), lambda: ForeignUser("why"))
    for has_body in (True, False):
        assert kind(found.check_head({**OWN, "HTTP_HOST": "evil.example"}, has_body=has_body)) is ForeignUser
