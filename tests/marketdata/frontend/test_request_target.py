"""A request target has one possible reading, or it is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marketdata.errors import NotFound
from marketdata.frontend.request_target import for_api, is_for_api, parsed
from marketdata.http.failures import BadRequest

SENT = {
    "/api/v1/chart?symbol=DEMO:A&interval=1m": "/v1/chart?symbol=DEMO:A&interval=1m",
    "/api/v1/chart?symbol=%2e%2e%2F%41": "/v1/chart?symbol=%2e%2e%2F%41",
    "/api/%761/chart": "/v1/chart",
    "/api/v1/lease/a%20b%C3%A4": "/v1/lease/a%20b%C3%A4",
    "/api/api/v3/ping": "/api/v3/ping",
    "/api/": "/",
    "/api": "/",
    "/api/v1/chart/..a": "/v1/chart/..a",
    "/api/v1/ticks?cursor=a//b": "/v1/ticks?cursor=a//b",
    "/api/openapi.json?": "/openapi.json",
}


def test_the_api_gets_the_normal_form_of_a_path() -> None:
    assert {raw: for_api(parsed(raw)) for raw in SENT if is_for_api(parsed(raw))} == SENT
    assert not [
        path for path in ("/", "/static/a.js", "/apiv1", "/API/v1/chart", "/x/api/v1") if is_for_api(parsed(path))
    ]


TRICKS = (
    "/api/../metrics", "/api/v1/../../metrics", "/api/v1/%2e%2e/admin", "/api/v1/%2E./admin", "/api/v1/..;x/admin",
    "/api/./metrics", "/api/v1/%2e/chart", "/api//metrics", "//api/metrics", "//evil.example/api", "/api/v1//chart",
    "http://127.0.0.1/api/metrics", "https://evil.example/api/v1/chart", "api/v1/chart", "*", "",
    "/api%2fmetrics", "/api/v1%2Fadmin/tokens", "/api/v1%5cadmin", "/api\\v1\\admin", "/api/v1/admin%00",
    "/api/%0d%0aX:y", "/api/%", "/api/%zz", "/api/%c0%ae", "/api/%25%32%65", "/api/v1/%252e%252e/admin",
    "/api/v1/chart#x", "/api/v1/\x7f", "/api/v1/ä", "/api/v1/chart\t", "/static/../app.py", "/static/%2e%2e/app.py",
    "/api/%3fx", "/api/%23x", "/api/%C2%85", "/api/.. ;/metrics",
)  # fmt: skip


def test_an_ambiguous_target_is_refused() -> None:
    for raw in TRICKS:
        with pytest.raises(BadRequest):
            pytest.fail(f"{raw}: {parsed(raw)}")


HIDDEN = (
    "/api/metrics", "/api/metrics/", "/api/Metrics", "/api/%6detrics", "/api/metrics?x", "/api/metrics;x",
    "/api/v1/admin", "/api/v1/admin/tokens", "/api/v1/ADMIN/tokens/1", "/api/v1/%61dmin/tokens",
    "/api/v1/admin;a=b/tokens", "/api/admin", "/api/v1/admin%20/tokens",
)  # fmt: skip


def test_admin_and_metrics_are_hidden() -> None:
    for raw in HIDDEN:
        with pytest.raises(NotFound):
            pytest.fail(f"{raw}: {for_api(parsed(raw))}")


@given(st.text(st.sampled_from("/.%2eEfF5cC;\\?ametricsdn v1"), max_size=40))
def test_no_path_leads_outside_the_api(text: str) -> None:
    try:
        path = for_api(parsed(f"/api/{text}")).partition("?")[0]
    except (BadRequest, NotFound):
        return
    segments = path.split("/")[1:]
    assert not {".", "..", "metrics", "admin"} & {segment.lower() for segment in segments}
    assert "" not in segments[:-1]
    assert parsed(path).path == parsed(f"/api/{text}").path.removeprefix("/api")
