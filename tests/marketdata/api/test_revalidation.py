"""A tag stands for the state of a symbol in one table of one database, and never for a state that only looks the
same."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from marketdata.api.serve import Service
from tests.marketdata.api.conftest import Api, Make

FORMS = ("/v1/chart?symbol={}&interval=1m", "/v1/ticks?symbol={}&format=csv&limit=5")


def body_and_tag(api: Api, path: str, tag: str | None = None) -> tuple[str, str]:
    """The body, without the time that it was asked at, and its tag."""
    response = api("GET", path, headers={} if tag is None else {"If-None-Match": tag}, status=200)
    body = response.text
    if response.content_type == "application/json":
        body = json.dumps({**response.json, "as_of": None})
    return body, response.headers["ETag"]


@pytest.mark.parametrize("path", FORMS)
def test_an_alias_that_is_pointed_elsewhere(api: Api, tick: Make, admin: psycopg.Connection[Any], path: str) -> None:
    one, two, alias = (f"{name}:{FORMS.index(path)}" for name in ("ONE", "TWO", "ALIAS"))
    # In one transaction, so that the counters and everything but the symbols are equal.
    api.ingest(tick(symbol=one, price="1"), tick(symbol=two, price="2"))
    admin.execute("INSERT INTO market_aliases (alias, symbol) VALUES (%s, %s)", (alias, one))
    first, tag = body_and_tag(api, path.format(alias))
    assert body_and_tag(api, path.format(alias)) == (first, tag)
    api("GET", path.format(alias), headers={"If-None-Match": tag}, status=304)
    admin.execute("UPDATE market_aliases SET symbol = %s WHERE alias = %s", (two, alias))
    second, other = body_and_tag(api, path.format(alias), tag)
    assert second != first
    assert other != tag
    assert body_and_tag(api, path.format(alias)) == (second, other) == body_and_tag(api, path.format(two))


@pytest.mark.parametrize("path", FORMS)
def test_a_table_that_was_filled_anew(api: Api, tick: Make, admin: psycopg.Connection[Any], path: str) -> None:
    """The counters of such a table begin at 1 again."""
    symbol = f"ANEW:{FORMS.index(path)}"
    path = path.format(symbol)
    api.ingest(tick(symbol=symbol, price="1"))
    first, tag = body_and_tag(api, path)
    assert body_and_tag(api, path) == (first, tag)
    for table in ("md_ticks_v1", "md_symbols_v1"):
        admin.execute(f"DELETE FROM {table} WHERE symbol = %s", (symbol,))
    api.ingest(tick(symbol=symbol, price="2"))
    second, other = body_and_tag(api, path, tag)
    assert second != first
    assert other != tag
    assert body_and_tag(api, path) == (second, other)


@pytest.mark.parametrize("path", FORMS)
def test_a_tag_names_cluster_table_and_time(
    api: Api, service: Service, tick: Make, admin: psycopg.Connection[Any], path: str
) -> None:
    """A fresh cluster, filled by the same steps, has the same table numbers and counters."""
    api.ingest(tick(symbol="WHERE:A", id=path))
    row = admin.execute(
        "SELECT system_identifier, s.tableoid, (date_part('epoch', s.written_at) * 1000000)::bigint, s.version"
        " FROM md_symbols_v1 s, pg_control_system() WHERE symbol = 'WHERE:A'"
    ).fetchone()
    assert row is not None
    tag = body_and_tag(api, path.format("WHERE:A"))[1]
    assert tag.startswith(f'W/"{row[3]}.')
    assert ".".join(("WHERE:A", *map(str, row[:3]))) in tag
