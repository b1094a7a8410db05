"""``rpc.json``, the secret file that names the provider of a chain and the pools to read.

Its JSON Schema is ``rpc.schema.json``. Lines that begin with ``//`` are comments. The URL and the headers may be
secret, so no message shows them.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import jsonschema

from marketdata import secretfile
from marketdata.errors import MissingRequirement, StateError, UsageError
from marketdata.settings import Warn
from marketdata.source import evm

FINALIZED = "finalized"
_SECRET = ("url", "headers")


@dataclass(frozen=True)
class Pool:
    """``symbol`` includes the chain (``CHAIN:NAME``); ``address`` is in lower case."""

    symbol: str
    address: str
    kind: str
    decimals: tuple[int, int]
    invert: bool
    start_block: int


@dataclass(frozen=True)
class RpcFile:
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    chain: str
    chain_id: int
    confirmations: int | None
    """A block is final when this many blocks follow it. None: the provider says which block is final."""
    poll_s: float
    requests_per_s: float
    pools: tuple[Pool, ...]


def load(path: Path, *, warn: Warn) -> RpcFile:
    """The file's content.

    Raises MissingRequirement if there is no file, StateError if other users may write to the file, and UsageError with
    all faults of the content.
    """
    try:
        found = secretfile.read(path, warn=warn, comments="//")
    except MissingRequirement as error:
        raise MissingRequirement(f"{error.detail}: copy etc/rpc.json.example to it, and edit the copy") from error
    except StateError as error:
        if error.code != secretfile.MALFORMED:
            raise
        raise UsageError(error.detail) from None
    errors = sorted(_validator().iter_errors(found), key=lambda error: [str(part) for part in error.absolute_path])
    faults = [_fault(error) for error in errors]
    if not faults:
        faults = _contradictions(found)
    if faults:
        raise UsageError("\n  ".join([f"{path}:", *faults]))
    return _file(found)


@cache
def _validator() -> jsonschema.Draft202012Validator:
    text = Path(__file__).with_name("rpc.schema.json").read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))


def _fault(error: jsonschema.ValidationError) -> str:
    path = "".join(f"/{part}" for part in error.absolute_path)
    if error.validator == "additionalProperties":
        return f"{path or 'the file'}: {_unknown(error)}"
    expected = cast(dict[str, Any], error.schema).get("x-expected")
    if error.absolute_path and error.absolute_path[0] in _SECRET:
        return f"{path}: {expected or 'is not valid'} (its value is not shown, because it may be secret)"
    return (
        f"{path or 'the file'}: {error.instance!r} {expected}"
        if expected
        else f"{path or 'the file'}: {error.message[:200]}"
    )


def _unknown(error: jsonschema.ValidationError) -> str:
    known = sorted(cast(dict[str, Any], error.schema)["properties"])
    names = sorted(cast(dict[str, Any], error.instance).keys() - set(known))
    found = [(name, difflib.get_close_matches(name, known, n=1)) for name in names]
    said = [f"{name[:80]!r} is unknown" + (f"; did you mean {near[0]}?" if near else "") for name, near in found]
    return "; ".join([*said, f"known: {', '.join(known)}"])


def _contradictions(found: dict[str, Any]) -> list[str]:
    faults = []
    try:
        if not urlsplit(found["url"]).hostname or urlsplit(found["url"]).port == 0:
            raise ValueError
    except ValueError:
        faults.append("/url: is not a URL with a host and a valid port")
    symbols = [pool["symbol"] for pool in found["pools"]]
    for at, pool in enumerate(found["pools"]):
        if pool["symbol"] in symbols[:at]:
            faults.append(f"/pools/{at}/symbol: {pool['symbol']} is listed twice")
        try:
            evm.address(pool["address"])
        except ValueError as error:
            faults.append(f"/pools/{at}/address: {error}")
    return faults


def _file(found: dict[str, Any]) -> RpcFile:
    confirmations = found["confirmations"]
    return RpcFile(
        url=found["url"],
        headers=found.get("headers", {}),
        chain=found["chain"],
        chain_id=found["chain_id"],
        confirmations=None if confirmations == FINALIZED else confirmations,
        poll_s=float(found.get("poll_s", 1)),
        requests_per_s=float(found.get("requests_per_s", 10)),
        pools=tuple(
            Pool(
                symbol=f"{found['chain']}:{pool['symbol']}",
                address=evm.address(pool["address"]),
                kind=pool["kind"],
                decimals=(pool["decimals"][0], pool["decimals"][1]),
                invert=pool.get("invert", False),
                start_block=pool.get("start_block", 0),
            )
            for pool in found["pools"]
        ),
    )
