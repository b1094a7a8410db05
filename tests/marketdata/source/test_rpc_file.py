"""``rpc.json``: the example is valid, faults are named, and secrets are not shown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from marketdata.errors import MissingRequirement, UsageError
from marketdata.settings import ROOT
from marketdata.source import rpc_file
from marketdata.source.pools import KINDS
from marketdata.source.rpc_file import Endpoint, load

POOL = {"symbol": "A-B", "address": "0x" + "ab" * 20, "kind": "uniswap-v2", "decimals": [18, 6]}
GOOD = {"url": "https://hidden.example/key", "chain": "ETH", "chain_id": 1, "confirmations": 12, "pools": [POOL]}


def written(folder: Path, content: str) -> Path:
    path = folder / "rpc.json"
    path.write_text(content)
    path.chmod(0o600)
    return path


def loaded(folder: Path, content: Any) -> Any:
    [chain] = load(written(folder, json.dumps(content)), warn=pytest.fail)
    return chain


def test_the_example_is_valid(tmp_path: Path) -> None:
    example = (ROOT / "etc" / "rpc.json.example").read_text()
    [found] = load(written(tmp_path, example), warn=pytest.fail)
    assert [pool.symbol for pool in found.pools] == ["ETH:WETH-USDC", "ETH:WETH-USDC-V3", "ETH:ETH-USDC-V4"]
    assert [pool.invert for pool in found.pools] == [True, True, False]
    assert [pool.decimals for pool in found.pools] == [(6, 18), (6, 18), (18, 6)]
    assert "the-key" not in repr(found)


def test_the_commented_factories_of_the_example_are_valid(tmp_path: Path) -> None:
    example = (ROOT / "etc" / "rpc.json.example").read_text()
    lines = re.sub(r'^  // (?=  |}|]|"(native|quotes|factories)": )', "  ", example, flags=re.MULTILINE)
    [found] = load(written(tmp_path, lines), warn=pytest.fail)
    assert [factory.min_trades for factory in found.factories] == [100, 0]
    assert [len(factory.tokens) + len(factory.exclude) for factory in found.factories] == [0, 2]
    assert (len(found.quotes.usd), len(found.quotes.native), found.native.symbol) == (2, 1, "ETH")


def test_missing_members_have_defaults(tmp_path: Path) -> None:
    with pytest.raises(MissingRequirement):
        load(tmp_path / "rpc.json", warn=pytest.fail)
    found = loaded(tmp_path, GOOD)
    assert (found.poll_s, found.confirmations) == (1.0, 12)
    assert found.endpoints == (Endpoint("https://hidden.example/key", {}, 10.0),)
    assert (found.pools[0].invert, found.pools[0].start_block) == (False, 0)
    assert loaded(tmp_path, GOOD | {"confirmations": "finalized"}).confirmations is None


FAULTS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"url": 5}, "/url: must begin with http:// or https:// and name a host (its value is not shown"),
    ({"url": "ftp://hidden.example"}, "/url: must begin with http:// or https://"),
    ({"url": "http://hidden.example:99999/"}, "/url: is not a URL"),
    ({"headers": {"a b": "x"}}, "/headers: the name of a header has only letters, digits"),
    ({"headers": {"X-Key": "hidden\n"}}, "/headers/X-Key: must be one line of printable ASCII characters"),
    ({"confirmations": "ten"}, "/confirmations: 'ten' must be a number of blocks from 0 to 10000, or \"finalized\""),
    ({"confirmation": 3}, "/confirmation: is unknown; did you mean confirmations?; known: chain,"),
    ({"chain_id": 0}, "/chain_id: "),
    ({"confirmations": "safe"}, "/confirmations: "),
    ({"colour": 1}, "rpc.json:1: /colour: is unknown; known: chain, chain_id,"),
    ({"pools": []}, "rpc.json:1: the file: has neither pools nor factories"),
    ({"pools": [POOL, POOL]}, "/pools/1/symbol: A-B is listed twice"),
    ({"pools": [POOL | {"kind": "balancer"}]}, "/pools/0/kind: "),
    ({"pools": [POOL | {"decimals": [18]}]}, "/pools/0/decimals: [18] must be two numbers: "),
    ({"pools": [POOL | {"symbol": "a b"}]}, "/pools/0/symbol: 'a b' must be 1 to 47 of A-Z a-z 0-9 . _ / -"),
    ({"pools": [POOL | {"address": "0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}]}, "wrong checksum"),
)


def test_faults_are_named_and_secrets_are_not_shown(tmp_path: Path) -> None:
    for change, fault in FAULTS:
        with pytest.raises(UsageError) as caught:
            loaded(tmp_path, GOOD | change)
        assert fault in caught.value.detail
        assert "hidden" not in caught.value.detail.removeprefix(str(tmp_path)), change


FAULTY = """// a comment
{
  "url": "https://hidden.example", "chain": "ETH",
  // another one
  "chain_id": 1, "confirmations": 12,
  "colour": 1, "colours": 2,
  "pools": [
    {
      "symbol": "A B", "kind": "uniswap-v2",
      // of token0 and token1
      "decimals":
        [18]
    }
  ]
}
"""


def test_each_fault_has_a_line_with_the_line_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, FAULTY)
    with pytest.raises(UsageError) as caught:
        load(path, warn=pytest.fail)
    heading, *faults = caught.value.detail.splitlines()
    assert heading == f"{path} has 5 faults:"
    assert [fault[:46] for fault in faults] == [
        "rpc.json:6: /colour: is unknown; known: chain,",
        "rpc.json:6: /colours: is unknown; known: chain",
        "rpc.json:8: /pools/0: 'address' is a required ",
        "rpc.json:9: /pools/0/symbol: 'A B' must be 1 t",
        "rpc.json:11: /pools/0/decimals: [18] must be t",
    ]


def test_a_syntax_error_names_the_line_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rpc.json"
    path.write_text('{\n  // a comment\n  "url": "https://hidden.example"\n  "chain": "ETH"\n}\n')
    path.chmod(0o600)
    with pytest.raises(UsageError) as caught:
        load(path, warn=str)
    assert caught.value.detail.endswith("is not JSON: line 4, column 3: Expecting ',' delimiter")


def test_the_schema_names_every_kind_of_pool() -> None:
    schema = json.loads(Path(rpc_file.__file__).with_name("rpc.schema.json").read_text())
    assert schema["$defs"]["Kind"]["enum"] == list(KINDS)
