"""The statements that make a shard's functions, as text. tests/release/citus runs them on a real Citus."""

from __future__ import annotations

import re
from dataclasses import replace

from marketdata.store import shards
from marketdata.store.shards import Shard
from marketdata.store.version import PARTS, Version

VERSION = replace(Version.of("md", 2), shards=2)
TABLES = {"ticks", "symbols", "rollups", "retracted", "pruned", "chains", "coverage", "aliases"}


def shard(number: int) -> Shard:
    tables = {part: f"md_{part}_v2_{number}" for part in TABLES}
    functions = {part: f"md_{part}_v2_s{number}" for part in (*shards.shard_functions(), *shards.OWN)}
    return Shard(VERSION.prefix, VERSION.n, VERSION.candles_function, VERSION.shards, number, -5, 7, tables | functions)


def test_a_function_that_uses_a_table_belongs_to_the_shard_and_others_are_made_once() -> None:
    assert {"ingest", "lock", "candles", "candles_pieced", "is_pruned", "canonical"} <= shards.shard_functions()
    assert not {"vwap", "instant", "bucket_of", "chain_of", "ms", "changed"} & shards.shard_functions()


def test_every_function_of_the_scripts_is_found() -> None:
    named = set(re.findall(r"CREATE FUNCTION \{(\w+)\}", Version.scripts()))
    assert set(shards.functions()) == named
    assert named <= set(PARTS)


def test_the_functions_of_a_shard_name_its_tables_and_no_table_of_the_version() -> None:
    own = shard(102008)
    text = own.query(shards.functions_of(own)).decode()
    assert "md_ticks_v2_102008" in text
    of_version = {f'"md_{part}_v2"' for part in TABLES - {"aliases"}} | {"market_aliases"}
    # The lock of a write goes through Citus, so it names the distributed table.
    assert {name for name in of_version if name in text} == {'"md_symbols_v2"'}


def test_a_trigger_function_has_a_block_for_each_shard() -> None:
    text = shards.trigger_function("rollups_insert", [shard(102008), shard(102009)])
    blocks = re.findall(r"IF TG_TABLE_NAME = '(\w+)' THEN", text)
    assert blocks == ["md_ticks_v2_102008", "md_ticks_v2_102009"]
    assert '"md_rollups_v2_102009"' in text
    assert "{rollups}" not in text
