"""The SQL side of GraphQL with a real server: PostGraphile, from npm, reads ticks and candles as the reader role.

It logs in over the private PostgreSQL's socket, with a password (SCRAM). Hasura itself cannot be installed here.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from marketdata.interval import SECOND
from marketdata.postgres.client import Client
from marketdata.store import ticks
from marketdata.store.pool import connect
from marketdata.store.version import Version
from tests.functional.registry import NODE, npm_install
from tests.marketdata.store.conftest import START, tick

pytestmark = pytest.mark.functional

ROOT = Path(__file__).resolve().parents[2]
SERVER = Path(__file__).with_name("postgraphile_server.mjs")
POSTGRAPHILE = "postgraphile@5.1.5"
SECONDS = 60.0
EXACT = "123456789012345678901234567890.123456789012345678901234567891"
CANDLE = ("symbol", "bucket", "open", "high", "low", "close", "volume", "quote", "n", "vwap", "closed", "finalized")
INTERVALS = ("1s", "1m", "3m", "15m", "30m", "1h", "4h", "12h", "1d", "3d", "1w", "1M")


class Market(NamedTuple):
    """A private PostgreSQL with versions 1 and 2, as its superuser and as the reader."""

    owner: str
    reader: str


@pytest.fixture(scope="module")
def market() -> Iterator[Market]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with Client(folder, linger=False) as client:
            for n in (1, 2):
                command(folder, "version", str(n))
                fill(client.conninfo, n)
            command(folder, "reader", "passwd")
            passfile = folder / "secrets" / "reader.pgpass"
            yield Market(
                client.conninfo, make_conninfo(client.conninfo, user="marketdata_reader", passfile=str(passfile))
            )


def command(folder: Path, *arguments: str) -> None:
    environment = os.environ | {"MARKET_STATE_DIR": str(folder)}
    line = [sys.executable, "-P", "-m", "marketdata", *arguments]
    subprocess.run(line, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)


def fill(conninfo: str, n: int) -> None:
    """An hour of ticks, one in ten seconds; version 2 has other prices."""
    with connect(conninfo) as connection:
        found = [
            tick("T:A", str(i), START + i * 10 * SECOND, str(n * 100 + i % 7), "0.25", side="buy" if i % 2 else "sell")
            for i in range(360)
        ]
        ticks.ingest(connection, Version.of("md", n), [*found, tick("T:EXACT", "1", START, EXACT, "1e-30")])


@pytest.fixture(scope="module")
def graphql(market: Market) -> Iterator[Callable[..., dict[str, Any]]]:
    """``graphql(query, **variables)`` is PostGraphile's answer: ``data`` and ``errors``."""
    with tempfile.TemporaryDirectory(prefix="postgraphile-", dir="/tmp", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        npm_install((NODE, POSTGRAPHILE), folder)
        shutil.copy(SERVER, folder)
        node = folder / "node_modules" / NODE.partition("@")[0] / "bin" / "node"
        parameters = conninfo_to_dict(market.reader)
        password = Path(str(parameters["passfile"])).read_text().strip().rpartition(":")[2]
        settings = {"PGHOST": str(parameters["host"]), "PGUSER": "marketdata_reader", "PGPASSWORD": password}
        process = subprocess.Popen(
            [node, folder / SERVER.name],
            env=os.environ | settings | {"PGDATABASE": "marketdata", "GRAPHILE_ENV": "production"},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], SECONDS)[0], "it does not start"
            port = int(process.stdout.readline())
            yield lambda query, **variables: ask(port, query, variables)
        finally:
            process.terminate()
            process.wait(SECONDS)
            assert process.stdout is not None
            process.stdout.close()


def ask(port: int, query: str, variables: dict[str, Any]) -> dict[str, Any]:
    body = json.dumps({"query": query, "variables": variables}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/graphql", body, {"Content-Type": "application/json", "Accept": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def test_ticks_are_read_exactly(graphql: Callable[..., dict[str, Any]]) -> None:
    answer = graphql(
        "query($of: String!) { allMdTicksV1S(condition: {symbol: $of}, orderBy: TS_DESC, first: 2)"
        " { nodes { rowId ts price size side } totalCount } }",
        of="T:A",
    )
    assert "errors" not in answer
    found = answer["data"]["allMdTicksV1S"]
    assert int(found["totalCount"]) == 360
    assert [(each["rowId"], each["price"], each["size"], each["side"]) for each in found["nodes"]] == [
        ("359", "102", "0.25", "buy"),
        ("358", "101", "0.25", "sell"),
    ]
    answer = graphql('{ mdTicksV1BySymbolAndRowId(symbol: "T:EXACT", rowId: "1") { price size } }')
    found = answer["data"]["mdTicksV1BySymbolAndRowId"]
    assert (found["price"], Decimal(found["size"])) == (EXACT, Decimal("1e-30"))


def test_candles_are_those_that_the_owner_reads(graphql: Callable[..., dict[str, Any]], market: Market) -> None:
    for n, fill, interval in itertools.product((1, 2), ("none", "previous"), INTERVALS):
        answer = graphql(
            f'query($bucket: String!, $fill: String!) {{ mdCandlesV{n}(symbol: "T:A", bucket: $bucket, maxRows: 50,'
            f' from: "2024-01-01T00:00:00Z", fill: $fill) {{ nodes {{ {" ".join(CANDLE)} }} }} }}',
            bucket=interval,
            fill=fill,
        )
        assert "errors" not in answer
        found = answer["data"][f"mdCandlesV{n}"]["nodes"]
        with psycopg.connect(market.owner, row_factory=dict_row) as connection:
            expected = connection.execute(
                f"SELECT {', '.join(CANDLE)} "
                f"FROM md_candles_v{n}('T:A', %s, '2024-01-01Z', max_rows => 50, fill => %s)",
                (interval, fill),
            ).fetchall()
        assert expected, interval
        assert [{**each, "n": int(each["n"])} for each in found] == [
            {name: str(value) if isinstance(value, Decimal) else value for name, value in each.items()}
            for each in expected
        ]


def test_the_reader_writes_nothing_and_sees_no_tokens(graphql: Callable[..., dict[str, Any]], market: Market) -> None:
    assert graphql("{ allMdCandleV1S { nodes { t } } }") == {"data": {"allMdCandleV1S": {"nodes": []}}}
    answer = graphql("{ __schema { mutationType { fields { name } } queryType { fields { name } } } }")
    names = {
        kind: [each["name"] for each in answer["data"]["__schema"][kind]["fields"]]
        for kind in ("mutationType", "queryType")
    }
    assert not any(name.startswith(("create", "update", "delete")) for name in names["mutationType"])
    assert not [name for name in names["queryType"] if "oken" in name]
    answer = graphql('mutation { mdRetractV1(input: {name: "T:A", hash: "0x1"}) { clientMutationId } }')
    assert answer["errors"]
    assert answer["data"] == {"mdRetractV1": None}
    with psycopg.connect(market.owner) as connection:
        assert connection.execute("SELECT count(*) FROM md_retracted_v1").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM md_ticks_v1").fetchone() == (361,)


def test_the_statements_of_the_page_work_for_the_reader(market: Market) -> None:
    page = (ROOT / "marketdata" / "sql.md").read_text(encoding="utf-8")
    statements = re.findall(r"^    marketdata=> (SELECT .*;)$", page, re.MULTILINE)
    assert len(statements) == 2
    for statement in statements:
        with psycopg.connect(market.reader) as connection:
            assert connection.execute(statement.replace("DEMO:ETH-USD", "T:A").encode()).fetchall()
