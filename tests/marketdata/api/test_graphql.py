"""What ``/ready`` and ``/metrics`` report of the GraphQL engine. The engine is a stand-in for Hasura."""

from __future__ import annotations

import dataclasses
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from marketdata.api import graphql_check
from marketdata.api.graphql_check import GraphqlCheck
from marketdata.api.serve import Service
from marketdata.graphql import engine
from marketdata.graphql.tracking import track
from marketdata.settings import Settings
from marketdata.store.pool import connect
from marketdata.store.version import Version, find_served
from tests.marketdata.api.conftest import Api, eventually, running_api
from tests.marketdata.graphql.stand_in_hasura import StandIn, serving

SECRET = "the admin secret"
V1 = Version.of("md", 1)

Credential = Callable[..., Path]
Check = Callable[..., GraphqlCheck]


@pytest.fixture(scope="module")
def hasura(database: str) -> Iterator[StandIn]:
    with serving(database, SECRET) as stand_in:
        yield stand_in


@pytest.fixture
def settings(service_settings: Settings, tmp_path: Path) -> Settings:
    """Over the module's database, with secrets of the test's own."""
    return dataclasses.replace(service_settings, secrets_dir=tmp_path)


def place(path: Path, text: str) -> None:
    """Replace the secret file in one step, so that a running check never reads a part of it."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(0o600)
    new.replace(path)


@pytest.fixture
def credential(settings: Settings) -> Credential:
    """Writes graphql-admin.json."""

    def write(**content: Any) -> Path:
        path = settings.secrets_dir / "graphql-admin.json"
        place(path, json.dumps(content))
        return path

    return write


@pytest.fixture
def check(settings: Settings, service: Service) -> Iterator[Check]:
    """Starts a check, once."""
    with ExitStack() as stack:

        def start(**seconds: float) -> GraphqlCheck:
            parts = service.services
            made = GraphqlCheck(settings.secrets_dir, parts.pool, parts.served, **({"period_seconds": 0.1} | seconds))
            made.start()
            stack.callback(made.stop)
            return made

        yield start


def because(check: GraphqlCheck, reason: str) -> bool:
    """Whether the version counts as not tracked, for a reason that matches the pattern."""
    found = check.tracking(V1)
    return found is not None and found.reason is not None and re.search(reason, found.reason) is not None


def eventually_failed(check: GraphqlCheck, caplog: pytest.LogCaptureFixture, reason: str) -> None:
    """Wait until the check has failed for a reason that matches the pattern; only the log has it."""
    eventually(lambda: any(re.search(f"^GraphQL: {reason}", each) for each in caplog.messages))
    eventually(lambda: because(check, f"^{graphql_check.FAILED}$"))


def test_ready_and_metrics_show_whether_the_version_is_tracked(
    hasura: StandIn, settings: Settings, credential: Credential
) -> None:
    def shown(api: Api) -> Any:
        found = api.get("/ready")
        assert found["ready"] is True
        text = api("GET", "/metrics", status=200).text
        tracked = re.search(r"^marketdata_graphql_tracked (.*)$", text, re.MULTILINE)
        member = found["graphql"]
        assert (member is None) == (tracked is None)
        if member is not None:
            assert member.pop("checked_s_ago") < 60
            assert tracked is not None
            assert tracked[1] == f"{member['tracked']:d}"
        return member

    with running_api(settings) as api:
        assert shown(api) is None, "there is no credential"
    credential(url=hasura.url, admin_secret=SECRET)
    names = "table public.md_ticks_v1 and function public.md_candles_v1"
    reason = f"the engine does not track {names}: run bin/marketdata-graphql"
    with running_api(settings) as api:
        eventually(lambda: shown(api) == {"tracked": False, "reason": reason})
    with connect(settings.database_url or "") as connection:
        loaded = engine.load(settings.secrets_dir, warn=lambda _text: None)
        track(connection, find_served(connection, settings), loaded, lambda _text: None)
    with running_api(settings) as api:
        eventually(lambda: shown(api) == {"tracked": True, "reason": None})
    hasura.metadata.functions.clear()


def test_a_credential_may_come_change_and_go(
    hasura: StandIn, credential: Credential, check: Check, caplog: pytest.LogCaptureFixture
) -> None:
    checked = check()
    assert checked.tracking(V1) is None
    path = credential(url=hasura.url, admin_secret="another secret")
    eventually_failed(checked, caplog, f"{hasura.url} refuses the admin secret: .*; correct admin_secret in {path}$")
    assert "another secret" not in caplog.text
    credential(url=hasura.url)
    eventually_failed(checked, caplog, f"{path}: admin_secret must be a text that is not empty")
    place(path, '{"url": }')
    eventually_failed(checked, caplog, f".*{path} is not JSON: line 1, column 9")
    path.chmod(0o622)
    eventually_failed(checked, caplog, f".*{path} is writable by group or others")
    path.unlink()
    eventually(lambda: checked.tracking(V1) is None)
    warnings = [each for each in caplog.messages if each.startswith("GraphQL: ")]
    assert len(warnings) == 4, "one for each reason, not for each check"


def test_an_engine_that_never_answers_delays_nothing(
    credential: Credential, check: Check, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:  # the kernel accepts the connection, and nobody reads
        credential(url=f"http://127.0.0.1:{listening.getsockname()[1]}", admin_secret=SECRET)
        waiting = check(answer_seconds=600.0, stall_seconds=1.0)
        found = waiting.tracking(V1)
        assert found is not None
        assert found.reason == "the first check is still running"
        eventually(lambda: because(waiting, "^the check has been waiting for "))
        began = time.monotonic()
        waiting.stop(timeout=60)
        assert time.monotonic() - began < 60, "the check ends although nothing was answered"
        eventually_failed(check(answer_seconds=0.2), caplog, r".*does not answer: no answer within 0\.2 s")
