"""Asks the endpoints of a provider for the logs that an answer lacks by the bloom filter of a block.

A node may leave out logs, or all of them, without an error. So the same endpoint is asked again, then the others, then
each of them for the receipts of the block, which prove themselves.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from marketdata.errors import ProviderError
from marketdata.source.evm import Header, Log
from marketdata.source.log_filter import LogFilter
from marketdata.source.proof import BlockLogs, of_receipts
from marketdata.source.provider import RpcProvider

_log = logging.getLogger("marketdata.source")


_FALSE_ALARM = 0.01
"""Without receipts, a block counts as contradicted if its filter is wrong with at most this probability."""


@cache  # once for all threads
def _say_without_receipts(endpoints: str) -> None:
    _log.warning(
        "none of %s has eth_getBlockReceipts, so nothing proves that it leaves out no events: add a node that has "
        "it to urls in rpc.json", endpoints,
    )  # fmt: skip


@dataclass
class _Case:
    """A block in question. ``contradiction`` says what its receipts lack."""

    header: Header
    logs: list[Log]
    is_proved: bool = False
    contradiction: str = ""

    def is_doubted(self, wanted: LogFilter) -> bool:
        return bool(wanted.unseen(self.header.bloom, self.logs))


class Prover:
    """Used by one thread. ``order`` returns the endpoints to ask, the first of which gave the last answer. An endpoint
    that fails is left out, unless all do."""

    def __init__(self, order: Callable[[], list[RpcProvider]], stopping: threading.Event) -> None:
        self._order = order
        self._stopping = stopping
        self.contradictions = 0
        self.unproved_blocks = 0

    def prove(self, headers: Sequence[Header], logs: Sequence[list[Log]], wanted: LogFilter) -> list[BlockLogs]:
        """See :meth:`marketdata.source.provider.Provider.prove`."""
        cases = [_Case(header, list(each)) for header, each in zip(headers, logs, strict=True)]
        endpoints = self._order()
        for endpoint in endpoints:
            left = [case for case in cases if case.is_doubted(wanted)]
            for case, more in zip(left, self._logs_of(endpoint, left, wanted), strict=False):
                case.logs = sorted({*case.logs, *more}, key=lambda log: log.position)
        self._ask_receipts(endpoints, [case for case in cases if case.is_doubted(wanted)], wanted)
        return [self._decided(case, len(before), wanted) for case, before in zip(cases, logs, strict=True)]

    def receipt_logs(self, headers: Sequence[Header], wanted: LogFilter) -> list[list[Log] | None]:
        """See :meth:`marketdata.source.provider.Provider.receipt_logs`."""
        cases = [_Case(header, []) for header in headers]
        self._ask_receipts(self._order(), cases, wanted)
        return [case.logs if case.is_proved else None for case in cases]

    def _logs_of(self, endpoint: RpcProvider, cases: Sequence[_Case], wanted: LogFilter) -> list[list[Log]]:
        try:
            return endpoint.logs_of([case.header for case in cases], wanted) if cases else []
        except ProviderError:
            if self._stopping.is_set():
                raise
            return []

    def _ask_receipts(self, endpoints: Sequence[RpcProvider], cases: Sequence[_Case], wanted: LogFilter) -> None:
        """Replace the logs of the cases by those of their receipts, where these prove themselves."""
        errors: list[ProviderError] = []
        for endpoint in endpoints:
            left = [case for case in cases if not case.is_proved]
            try:
                answers = endpoint.receipts([case.header for case in left])
            except ProviderError as error:
                errors.append(error)
                continue
            for case, receipts in zip(left, answers, strict=True):
                if receipts is None:
                    continue
                try:
                    case.logs, case.is_proved = of_receipts(case.header, receipts, wanted), True
                except ValueError as reason:
                    case.contradiction = f"{endpoint.name}: its receipts {reason}"
        if errors and (self._stopping.is_set() or len(errors) == len(endpoints)):
            raise errors[-1]

    def _decided(self, case: _Case, before: int, wanted: LogFilter) -> BlockLogs:
        unseen = frozenset() if case.is_proved else wanted.unseen(case.header.bloom, case.logs)
        if unseen and not case.contradiction:
            _say_without_receipts(", ".join(each.name for each in self._order()))
            self.unproved_blocks += 1
            case.contradiction = "no endpoint has its receipts"
            # A filter that is nearly full names what is not there, and all endpoints say that it is not.
            if wanted.false_alarm(case.header.bloom) > _FALSE_ALARM:
                unseen = frozenset()
        if unseen:
            _log.warning(
                "block %d lacks events of %s, which its bloom filter names; %s",
                case.header.number, ", ".join(sorted(unseen)), case.contradiction,
            )  # fmt: skip
        elif len(case.logs) > before:
            _log.warning("block %d: %d events had been left out", case.header.number, len(case.logs) - before)
        self.contradictions += bool(unseen) or len(case.logs) > before
        return BlockLogs(case.logs, unseen)
