"""Facts of ``marketdata/interval.py`` and ``marketdata/limits.py`` that SQL, JSON schemas and the page repeat."""

from __future__ import annotations

import json
import re
from typing import Any

from marketdata.frontend.tunnels import RENEW
from marketdata.interval import LEVELS, WIDTHS
from marketdata.limits import DEFAULT_ROWS, DEFAULT_SUMMARIES, MAX_ITEMS, MAX_ROWS, MAX_SUMMARIES
from marketdata.settings import ROOT
from marketdata.store.markets import SAMPLE
from marketdata.store.trade_numbers import MAX_NUMBER

SQL = ROOT / "marketdata" / "store" / "sql"
SCHEMAS = ROOT / "marketdata" / "api" / "schemas"
PAGE = ROOT / "marketdata" / "frontend" / "static"
LONGEST_MONTH = 31 * 86_400
COARSE = [level for level in LEVELS.values() if level > 60]


def schema(name: str) -> Any:
    return json.loads((SCHEMAS / name).read_text(encoding="utf-8"))


def members(found: Any, key: str) -> list[Any]:
    """Every value of ``key`` at any depth of a decoded JSON Schema, except in its examples."""
    if isinstance(found, dict):
        return [
            *([found[key]] if key in found else []),
            *(each for name, part in found.items() if name != "examples" for each in members(part, key)),
        ]
    return [each for part in found for each in members(part, key)] if isinstance(found, list) else []


def script(name: str) -> str:
    return (SQL / name).read_text(encoding="utf-8")


def numbers(pattern: str, text: str) -> list[int]:
    return [int(found) for found in re.findall(pattern, text)]


# -- intervals -------------------------------------------------------------------------------------------------------


def test_the_schemas_have_the_intervals() -> None:
    for name, more in (("terms.json", []), ("live.json", ["ticks", "summary"])):
        (enum,) = [each for each in members(schema(name), "enum") if "1m" in each]
        assert enum == [*WIDTHS, *more]


def test_the_candles_function_has_the_intervals_and_their_widths() -> None:
    found = re.findall(r"WHEN '(\w+)' THEN (\d+)", script("candles.sql"))
    assert {name: int(width) for name, width in found} == {
        name: LONGEST_MONTH if width is None else width for name, width in WIDTHS.items()
    }


def test_the_page_has_the_intervals_and_their_widths() -> None:
    text = (PAGE / "intervals.js").read_text(encoding="utf-8")
    found = re.findall(r"'(\d+[smhdwM])': (null|[\d_]+)", text)
    assert [(name, None if width == "null" else int(width)) for name, width in found] == list(WIDTHS.items())


def test_the_page_has_the_code_that_asks_it_to_connect_again() -> None:
    assert numbers(r"const RENEW = (\d+);", (PAGE / "live.js").read_text(encoding="utf-8")) == [RENEW]


# -- stored levels ---------------------------------------------------------------------------------------------------


def test_a_level_is_the_width_of_its_interval() -> None:
    assert {name: WIDTHS[name] for name in LEVELS} == LEVELS


def test_each_level_has_a_partition() -> None:
    found = re.findall(r"\{rollups_(\w+)\} PARTITION OF \{rollups\} FOR VALUES IN \((\d+)\)", script("version.sql"))
    assert {name: int(level) for name, level in found} == LEVELS


def test_the_triggers_maintain_each_level() -> None:
    inserted, deleted = script("rollups.sql").split("{rollups_delete}()", 1)
    narrow = numbers(r"SELECT (\d+)(?: AS res)?, \* FROM", inserted)
    assert [*narrow, *numbers(r"\((\d+), interval '\d+ \w+'\)", inserted)] == list(LEVELS.values())
    found = re.findall(r"\((\d+), (\d+), interval", deleted)
    assert [(int(level), int(below)) for level, below in found] == list(zip(COARSE, LEVELS.values(), strict=False))


def test_the_candles_function_reads_each_level() -> None:
    text = script("candles.sql")
    (widest_first,) = re.findall(r"level := CASE (.*?) END;", text, re.DOTALL)
    assert numbers(r"(?:THEN|ELSE) (\d+)", widest_first) == sorted(LEVELS.values(), reverse=True)
    assert numbers(r"seconds % (\d+) = 0", widest_first) == sorted(COARSE, reverse=True)
    (pieced,) = re.findall(r"FROM \(VALUES ((?:\(\d+\)(?:, )?)+)\) AS l \(res\)", text)
    assert numbers(r"\d+", pieced) == list(LEVELS.values())


# -- limits ----------------------------------------------------------------------------------------------------------


def test_the_schemas_have_the_limits_of_rows_and_items() -> None:
    (limit,) = members(schema("chart.json"), "limit")
    assert (limit["maximum"], limit["default"]) == (MAX_ROWS, DEFAULT_ROWS)
    (limit,) = (each for each in members(schema("ticks.json"), "limit") if "maximum" in each)
    assert limit["maximum"] == MAX_ROWS
    assert f"Default: {DEFAULT_ROWS};" in limit["description"]
    (count,) = members(schema("udf.json"), "countback")
    assert count["maximum"] == MAX_ROWS
    assert members(schema("ticks.json"), "maxItems") == members(schema("coverage.json"), "maxItems") == [MAX_ITEMS]
    definitions = schema("summary.json")["$defs"]
    assert numbers(r"\{0,(\d+)\}", definitions["SymbolList"]["pattern"]) == [MAX_SUMMARIES - 1]
    query = definitions["SummaryQuery"]["properties"]
    assert query["limit"]["maximum"] == MAX_SUMMARIES
    assert members(schema("live.json"), "maxItems") == [MAX_SUMMARIES]
    assert f"at most {MAX_SUMMARIES} symbols" in schema("binance.json")["$defs"]["BinanceSymbols"]["description"]
    assert f" {DEFAULT_SUMMARIES} if " in query["limit"]["description"]


def test_the_schema_and_the_page_of_the_api_have_the_facts_of_markets() -> None:
    definitions = schema("binance.json")["$defs"]
    assert f"newest {SAMPLE} ticks" in definitions["BinanceMarket"]["description"]
    assert definitions["BinanceId"]["maximum"] == MAX_NUMBER
    assert f"newest {SAMPLE} ticks" in " ".join((ROOT / "marketdata" / "api.md").read_text(encoding="utf-8").split())


def test_the_candles_function_has_the_default_number_of_rows() -> None:
    assert numbers(r"max_rows integer DEFAULT (\d+)", script("candles.sql")) == [DEFAULT_ROWS]


def test_the_page_has_the_greatest_number_of_rows() -> None:
    (largest,) = re.findall(r"MAX_READ = ([\d_]+);", (PAGE / "first_view.js").read_text(encoding="utf-8"))
    assert int(largest) == MAX_ROWS
