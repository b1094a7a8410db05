"""The provider of a chain: blocks, logs of contracts, and contract calls.

:class:`Provider` is the interface. :class:`marketdata.source.failover.Failover` implements it with endpoints, each an
:class:`RpcProvider`; and :class:`marketdata.demo.chain.DemoProvider` without a network.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from marketdata.errors import ProviderError
from marketdata.source import evm
from marketdata.source.evm import Block, Header, Log, Receipt
from marketdata.source.log_filter import LogFilter
from marketdata.source.proof import BlockLogs, RangeContradicted
from marketdata.source.rpc import Call, Refusal, Rpc


class Provider(Protocol):
    """Every method raises ProviderError if the provider does not answer, or if its answer is malformed or contradicts
    another answer."""

    @property
    def name(self) -> str:
        """The provider's name in messages."""

    @property
    def requests(self) -> Mapping[str, int]:
        """The number of HTTP requests so far, by host and port."""

    @property
    def switches(self) -> int:
        """How often another endpoint than before has answered, because that one had failed or had recovered."""

    @property
    def contradicted_ranges(self) -> int:
        """How many ranges so far had logs that disagreed with headers or with each other."""

    @property
    def contradictions(self) -> int:
        """Of how many blocks so far events were left out that the block's bloom filter names."""

    @property
    def unproved_blocks(self) -> int:
        """How many blocks so far were read without anything that proves that no event was left out."""

    def interrupt(self) -> None:
        """End a request that another thread waits for. That thread gets ProviderError."""

    def close(self) -> None:
        """Close the connection. No other method is called afterwards."""

    def distrust(self, about: str) -> bool:
        """Report that the last answer contradicts a final block; ``about`` is for the log. Returns False if no other
        endpoint is left to ask, so that the answer has to be taken as true."""

    def head(self, *, with_finalized: bool) -> tuple[Header, int]:
        """The newest block, and the number of the newest final block. Without ``with_finalized``, that number is 0."""

    def check_chain(self) -> None:
        """Raise ProviderError (``wrong_chain``) when the provider is on another chain than ``rpc.json`` names."""

    def headers(self, numbers: Sequence[int]) -> list[Header]:
        """The blocks with these numbers. Raises ProviderError if a block is missing."""

    def find_headers(self, numbers: Sequence[int]) -> list[Header | None]:
        """The blocks with these numbers; None for each that the chain does not have."""

    def logs_of(self, headers: Sequence[Header], wanted: LogFilter) -> list[list[Log]]:
        """The wanted logs of each block, with its time. The blocks are identified by their hashes."""

    def prove(self, headers: Sequence[Header], logs: Sequence[list[Log]], wanted: LogFilter) -> list[BlockLogs]:
        """Look for what ``logs``, the wanted logs of each block, lack by the block's bloom filter: ask again, then all
        other endpoints, then for the receipts of the block."""

    def receipt_logs(self, headers: Sequence[Header], wanted: LogFilter) -> list[list[Log] | None]:
        """The wanted logs of each block by its receipts, which prove that they are complete; None for a block of which
        no endpoint proves it."""

    def logs_between(
        self, first: int, last: int, wanted: LogFilter, ends: Sequence[int]
    ) -> tuple[list[Log], dict[int, Header]]:
        """The wanted logs of the final blocks ``first`` to ``last``, both inclusive, with their times; and headers by
        number, at least those of the blocks ``ends``, of which one must be ``last`` or a later block.

        Raises RangeRefused when the provider refuses a range of this size, and RangeContradicted when it left out an
        event of one of those blocks whose headers were read.
        """

    def read_contract(self, address: str, function: str) -> bytes:
        """The result of a function without arguments; empty when the contract or the function does not exist."""

    def read_contracts(self, calls: Sequence[tuple[str, str]]) -> list[bytes]:
        """The results of functions without arguments, by the contract's address and the function. A result is empty
        also when the contract ends the call with an error, or exceeds a limit of the provider."""


def proved_logs(provider: Provider, headers: Sequence[Header], wanted: LogFilter) -> list[BlockLogs]:
    """The wanted logs of each block, checked with the block's bloom filter."""
    asked = [header for header in headers if wanted.may_be_in(header)]
    logs = provider.logs_of(asked, wanted)
    found = {header.number: BlockLogs(each) for header, each in zip(asked, logs, strict=True)}
    doubted = [header for header in asked if wanted.unseen(header.bloom, found[header.number].logs)]
    if doubted:
        proved = provider.prove(doubted, [found[header.number].logs for header in doubted], wanted)
        found |= {header.number: each for header, each in zip(doubted, proved, strict=True)}
    return [found.get(header.number, BlockLogs([])) for header in headers]


def read_range(
    provider: Provider, first: int, last: int, wanted: LogFilter, ends: Sequence[int]
) -> tuple[list[Log], dict[int, Header], list[tuple[Block, frozenset[str]]]]:
    """Like :meth:`Provider.logs_between`, but a range that is contradicted is read block by block. Returns also the
    blocks of which logs are missing nevertheless, each with the addresses that lack them."""
    try:
        return *provider.logs_between(first, last, wanted, ends), []
    except RangeContradicted:
        pass
    logs, doubted = [], []
    for start in range(first, last + 1, _STEP):
        headers = provider.headers(range(start, min(start + _STEP, last + 1)))
        for header, found in zip(headers, proved_logs(provider, headers, wanted), strict=True):
            logs += found.logs
            if found.unseen:
                doubted.append((header.block, found.unseen))
    return logs, {header.number: header for header in provider.headers(ends)}, doubted


def complete_range(provider: Provider, first: int, last: int, wanted: LogFilter) -> list[Log]:
    """The wanted logs of the final blocks ``first`` to ``last``. Raises ProviderError also if logs of a contradicted
    range are missing."""
    logs, _, doubted = read_range(provider, first, last, wanted, (last,))
    if doubted:
        raise ProviderError(f"{provider.name} left out events of block {doubted[0][0].number}", code="wrong_answer")
    return logs


def newest_and_final(provider: Provider, confirmations: int | None) -> tuple[Header, int]:
    """The newest block, and the number of the newest final block.

    The final number is the newest number minus ``confirmations``, so it may be negative. If ``confirmations`` is None,
    the final number is the one that the provider names.
    """
    newest, final = provider.head(with_finalized=confirmations is None)
    return newest, final if confirmations is None else newest.number - confirmations


_T = TypeVar("_T")
_GENESIS = 0
_CONTROL = Call("eth_call", ({"to": "0x" + "00" * 20, "data": evm.selector("decimals()")}, "latest"))
"""A call that every provider that supports calls can answer: the account has no code, so the result is empty."""
SAMPLE = 2
"""How many blocks of a range, of those whose logs name a time, are compared with their headers. If there are that many,
a block without logs replaces one of them."""
_RECEIPTS = 8
"""The blocks of which the receipts are asked for in one request. Those of a block may have a megabyte."""
_STEP = 100
"""How many blocks of a contradicted range are read together."""

_log = logging.getLogger("marketdata.source")


class RpcProvider:
    """One endpoint, over JSON-RPC. Every answer is checked."""

    def __init__(self, rpc: Rpc, chain_id: int) -> None:
        self.rpc = rpc
        self._chain_id = chain_id
        self.contradicted_ranges = 0

    @property
    def name(self) -> str:
        return self.rpc.name

    @property
    def requests(self) -> int:
        return self.rpc.requests

    @property
    def wait(self) -> float:
        """How many seconds the next call has to wait for the budget."""
        return self.rpc.budget.wait

    def beside(self) -> RpcProvider:
        """This provider over another connection, for another thread. Both share one budget."""
        return RpcProvider(self.rpc.beside(), self._chain_id)

    def interrupt(self) -> None:
        self.rpc.interrupt()

    def close(self) -> None:
        self.rpc.close()

    def head(self, *, with_finalized: bool) -> tuple[Header, int]:
        # The chain id is read each time: the host of the URL may begin to serve another chain.
        calls = [Call("eth_chainId"), Call("eth_getBlockByNumber", ("latest", False))]
        if with_finalized:
            calls.append(Call("eth_getBlockByNumber", ("finalized", False)))
        chain, latest, *finalized = self.rpc.batch(calls)
        self._check_chain(chain)
        number = self._read(evm.header, finalized[0], "the final block").number if finalized else _GENESIS
        return self._read(evm.header, latest, "the newest block"), number

    def check_chain(self) -> None:
        self._check_chain(self.rpc.call("eth_chainId"))

    def headers(self, numbers: Sequence[int]) -> list[Header]:
        return self._headers(numbers, self.rpc.batch(_blocks(numbers)))

    def _headers(self, numbers: Sequence[int], found: Sequence[Any]) -> list[Header]:
        headers = [self._read(evm.header, each, f"block {number}") for number, each in zip(numbers, found, strict=True)]
        for number, header in zip(numbers, headers, strict=True):
            if header.number != number:
                raise self._wrong(f"block {number}", f"is block {header.number}")
        return headers

    def find_headers(self, numbers: Sequence[int]) -> list[Header | None]:
        found = self.rpc.batch(_blocks(numbers))
        return [
            None if each is None else self._read(evm.header, each, f"block {number}")
            for number, each in zip(numbers, found, strict=True)
        ]

    def logs_of(self, headers: Sequence[Header], wanted: LogFilter) -> list[list[Log]]:
        calls = []
        for header in headers:
            calls.append(Call("eth_getLogs", ({"blockHash": header.hash, **wanted.parameters()},)))
            # A provider may ask a different node for each call. A node that lacks the block might return no logs.
            calls.append(Call("eth_getBlockByHash", (header.hash, False)))
        answers = self.rpc.batch(calls)
        found = []
        for at, header in enumerate(headers):
            if answers[2 * at + 1] is None:
                raise self._wrong(f"block {header.number}", f"is not known by its hash {header.hash}")
            logs = self._logs(answers[2 * at], wanted)
            self._check(logs, {header.number: header})
            found.append([log._replace(time=header.time) for log in logs])
        return found

    def logs_between(
        self, first: int, last: int, wanted: LogFilter, ends: Sequence[int]
    ) -> tuple[list[Log], dict[int, Header]]:
        # A node that lacks the last block, or is on another chain, would return no logs. So the request also asks for
        # the chain and for both ends.
        answer, chain, *found = self.rpc.batch(
            [_logs_call(first, last, wanted), Call("eth_chainId"), *_blocks(ends)]
        )  # fmt: skip
        self._check_chain(chain)
        headers = {header.number: header for header in self._headers(ends, found)}
        logs = self._logs(answer, wanted)
        outside = [log.block_number for log in logs if not first <= log.block_number <= last]
        if outside:
            raise self._wrong(f"the logs of blocks {first} to {last}", f"include one of block {outside[0]}")
        dated = {log.block_number for log in logs if log.time}
        undated = {log.block_number for log in logs if not log.time}
        sample = _sample(first, last, dated | undated, dated - undated - headers.keys())
        headers |= self._missing(headers, undated | sample)
        try:
            _check_agreement(logs, headers)
        except ValueError as error:
            self.contradicted_ranges += 1
            _log.warning(
                "%s contradicts itself: %s; blocks %d to %d are read header by header", self.name, error, first, last
            )
            headers |= self._missing(headers, dated)
        self._check(logs, headers)
        return [
            log._replace(time=headers[log.block_number].time) if log.block_number in headers else log for log in logs
        ], headers

    def receipts(self, headers: Sequence[Header]) -> list[list[Receipt] | None]:
        """The receipts of each block; None if the endpoint refuses the call."""
        found: list[list[Receipt] | None] = []
        for at in range(0, len(headers), _RECEIPTS):
            part = headers[at : at + _RECEIPTS]
            answers = self.rpc.each([Call("eth_getBlockReceipts", (hex(header.number),)) for header in part])
            found += [
                None if isinstance(answer, Refusal) else self._receipts(header.number, answer)
                for header, answer in zip(part, answers, strict=True)
            ]
        return found

    def _receipts(self, number: int, answer: Any) -> list[Receipt]:
        return [self._read(evm.receipt, each, f"a receipt of block {number}") for each in answer or ()]

    def unchecked_logs(self, first: int, last: int, wanted: LogFilter) -> list[Log]:
        """The logs that ``logs_between`` would check, as the endpoint names them."""
        return self._logs(self.rpc.batch([_logs_call(first, last, wanted)])[0], wanted)

    def _missing(self, headers: Mapping[int, Header], numbers: Iterable[int]) -> dict[int, Header]:
        """The headers of those blocks that ``headers`` lacks."""
        found = self.headers(sorted(set(numbers) - headers.keys()))
        return {header.number: header for header in found}

    def read_contract(self, address: str, function: str) -> bytes:
        return self.read_contracts([(address, function)])[0]

    def read_contracts(self, calls: Sequence[tuple[str, str]]) -> list[bytes]:
        asked = [Call("eth_call", ({"to": to, "data": evm.selector(function)}, "latest")) for to, function in calls]
        answers = self.rpc.each(asked)
        # A refusal other than a revert may be temporary. If the provider answers a call of an account without code, the
        # contract is the cause, for example by an invalid instruction.
        again = [at for at, answer in enumerate(answers) if isinstance(answer, Refusal) and not answer.is_revert]
        if again:
            *found, control = self.rpc.each([*(asked[at] for at in again), _CONTROL])
            for at, answer in zip(again, found, strict=True):
                answers[at] = answer
            if isinstance(control, Refusal):
                raise ProviderError(f"{self.name}: {control.detail}", code="call_refused")
        return [
            b"" if isinstance(answer, Refusal) else self._read(evm.data, answer, f"{function} of {to}")
            for (to, function), answer in zip(calls, answers, strict=True)
        ]

    def _check_chain(self, found: Any) -> None:
        chain = self._read(evm.quantity, found, "the chain id")
        if chain != self._chain_id:
            raise ProviderError(
                f"{self.name} is on the chain {chain}, and rpc.json says chain_id {self._chain_id}", code="wrong_chain"
            )

    def _logs(self, answer: Any, wanted: LogFilter) -> list[Log]:
        if not isinstance(answer, list):
            raise self._wrong("the answer of eth_getLogs", "is not a list")
        logs = [self._read(evm.log, each, "a log") for each in answer]
        # The filter matches every address with every topic: a pool may return events of another kind of pool.
        return sorted(
            (log for log in logs if wanted.selects(log)),
            key=lambda log: (log.block_number, log.position),
        )

    def _check(self, logs: Iterable[Log], headers: Mapping[int, Header]) -> None:
        """Compare the logs with the headers of their blocks, where these are given."""
        for log in logs:
            header = headers.get(log.block_number)
            if header is None:
                continue
            if header.hash != log.block_hash:
                raise self._wrong(f"a log of block {log.block_number}", "is of a block that is not in the chain")
            if header.bloom and not all(evm.is_in_bloom(header.bloom, each) for each in (log.address, log.topics[0])):
                raise self._wrong(f"a log of block {log.block_number}", "is not in the block's bloom filter")

    def _read(self, reader: Callable[[Any], _T], value: Any, what: str) -> _T:
        try:
            return reader(value)
        except ValueError as error:
            raise self._wrong(what, str(error)) from error

    def _wrong(self, what: str, detail: str) -> ProviderError:
        return ProviderError(f"{self.name}: {what} {detail}", code="wrong_answer")


def _check_agreement(logs: Iterable[Log], headers: Mapping[int, Header]) -> None:
    """Raise ValueError if the logs disagree with a header or with each other about a block, or if the time decreases.
    A log without a time agrees with any time."""
    blocks = {number: header.block for number, header in headers.items()}
    for log in logs:
        named = log.block if log.time else log.block._replace(time=headers[log.block_number].time)
        known = blocks.setdefault(log.block_number, named)
        if named != known:
            raise ValueError(f"block {known.number} is {known.hash} at {known.time}, and a log says {named[1:]}")
    times = [blocks[number].time for number in sorted(blocks)]
    if times != sorted(times):
        raise ValueError("the time decreases from a block to a later one")


def _sample(first: int, last: int, traded: Collection[int], unread: Collection[int]) -> set[int]:
    """The blocks whose headers are read although none has to be. ``traded`` are those with logs; of ``unread``, these
    name their time. With a block that has no logs the sample is as large as without one. A range without logs has none:
    its ends must do."""
    count = min(SAMPLE, len(unread))
    silent = [number for number in range(first, last + 1) if number not in traded] if count == SAMPLE else []
    chosen = {random.choice(silent)} if silent else set()
    return chosen | set(random.sample(sorted(unread), count - len(chosen)))


def _logs_call(first: int, last: int, wanted: LogFilter) -> Call:
    return Call("eth_getLogs", ({"fromBlock": hex(first), "toBlock": hex(last), **wanted.parameters()},))


def _blocks(numbers: Iterable[int]) -> list[Call]:
    return [Call("eth_getBlockByNumber", (hex(number), False)) for number in numbers]
