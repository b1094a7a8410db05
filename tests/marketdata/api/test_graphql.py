"""What ``/ready`` and ``/metrics`` report of the GraphQL engine. The engine is a stand-in for Hasura."""

from __future__ import annotations

import dataclasses
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from marketdata.api import graphql_check
from marketdata.api.serve import Service
from marketdata.graphql import engine
from marketdata.graphql.tracking import track
from marketdata.settings import Settings
from marketdata.store.pool import connect
from marketdata.store.version import Version, find_served
from tests.marketdata.api.conftest import Api, eventually
from tests.marketdata.graphql.stand_in_hasura import StandIn, serving

SECRET = "the admin secret"
READY_SECONDS = 2.0

Credential = Callable[..., Path]


@pytest.fixture(autouse=True)
def frequent_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphql_check, "PERIOD_SECONDS", 0.1)


@pytest.fixture(scope="module")
def hasura(database: str) -> Iterator[StandIn]:
    with serving(database, SECRET) as stand_in:
        yield stand_in


@pytest.fixture
def settings(service_settings: Settings, tmp_path: Path) -> Settings:
    """Over the module's database, with secrets of the test's own."""
    return dataclasses.replace(service_settings, secrets_dir=tmp_path)


@pytest.fixture
def credential(settings: Settings) -> Credential:
    """Writes graphql-admin.json."""

    def write(**content: Any) -> Path:
        path = settings.secrets_dir / "graphql-admin.json"
        path.write_text(json.dumps(content))
        path.chmod(0o600)
        return path

    return write


@pytest.fixture
def api(settings: Settings) -> Iterator[Callable[[], Api]]:
    """Starts the API, once."""
    running = Service(settings)

    def start() -> Api:
        running.start()
        return Api(running, "", "")

    yield start
    running.stop()


def tracking(api: Api) -> Any:
    """The member of ``/ready``, which is 200 in time, whatever the engine does."""
    began = time.monotonic()
    found = api.get("/ready")
    assert time.monotonic() - began < READY_SECONDS
    assert found["ready"] is True
    if found["graphql"] is not None:
        assert found["graphql"].pop("checked_s_ago") < 60
    return found["graphql"]


def metric(api: Api) -> str | None:
    text = api("GET", "/metrics", status=200).text
    found = re.search(r"^marketdata_graphql_tracked (.*)$", text, re.MULTILINE)
    return found and found[1]


def eventually_because(api: Api, reason: str) -> None:
    """Wait until the version counts as not tracked, for a reason that matches the pattern."""
    eventually(lambda: re.search(reason, str(tracking(api)["reason"])) is not None)
    assert tracking(api)["tracked"] is False
    assert metric(api) == "0"


def eventually_failed(api: Api, caplog: pytest.LogCaptureFixture, reason: str) -> None:
    """Wait until the check has failed for a reason that matches the pattern; only the log has it."""
    eventually(lambda: any(re.search(f"^GraphQL: {reason}", each) for each in caplog.messages))
    eventually_because(api, f"^{graphql_check.FAILED}$")


TRACKED = {"tracked": True, "reason": None}


def test_the_version_is_tracked_after_the_command_did_so(
    hasura: StandIn, settings: Settings, credential: Credential, api: Callable[[], Api]
) -> None:
    credential(url=hasura.url, admin_secret=SECRET)
    served = api()
    names = r"table public\.md_ticks_v1 and function public\.md_candles_v1"
    eventually_because(served, f"^the engine does not track {names}: run bin/marketdata-graphql$")
    loaded = engine.load(settings.secrets_dir, warn=lambda _text: None)
    with connect(settings.database_url or "") as connection:
        track(connection, find_served(connection, settings), loaded, lambda _text: None)
    eventually(lambda: tracking(served) == TRACKED)
    assert metric(served) == "1"
    hasura.metadata.functions.clear()
    eventually_because(served, r"does not track function public\.md_candles_v1: run")


def test_without_a_credential_nothing_is_reported(api: Callable[[], Api]) -> None:
    served = api()
    assert tracking(served) is None
    assert metric(served) is None


def test_a_credential_may_come_change_and_go(
    hasura: StandIn, credential: Credential, api: Callable[[], Api], caplog: pytest.LogCaptureFixture
) -> None:
    served = api()
    assert tracking(served) is None
    path = credential(url=hasura.url, admin_secret="another secret")
    eventually(lambda: tracking(served) is not None)
    eventually_failed(served, caplog, f"{hasura.url} refuses the admin secret: .*; correct admin_secret in {path}$")
    assert "another secret" not in caplog.text
    credential(url=hasura.url)
    eventually_failed(served, caplog, f"{path}: admin_secret must be a text that is not empty")
    path.write_text('{"url": }')
    eventually_failed(served, caplog, f".*{path} is not JSON: line 1, column 9")
    path.chmod(0o622)
    eventually_failed(served, caplog, f".*{path} is writable by group or others")
    path.unlink()
    eventually(lambda: tracking(served) is None)
    assert metric(served) is None
    warnings = [each for each in caplog.messages if each.startswith("GraphQL: ")]
    assert len(warnings) == 4, "one for each reason, not for each check"


def test_a_warning_about_the_file_is_logged_once(
    hasura: StandIn, credential: Credential, api: Callable[[], Api], caplog: pytest.LogCaptureFixture
) -> None:
    credential(url=hasura.url, admin_secret=SECRET).chmod(0o644)
    asked = len(hasura.requests)
    api()
    eventually(lambda: len(hasura.requests) > asked + 2)
    assert sum("readable by group or others" in each for each in caplog.messages) == 1


def test_an_engine_that_is_not_there_is_named(
    credential: Credential, api: Callable[[], Api], caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as bound:  # and not listening: connections are refused
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        path = credential(url=url, admin_secret=SECRET)
        reason = rf"{url} does not answer: .*Connection refused; start Hasura, or correct url in {path}$"
        eventually_failed(api(), caplog, reason)


def test_an_engine_that_never_answers_delays_nothing(
    hasura: StandIn, credential: Credential, api: Callable[[], Api], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:  # the kernel accepts the connection, and nobody reads
        credential(url=f"http://127.0.0.1:{listening.getsockname()[1]}", admin_secret=SECRET)
        served = api()
        assert tracking(served) == {"tracked": False, "reason": "the first check is still running"}
        assert metric(served) == "0"
        monkeypatch.setattr(graphql_check, "STALL_SECONDS", 0.0)
        eventually_because(served, "^the check has been waiting for ")
        began = time.monotonic()
        served.service.stop()
        assert time.monotonic() - began < READY_SECONDS, "the check ends although nothing was answered"


def test_an_engine_that_stops_answering_is_reported(
    credential: Credential,
    api: Callable[[], Api],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(graphql_check, "ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        credential(url=f"http://127.0.0.1:{listening.getsockname()[1]}", admin_secret=SECRET)
        eventually_failed(api(), caplog, r".*does not answer: no answer within 0\.2 s")


def test_a_result_belongs_to_its_version(hasura: StandIn, credential: Credential, api: Callable[[], Api]) -> None:
    """After a cutover, the result of the former version stays until the next check."""
    credential(url=hasura.url, admin_secret=SECRET)
    served = api()
    eventually_because(served, "does not track")
    found = served.service.services.graphql.tracking(Version.of("md", 2))
    assert found is not None
    assert found.reason == "another version is served since the last check"
