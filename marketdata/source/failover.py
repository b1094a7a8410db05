"""The provider of a chain, which may have several endpoints: the first one that works answers.

Every answer comes from one endpoint. Final ranges are read from any endpoint, and compared with the endpoint that is
asked for the newest block. An endpoint that failed, or that contradicted a final block, is not asked during a pause.
Each further failure makes the pause longer.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from time import monotonic
from typing import TypeVar

from marketdata.errors import ProviderError, RangeRefused
from marketdata.source.evm import Header, Log
from marketdata.source.log_filter import LogFilter
from marketdata.source.proof import BlockLogs, RangeContradicted
from marketdata.source.prover import Prover
from marketdata.source.provider import RpcProvider
from marketdata.source.rpc import MAX_RETRY_AFTER, MIN_PAUSE, TRIES, Rpc
from marketdata.source.rpc_file import Chain

_MIN_PAUSE, _MAX_PAUSE = 30.0, 600.0
_TRIES, _PATIENCE = 2, 1.0
"""How often a request is sent, and the longest ``Retry-After`` in seconds that is obeyed, if another endpoint can be
asked instead."""

_FALSE_ALARMS = 0.05
"""In ranges, about this part of the blocks is asked for receipts at most because a bloom filter names what is not
there."""

_log = logging.getLogger("marketdata.source")
_T = TypeVar("_T")


def connected(
    chain: Chain,
    stopping: threading.Event,
    *,
    tries: int = TRIES,
    retry_pause: float = MIN_PAUSE,
    clock: Callable[[], float] = monotonic,
) -> Failover:
    """The provider of a chain. Setting ``stopping`` ends its waits. ``tries`` is how often a request is sent if the
    chain has one endpoint; ``retry_pause`` is the shortest pause between two tries, in seconds."""
    patience = MAX_RETRY_AFTER
    if len(chain.endpoints) > 1:
        tries, patience = _TRIES, _PATIENCE
    rpcs = [
        Rpc(each, stopping=stopping, tries=tries, patience=patience, min_pause=retry_pause) for each in chain.endpoints
    ]
    providers = [RpcProvider(rpc, chain.chain_id) for rpc in rpcs]
    return Failover(providers, stopping, [_Health(clock) for _ in providers])


class _Health:
    """Whether an endpoint is asked. All threads that use the endpoint share it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._lock = threading.Lock()
        self._clock = clock
        self._pause = 0.0
        self._is_liar = False
        self.retry_at = -inf

    @property
    def is_paused(self) -> bool:
        return self._clock() < self.retry_at

    @property
    def is_distrusted(self) -> bool:
        return self._is_liar and self.is_paused

    def fail(self, *, is_liar: bool = False) -> float:
        """Begin a pause. Returns its seconds; 0 if the endpoint has failed in a pause that began before."""
        with self._lock:
            if self.is_paused and not is_liar:
                return 0.0
            self._is_liar = is_liar
            now = self._clock()
            # If the endpoint has worked for longer than its last pause, the pauses begin anew.
            has_recovered = now > self.retry_at + self._pause
            self._pause = _MIN_PAUSE if has_recovered else min(_MAX_PAUSE, self._pause * 2)
            self.retry_at = now + self._pause
            return self._pause

    def trust(self) -> None:
        self.retry_at = -inf


class Failover:
    """Asks endpoints in the order of preference. Used by one thread; ``beside`` makes another one for another thread.
    With a single endpoint, its errors are raised as they are."""

    def __init__(self, endpoints: Sequence[RpcProvider], stopping: threading.Event, healths: Sequence[_Health]) -> None:
        self._endpoints = endpoints
        self._stopping = stopping
        self._healths = healths
        self._answered = self._preferred = 0
        self.switches = 0
        self._unchecked_blocks = 0
        self._prover = Prover(self._proving, stopping)

    def beside(self) -> Failover:
        """This provider over other connections. They share the budgets and the pauses."""
        return Failover([each.beside() for each in self._endpoints], self._stopping, self._healths)

    @property
    def name(self) -> str:
        """The name of the endpoint that answered last."""
        return self._endpoints[self._answered].name

    @property
    def requests(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for each in self._endpoints:
            found[each.name] = found.get(each.name, 0) + each.requests
        return found

    @property
    def contradicted_ranges(self) -> int:
        return sum(each.contradicted_ranges for each in self._endpoints)

    @property
    def contradictions(self) -> int:
        return self._prover.contradictions

    @property
    def unproved_blocks(self) -> int:
        return self._unchecked_blocks + self._prover.unproved_blocks

    def interrupt(self) -> None:
        for each in self._endpoints:
            each.interrupt()

    def close(self) -> None:
        for each in self._endpoints:
            each.close()

    def distrust(self, about: str) -> bool:
        self._pause(self._answered, f"{self.name} contradicts a final block: {about}", is_liar=True)
        if all(each.is_distrusted for each in self._healths):
            for each in self._healths:
                each.trust()
            return False
        return True

    # -- questions ---------------------------------------------------------------------------------------------------

    def head(self, *, with_finalized: bool) -> tuple[Header, int]:
        return self._ask(lambda endpoint: endpoint.head(with_finalized=with_finalized))

    def check_chain(self) -> None:
        self._ask(lambda endpoint: endpoint.check_chain())

    def headers(self, numbers: Sequence[int]) -> list[Header]:
        return self._ask(lambda endpoint: endpoint.headers(numbers))

    def find_headers(self, numbers: Sequence[int]) -> list[Header | None]:
        return self._ask(lambda endpoint: endpoint.find_headers(numbers))

    def logs_of(self, headers: Sequence[Header], wanted: LogFilter) -> list[list[Log]]:
        return self._ask(lambda endpoint: endpoint.logs_of(headers, wanted))

    def logs_between(
        self, first: int, last: int, wanted: LogFilter, ends: Sequence[int]
    ) -> tuple[list[Log], dict[int, Header]]:
        def read(endpoint: RpcProvider) -> tuple[list[Log], dict[int, Header]]:
            logs, headers = endpoint.logs_between(first, last, wanted, ends)
            self._compare(endpoint, headers[max(ends)])
            return logs, headers

        logs, headers = self._ask(read, is_final=True)
        self._check_sample(first, last, logs, headers, wanted)
        return logs, headers

    def prove(self, headers: Sequence[Header], logs: Sequence[list[Log]], wanted: LogFilter) -> list[BlockLogs]:
        return self._prover.prove(headers, logs, wanted)

    def receipt_logs(self, headers: Sequence[Header], wanted: LogFilter) -> list[list[Log] | None]:
        return self._prover.receipt_logs(headers, wanted)

    def read_contract(self, address: str, function: str) -> bytes:
        return self._ask(lambda endpoint: endpoint.read_contract(address, function))

    def read_contracts(self, calls: Sequence[tuple[str, str]]) -> list[bytes]:
        return self._ask(lambda endpoint: endpoint.read_contracts(calls))

    # ----------------------------------------------------------------------------------------------------------------

    def _ask(self, question: Callable[[RpcProvider], _T], *, is_final: bool = False) -> _T:
        """The answer of the first endpoint that has one. ``is_final`` is True for a question to which all endpoints
        should have the same answer."""
        order = self._order(is_final=is_final)
        failed: list[ProviderError] = []
        refused: dict[int, ProviderError] = {}
        for at in order:
            try:
                answer = question(self._endpoints[at])
            except ProviderError as error:
                is_refusal = isinstance(error, RangeRefused)
                if len(self._endpoints) == 1 or self._stopping.is_set() or (is_refusal and at == min(order)):
                    raise
                if error.may_be_too_large:
                    refused[at] = error
                else:
                    failed.append(error)
                    self._pause(at, error.detail)
            else:
                self._note(at, refused, is_final=is_final)
                return answer
        # With a refusal, the caller can ask for less.
        raise min(refused.items())[1] if refused else _joined(failed)

    def _proving(self) -> list[RpcProvider]:
        """The endpoints that are asked for a proof: first the one that answered last."""
        others = [at for at in self._working() if at != self._answered]
        return [self._endpoints[at] for at in (self._answered, *others)]

    def _check_sample(
        self, first: int, last: int, logs: Iterable[Log], headers: Mapping[int, Header], wanted: LogFilter
    ) -> None:
        """Raise RangeContradicted if a block of the range whose header was read lacks events."""
        by_block: dict[int, list[Log]] = {number: [] for number in headers if first <= number <= last}
        for log in logs:
            if log.block_number in by_block:
                by_block[log.block_number].append(log)
        self._unchecked_blocks += last - first + 1 - len(by_block)
        doubted = [
            headers[number]
            for number, found in by_block.items()
            if wanted.unseen(headers[number].bloom, found)
            # A filter that is nearly full names almost everything: few such suspicions are worth their requests.
            and random.random() * wanted.false_alarm(headers[number].bloom) < _FALSE_ALARMS
        ]
        self._unchecked_blocks += sum(not headers[number].bloom for number in by_block)
        if not doubted:
            return
        read = [by_block[header.number] for header in doubted]
        for header, before, proved in zip(doubted, read, self.prove(doubted, read, wanted), strict=True):
            if proved.unseen or len(proved.logs) > len(before):
                raise RangeContradicted(
                    f"{self.name} left out events of block {header.number}; the blocks {first} to {last} are read one "
                    "by one"
                )

    def _compare(self, endpoint: RpcProvider, final: Header) -> None:
        """Raise ProviderError if ``final``, a header that the endpoint named, is not the one of the endpoint that is
        asked for the newest block. The two must read the same chain."""
        for at in self._working():
            other = self._endpoints[at]
            if other is endpoint:
                return
            try:
                [expected] = other.headers([final.number])
            except ProviderError as error:
                if self._stopping.is_set():
                    raise
                self._pause(at, error.detail)
                continue
            if expected.hash != final.hash:
                raise ProviderError(
                    f"the final block {final.number} is {final.hash} at {endpoint.name}, and {expected.hash} at "
                    f"{other.name}, which is preferred",
                    code="wrong_answer",
                )
            return

    def _working(self) -> list[int]:
        """The endpoints that have no pause, in the order of preference."""
        return [at for at, health in enumerate(self._healths) if not health.is_paused]

    def _order(self, *, is_final: bool) -> list[int]:
        """The endpoints to ask. If all have a pause, those that failed are asked nevertheless."""
        found = self._working()
        if not found:
            failed = [at for at, health in enumerate(self._healths) if not health.is_distrusted]
            return sorted(failed, key=lambda at: self._healths[at].retry_at)
        # The newest blocks come from one endpoint as long as it works, because another one may not have them yet.
        return sorted(found, key=lambda at: self._endpoints[at].wait) if is_final else found

    def _note(self, at: int, refused: Mapping[int, ProviderError], *, is_final: bool) -> None:
        """The endpoint ``at`` has answered what others have refused. A range may be too large for these; otherwise the
        refusal is their failure."""
        for other, error in refused.items():
            if not isinstance(error, RangeRefused):
                self._pause(other, error.detail)
        self._answered = at
        if not is_final:
            self.switches += at != self._preferred
            self._preferred = at

    def _pause(self, at: int, about: str, *, is_liar: bool = False) -> None:
        pause = self._healths[at].fail(is_liar=is_liar)
        if pause and len(self._endpoints) > 1:
            _log.warning("%s; it is asked again in %.0f s", about, pause)


def _joined(errors: Sequence[ProviderError]) -> ProviderError:
    return ProviderError("; ".join(each.detail for each in errors), code=errors[0].code)
