"""``rpc.json``, the secret file that names chains, their providers, and the pools and factories to read.

Its JSON Schema is ``rpc.schema.json``. Lines that begin with ``//`` are comments. URLs and headers may be secret, so no
message shows them.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
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
from marketdata.source.json_lines import lines, pointer
from marketdata.source.pools import KINDS
from marketdata.source.pools.pool import ID_SEPARATOR, contract_of

FINALIZED = "finalized"
_SECRET = frozenset({"url", "urls", "ws_url", "headers"})
_DEFAULT_RATE = 10


Fault = tuple[str, str]
"""The JSON pointer of the value that is wrong, and what is wrong."""


@dataclass(frozen=True)
class Endpoint:
    """A provider of a chain over HTTP. ``requests_per_s`` limits its calls."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    requests_per_s: float


@dataclass(frozen=True)
class ListedPool:
    """A pool of ``rpc.json``. ``symbol`` includes the chain (``CHAIN:NAME``). ``address`` is as in
    :class:`marketdata.source.pools.pool.Pool`. ``decimals`` is None if they are not given."""

    symbol: str
    address: str
    kind: str
    decimals: tuple[int, int] | None
    invert: bool
    start_block: int

    @property
    def contract(self) -> str:
        """The contract that emits the pool's events."""
        return contract_of(self.address)


@dataclass(frozen=True)
class Factory:
    """A factory of ``rpc.json``. Addresses are in lower case. Empty ``tokens`` select every pool. ``exclude`` has pools
    and tokens."""

    kind: str
    address: str
    start_block: int
    tokens: frozenset[str]
    exclude: frozenset[str]
    min_trades: int

    def rejection(self, pool: str, tokens: Collection[str]) -> str:
        """Why a pool of the factory is not wanted; empty if it is."""
        if pool in self.exclude:
            return "it is in exclude"
        if not self.exclude.isdisjoint(tokens):
            return "one of its tokens is in exclude"
        return "" if self.selects(tokens) else "none of its tokens is in the factory's tokens"

    def selects(self, tokens: Collection[str]) -> bool:
        """Whether one of a pool's tokens is in ``tokens``."""
        return not self.tokens or not self.tokens.isdisjoint(tokens)


@dataclass(frozen=True)
class Token:
    """A token, or the native currency."""

    symbol: str
    decimals: int


ETHER = Token("ETH", 18)


@dataclass(frozen=True)
class Quotes:
    """``usd`` are tokens, ``native`` are pools; see ``rpc.schema.json``."""

    usd: frozenset[str] = frozenset()
    native: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Chain:
    """A chain of ``rpc.json``. It has pools or factories, or both."""

    name: str
    chain_id: int
    endpoints: tuple[Endpoint, ...]
    confirmations: int | None
    """A block is final when this many blocks follow it. None: the provider says which block is final."""
    poll_s: float = 1.0
    verify_s: float = 3600.0
    """Seconds between two comparisons of stored ticks with the chain; 0: none."""
    ws_url: str | None = field(default=None, repr=False)
    pools: tuple[ListedPool, ...] = ()
    factories: tuple[Factory, ...] = ()
    native: Token = ETHER
    quotes: Quotes = Quotes()


def load(path: Path, *, warn: Warn) -> tuple[Chain, ...]:
    """The chains of the file.

    Raises MissingRequirement if there is no file, StateError if other users may write to the file, and UsageError with
    all faults of the content.
    """
    try:
        text = secretfile.content(path, warn=warn, comments="//")
        found = secretfile.decoded(path, text)
    except MissingRequirement as error:
        raise MissingRequirement(f"{error.detail}: copy etc/rpc.json.example to it, and edit the copy") from error
    except StateError as error:
        if error.code != secretfile.MALFORMED:
            raise
        raise UsageError(error.detail) from None
    schema = "Chains" if "chains" in found else "Chain"
    faults = [fault for error in _validator(schema).iter_errors(found) for fault in _faults(error)]
    if faults := faults or list(_contradictions(found)):
        raise UsageError(_report(path, text, faults))
    return tuple(_chain(content) for _, content in _chains(found))


@cache
def _validator(schema: str) -> jsonschema.Draft202012Validator:
    text = Path(__file__).with_name("rpc.schema.json").read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{schema}", "$defs": json.loads(text)["$defs"]})


def _report(path: Path, text: bytes, faults: Iterable[Fault]) -> str:
    """A heading, and a line for each fault with the line of the file, in the order of the file."""
    line_of = lines(text.decode())
    found = sorted((line_of[place], place, fault) for place, fault in faults)
    said = (f"{path.name}:{line}: {_printable(place) or 'the file'}: {fault}" for line, place, fault in found)
    return "\n".join([f"{path} has {len(found)} {'faults' if len(found) > 1 else 'fault'}:", *said])


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text[:200])


def _faults(error: jsonschema.ValidationError) -> Iterator[Fault]:
    place = pointer(error.absolute_path)
    expected = cast(dict[str, Any], error.schema).get("x-expected")
    if error.validator == "additionalProperties":
        yield from _unknown(error)
    elif not _SECRET.isdisjoint(map(str, error.absolute_path)):
        yield place, f"{expected or 'is not valid'} (its value is not shown, because it may be secret)"
    else:
        yield place, f"{error.instance!r} {expected}" if expected else error.message[:200]


def _unknown(error: jsonschema.ValidationError) -> Iterator[Fault]:
    known = sorted(cast(dict[str, Any], error.schema)["properties"])
    for name in sorted(cast(dict[str, Any], error.instance).keys() - set(known)):
        near = difflib.get_close_matches(name, known, n=1)
        suggested = f"; did you mean {near[0]}?" if near else ""
        yield pointer([*error.absolute_path, name]), f"is unknown{suggested}; known: {', '.join(known)}"


def _chains(found: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The content of each chain, with its path in the file."""
    if "chains" not in found:
        return [("", found)]
    return [(f"/chains/{at}", each) for at, each in enumerate(found["chains"])]


def _contradictions(found: dict[str, Any]) -> Iterator[Fault]:
    names: list[str] = []
    for path, chain in _chains(found):
        if chain["chain"] in names:
            yield f"{path}/chain", f"{chain['chain']} is listed twice"
        names.append(chain["chain"])
        if ("url" in chain) == ("urls" in chain):
            yield path, "either url or urls must be given"
        for name, url in _urls(chain):
            if not _has_host(url):
                yield f"{path}/{name}", "is not a URL with a host and a valid port"
        if not chain.get("pools") and not chain.get("factories"):
            yield path, "has neither pools nor factories, so there is nothing to read"
        yield from _pool_faults(path, chain.get("pools", []))
        for name, address in _addresses(chain):
            try:
                pool_address(address)
            except ValueError as error:
                yield f"{path}/{name}", str(error)


def _pool_faults(path: str, pools: list[dict[str, Any]]) -> Iterator[Fault]:
    symbols = [pool["symbol"] for pool in pools]
    for at, pool in enumerate(pools):
        if pool["symbol"] in symbols[:at]:
            yield f"{path}/pools/{at}/symbol", f"{pool['symbol']} is listed twice"
        if KINDS[pool["kind"]].is_singleton != (ID_SEPARATOR in pool["address"]):
            expected = "needs" if KINDS[pool["kind"]].is_singleton else "must not have"
            yield f"{path}/pools/{at}/address", f"a pool of {pool['kind']} {expected} #, then the id of the pool"


def _urls(chain: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for at, each in enumerate(chain.get("urls", [])):
        yield f"urls/{at}", each if isinstance(each, str) else each["url"]
    yield from ((name, chain[name]) for name in ("url", "ws_url") if name in chain)


def _has_host(url: str) -> bool:
    try:
        return bool(urlsplit(url).hostname) and urlsplit(url).port != 0
    except ValueError:
        return False


def _addresses(chain: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield from ((f"pools/{at}/address", pool["address"]) for at, pool in enumerate(chain.get("pools", [])))
    for at, factory in enumerate(chain.get("factories", [])):
        yield f"factories/{at}/address", factory["address"]
        for name in ("tokens", "exclude"):
            yield from ((f"factories/{at}/{name}/{place}", each) for place, each in enumerate(factory.get(name, [])))
    for name, addresses in chain.get("quotes", {}).items():
        yield from ((f"quotes/{name}/{place}", each) for place, each in enumerate(addresses))


def pool_address(value: str) -> str:
    """The address of a pool in lower case, with the id of a singleton's pool. Raises ValueError for a bad checksum."""
    contract, separator, id = value.partition(ID_SEPARATOR)
    return evm.address(contract) + separator + id.lower()


def _chain(found: dict[str, Any]) -> Chain:
    confirmations = found["confirmations"]
    shared = {"headers": found.get("headers", {}), "requests_per_s": found.get("requests_per_s", _DEFAULT_RATE)}
    urls = [{"url": each} if isinstance(each, str) else each for each in found.get("urls", [found.get("url")])]
    quotes = found.get("quotes", {})
    return Chain(
        name=found["chain"],
        chain_id=found["chain_id"],
        endpoints=tuple(Endpoint(**{**shared, **each}) for each in urls),
        confirmations=None if confirmations == FINALIZED else confirmations,
        poll_s=float(found.get("poll_s", 1)),
        verify_s=float(found.get("verify_s", 3600)),
        ws_url=found.get("ws_url"),
        pools=tuple(_pool(found["chain"], pool) for pool in found.get("pools", [])),
        factories=tuple(map(_factory, found.get("factories", []))),
        native=Token(**found["native"]) if "native" in found else ETHER,
        quotes=Quotes(_lower(quotes.get("usd", [])), _lower(quotes.get("native", []))),
    )


def _pool(chain: str, found: dict[str, Any]) -> ListedPool:
    decimals = found.get("decimals")
    return ListedPool(
        symbol=f"{chain}:{found['symbol']}",
        address=pool_address(found["address"]),
        kind=found["kind"],
        decimals=None if decimals is None else (decimals[0], decimals[1]),
        invert=found.get("invert", False),
        start_block=found.get("start_block", 0),
    )


def _factory(found: dict[str, Any]) -> Factory:
    return Factory(
        kind=found["kind"],
        address=evm.address(found["address"]),
        start_block=found["start_block"],
        tokens=_lower(found.get("tokens", [])),
        exclude=_lower(found.get("exclude", [])),
        min_trades=found.get("min_trades", 0),
    )


def _lower(addresses: Iterable[str]) -> frozenset[str]:
    return frozenset(map(pool_address, addresses))
