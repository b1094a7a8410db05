"""``bin/marketdata-graphql`` against a stand-in for Hasura: its calls, that it can be repeated, and its errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from marketdata.settings import Settings
from tests.marketdata.conftest import Command
from tests.marketdata.graphql.stand_in_hasura import StandIn, serving

SECRET = "the admin secret"
ROLE = "marketdata_reader"
WHOLE = {"columns": "*", "filter": {}, "limit": 10_000}

Credential = Callable[..., Path]


@pytest.fixture
def hasura(fresh: Settings, command: Command) -> Iterator[StandIn]:
    """Over a database with versions 1, the current one, and 2."""
    for n in ("1", "2"):
        assert command("version", n).returncode == 0
    with serving(fresh.database_url, SECRET) as stand_in:
        yield stand_in


@pytest.fixture
def credential(fresh: Settings) -> Credential:
    """Writes graphql-admin.json."""

    def write(**content: Any) -> Path:
        path = fresh.secrets_dir / "graphql-admin.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))
        path.chmod(0o600)
        return path

    return write


@pytest.fixture
def configured(hasura: StandIn, credential: Credential) -> Path:
    return credential(url=hasura.url, admin_secret=SECRET)


def tables(n: int) -> set[str]:
    return {f"public.md_{part}_v{n}" for part in ("ticks", "symbols", "chains", "coverage", "candle")}


def test_everything_is_tracked_by_one_call(hasura: StandIn, configured: Path, command: Command) -> None:
    done = command("graphql")
    assert (done.returncode, done.stderr) == (0, "")
    assert [each["type"] for each in hasura.requests] == ["bulk"]
    found = hasura.metadata
    assert (found.tables, found.functions) == (tables(1), {"public.md_candles_v1"})
    assert found.selects == {(name, ROLE): WHOLE for name in tables(1)}
    assert found.calls == {("public.md_candles_v1", ROLE)}
    lines = done.stdout.splitlines()
    assert lines[0] == "table md_ticks_v1: tracked"
    assert "function md_candles_v1: tracked" in lines
    assert f"role {ROLE}, permission to select on table md_ticks_v1: created" in lines
    assert lines[-1] == f"version 1: {hasura.url} serves it to the role {ROLE}"


def test_existing_steps_are_kept_and_others_taken(hasura: StandIn, configured: Path, command: Command) -> None:
    hasura.metadata.tables.add("public.md_candle_v1")
    own = {"columns": ["t", "close"], "filter": {}}
    hasura.metadata.selects["public.md_candle_v1", ROLE] = own
    done = command("graphql")
    assert done.returncode == 0
    assert [line for line in done.stdout.splitlines() if "already" in line] == [
        "table md_candle_v1: already tracked",
        f"role {ROLE}, permission to select on table md_candle_v1: already exists",
    ]
    assert hasura.metadata.tables == tables(1)
    assert hasura.metadata.selects["public.md_candle_v1", ROLE] == own
    assert hasura.metadata.calls == {("public.md_candles_v1", ROLE)}


def test_a_file_chooses_the_version(hasura: StandIn, configured: Path, command: Command, fresh: Settings) -> None:
    assert command("graphql").returncode == 0
    done = command("graphql", "--env-file", str(fresh.state_dir / "v2.env"))
    assert (done.returncode, done.stderr) == (0, "")
    assert hasura.metadata.tables == tables(1) | tables(2)
    assert hasura.metadata.functions == {"public.md_candles_v1", "public.md_candles_v2"}


def test_a_function_of_another_schema_is_named_with_it(
    hasura: StandIn, configured: Path, command: Command, fresh: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(fresh.database_url) as connection:
        connection.execute("CREATE SCHEMA own")
        connection.execute(
            "CREATE FUNCTION own.my_candles(symbol text, bucket text) RETURNS SETOF md_candle_v1 LANGUAGE sql STABLE "
            "AS 'SELECT * FROM md_candles_v1($1, $2)'"
        )
    monkeypatch.setenv("PGOPTIONS", "-c search_path=public,own")
    monkeypatch.setenv("TICKS_TABLE", "md_ticks_v1")
    monkeypatch.setenv("CANDLES_FUNCTION", "my_candles")
    done = command("graphql")
    assert (done.returncode, done.stderr) == (0, "")
    assert hasura.metadata.functions == {"own.my_candles"}
    assert hasura.metadata.tables == tables(1)


def test_the_role_is_that_of_the_file(hasura: StandIn, credential: Credential, command: Command) -> None:
    credential(url=f"{hasura.url}/", admin_secret=SECRET, role="charts", source="default")
    assert command("graphql").returncode == 0
    assert hasura.metadata.calls == {("public.md_candles_v1", "charts")}


def test_a_refusal_changes_nothing(hasura: StandIn, credential: Credential, command: Command, fresh: Settings) -> None:
    path = credential(url=hasura.url, admin_secret=SECRET, source="market")
    done = command("graphql")
    assert done.returncode == 1
    assert 'pg_track_table (table md_ticks_v1), and nothing was changed: not-exists: source with name "market"' in (
        done.stderr
    )
    assert f"source 'market' in {path} must be the name" in done.stderr
    assert hasura.metadata.tables == set()


def test_an_error_that_means_something_else_is_no_success(
    hasura: StandIn, configured: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a call that tracks, already-exists means that another object has the name."""
    refusal = {"path": "$.args[0].args", "error": "the name is taken", "code": "already-exists"}
    monkeypatch.setattr(hasura, "answer", lambda *_: (400, refusal))
    done = command("graphql")
    assert done.returncode == 1
    assert "already-exists: the name is taken" in done.stderr


def test_a_wrong_secret_is_named_and_not_shown(hasura: StandIn, credential: Credential, command: Command) -> None:
    path = credential(url=hasura.url, admin_secret="another secret")
    done = command("graphql")
    assert done.returncode == 1
    assert f"{hasura.url} refuses the admin secret" in done.stderr
    assert f"correct admin_secret in {path}" in done.stderr
    assert "another secret" not in done.stderr
    assert hasura.metadata.tables == set()


def test_without_the_file_it_says_how_to_make_it(command: Command, fresh: Settings) -> None:
    done = command("graphql")
    assert done.returncode == 3
    assert f"{fresh.secrets_dir / 'graphql-admin.json'} does not exist: create it (0600) as" in done.stderr


def test_faults_of_the_file_name_the_field(credential: Credential, command: Command) -> None:
    for content, words in (
        ({"url": "http://h", "admin_secret": ""}, "admin_secret must be a text"),
        ({"url": "http://h", "admin_secret": "a\nb"}, "admin_secret has characters that cannot be sent"),
        ({"url": "http://h", "admin_secret": SECRET, "rol": "x"}, "unknown member 'rol'"),
        ({"url": "http://h", "admin_secret": SECRET, "role": 1}, "role must be a text"),
        ({"url": "ftp://h", "admin_secret": SECRET}, "url must be the address of Hasura"),
        ({"url": "http://h/v1/metadata", "admin_secret": SECRET}, "url must be the address of Hasura"),
        ({"url": "http://user@h", "admin_secret": SECRET}, "url must be the address of Hasura"),
    ):
        path = credential(**content)
        done = command("graphql")
        assert done.returncode == 2
        assert f"{path}: {words}" in done.stderr
        assert SECRET not in done.stderr


def test_a_missing_grant_is_noted(hasura: StandIn, configured: Path, command: Command, fresh: Settings) -> None:
    with psycopg.connect(fresh.database_url) as connection:
        connection.execute("REVOKE SELECT ON md_ticks_v1 FROM marketdata_reader")
    assert "may not read version 1; bin/marketdata-version 1 grants it" in command("graphql").stderr
    assert command("version", "1").returncode == 0
    assert command("graphql").stderr == ""
