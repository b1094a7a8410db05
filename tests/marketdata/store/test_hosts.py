"""The hosts of a connection string."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from marketdata.errors import UsageError
from marketdata.store.conninfo import address, hosts


def test_each_host_has_its_port() -> None:
    for conninfo, addresses in (
        ("postgresql://me@a/market", [("a", "5432")]),
        ("postgresql://me@a:5433,b/market?target_session_attrs=standby", [("a", "5433"), ("b", "5432")]),
        ("host=a,b,c port=5433 dbname=market", [("a", "5433"), ("b", "5433"), ("c", "5433")]),
        ("host=a,b port=5433,5434", [("a", "5433"), ("b", "5434")]),
        ("host=a,b hostaddr=10.0.0.1,10.0.0.2", [("a", "5432"), ("b", "5432")]),
        ("hostaddr=10.0.0.1,::1 port=5433", [("10.0.0.1", "5433"), ("::1", "5433")]),
        ("host=/run/one,/run/two", [("/run/one", "5432"), ("/run/two", "5432")]),
        ("host=a,a dbname=market", [("a", "5432")]),
        ("dbname=market", [("of libpq's default", "5432")]),
    ):
        found = hosts(conninfo)
        assert [address(each) for each in found] == addresses
        assert not any("target_session_attrs" in each for each in found)


def test_each_host_has_all_else() -> None:
    found = hosts("postgresql://me:secret@a,b:5433/market?sslmode=require")
    whole = {"user": "me", "password": "secret", "dbname": "market", "sslmode": "require"}
    assert [conninfo_to_dict(each) for each in found] == [
        whole | {"host": "a", "port": ""},
        whole | {"host": "b", "port": "5433"},
    ]


def test_a_malformed_one_is_refused_without_its_password() -> None:
    for conninfo in ("host=a,b,c port=5433,5434", "host=a hostaddr=10.0.0.1,10.0.0.2", "nonsense=1"):
        with pytest.raises(UsageError, match="is malformed") as caught:
            hosts(f"{conninfo} password=secret")
        assert "secret" not in caught.value.detail, conninfo
