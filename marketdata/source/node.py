"""A chain as its provider shows it: blocks, logs and the state of pools, each checked before it is believed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from marketdata.errors import ProviderError
from marketdata.source import evm
from marketdata.source.evm import Header, Log
from marketdata.source.provider import Wanted
from marketdata.source.rpc import Call, Rpc

_T = TypeVar("_T")
_GENESIS = 0


class Node:
    """Typed calls of one provider. An answer that is malformed or contradicts itself raises ProviderError."""

    def __init__(self, rpc: Rpc, chain_id: int) -> None:
        self._rpc = rpc
        self._chain_id = chain_id

    @property
    def name(self) -> str:
        return self._rpc.name

    @property
    def requests(self) -> int:
        return self._rpc.requests

    def interrupt(self) -> None:
        self._rpc.interrupt()

    def close(self) -> None:
        self._rpc.close()

    def head(self, *, with_finalized: bool) -> tuple[Header, int]:
        """The newest block, and the number of the newest final one if that is asked for, else 0.

        The chain is asked for each time: a provider may be moved to another one behind its address.
        """
        calls = [Call("eth_chainId"), Call("eth_getBlockByNumber", ("latest", False))]
        if with_finalized:
            calls.append(Call("eth_getBlockByNumber", ("finalized", False)))
        chain, latest, *finalized = self._rpc.batch(calls)
        self._check_chain(chain)
        number = self._read(evm.header, finalized[0], "the final block").number if finalized else _GENESIS
        return self._read(evm.header, latest, "the newest block"), number

    def check_chain(self) -> None:
        self._check_chain(self._rpc.call("eth_chainId"))

    def headers(self, numbers: Sequence[int]) -> list[Header]:
        """The blocks of these numbers, of which the provider must have every one."""
        return self._headers(numbers, self._rpc.batch(_blocks(numbers)))

    def _headers(self, numbers: Sequence[int], found: Sequence[Any]) -> list[Header]:
        headers = [self._read(evm.header, each, f"block {number}") for number, each in zip(numbers, found, strict=True)]
        for number, header in zip(numbers, headers, strict=True):
            if header.number != number:
                raise self._wrong(f"block {number}", f"is block {header.number}")
        return headers

    def find_headers(self, numbers: Sequence[int]) -> list[Header | None]:
        """The blocks of these numbers; None for one that the chain does not have."""
        found = self._rpc.batch(_blocks(numbers))
        return [
            None if each is None else self._read(evm.header, each, f"block {number}")
            for number, each in zip(numbers, found, strict=True)
        ]

    def logs_of(self, headers: Sequence[Header], wanted: Wanted) -> list[list[Log]]:
        """The wanted logs of each of these blocks, asked for by their hashes."""
        calls = []
        for header in headers:
            calls.append(Call("eth_getLogs", ({"blockHash": header.hash, **_filter(wanted)},)))
            # The same provider may ask different nodes: one that does not know the block might find no logs of it.
            calls.append(Call("eth_getBlockByHash", (header.hash, False)))
        answers = self._rpc.batch(calls)
        found = []
        for at, header in enumerate(headers):
            if answers[2 * at + 1] is None:
                raise self._wrong(f"block {header.number}", f"is not known by its hash {header.hash}")
            logs = self._logs(answers[2 * at], wanted)
            self._check(logs, {header.number: header})
            found.append(logs)
        return found

    def logs_between(self, first: int, last: int, wanted: Wanted) -> tuple[list[Log], dict[int, Header]]:
        """The wanted logs of a range of blocks that no reorganisation reaches any more, with the blocks that have one,
        and the first and the last block of the range.

        RangeRefused when the provider wants to be asked for fewer blocks.
        """
        # A node that does not have the last block, or is on another chain, would find no logs.
        numbers = sorted({first, last})
        logs_call = Call("eth_getLogs", ({"fromBlock": hex(first), "toBlock": hex(last), **_filter(wanted)},))
        answer, chain, *found = self._rpc.batch([logs_call, Call("eth_chainId"), *_blocks(numbers)])
        self._check_chain(chain)
        ends = {header.number: header for header in self._headers(numbers, found)}
        logs = self._logs(answer, wanted)
        outside = [log.block_number for log in logs if not first <= log.block_number <= last]
        if outside:
            raise self._wrong(f"the logs of blocks {first} to {last}", f"include one of block {outside[0]}")
        others = sorted({log.block_number for log in logs} - ends.keys())
        headers = ends | {header.number: header for header in self.headers(others)}
        self._check(logs, headers)
        return logs, headers

    def read_contract(self, address: str, function: str) -> bytes:
        """What a function without arguments returns; empty when there is no contract or it has no such function."""
        call = {"to": address, "data": evm.selector(function)}
        try:
            return self._read(evm.data, self._rpc.call("eth_call", call, "latest"), f"{function} of {address}")
        except ProviderError as error:
            if error.code == "call_refused" and "revert" in error.detail:
                return b""
            raise

    def _check_chain(self, found: Any) -> None:
        chain = self._read(evm.quantity, found, "the chain id")
        if chain != self._chain_id:
            raise ProviderError(
                f"{self.name} is on the chain {chain}, and rpc.json says chain_id {self._chain_id}", code="wrong_chain"
            )

    def _logs(self, answer: Any, wanted: Wanted) -> list[Log]:
        if not isinstance(answer, list):
            raise self._wrong("the answer of eth_getLogs", "is not a list")
        logs = [self._read(evm.log, each, "a log") for each in answer]
        # The filter names addresses and topics apart, so a pool of one kind may answer with the event of another.
        return sorted(
            (log for log in logs if log.topics and wanted.get(log.address) == log.topics[0]),
            key=lambda log: (log.block_number, log.position),
        )

    def _check(self, logs: Iterable[Log], headers: Mapping[int, Header]) -> None:
        for log in logs:
            header = headers.get(log.block_number)
            if header is None or header.hash != log.block_hash:
                raise self._wrong(f"a log of block {log.block_number}", "is of a block that is not in the chain")
            if header.bloom and not evm.may_contain(header.bloom, log.address, log.topics[0]):
                raise self._wrong(f"a log of block {log.block_number}", "is not in the block's bloom filter")

    def _read(self, reader: Callable[[Any], _T], value: Any, what: str) -> _T:
        try:
            return reader(value)
        except ValueError as error:
            raise self._wrong(what, str(error)) from error

    def _wrong(self, what: str, detail: str) -> ProviderError:
        return ProviderError(f"{self.name}: {what} {detail}", code="wrong_answer")


def may_have(header: Header, wanted: Wanted) -> bool:
    """Whether the block can have a wanted log. Some chains leave bloom filters empty: an empty one says nothing, unless
    the block has no transactions."""
    if not header.bloom:
        return header.has_transactions
    return any(evm.may_contain(header.bloom, address, topic) for address, topic in wanted.items())


def _blocks(numbers: Iterable[int]) -> list[Call]:
    return [Call("eth_getBlockByNumber", (hex(number), False)) for number in numbers]


def _filter(wanted: Wanted) -> dict[str, Any]:
    return {"address": sorted(wanted), "topics": [sorted(set(wanted.values()))]}
