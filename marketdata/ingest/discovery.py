"""Finds the pools of the factories of ``rpc.json`` by the factories' events, and names them.

The events before the chain's next block are read first, in ranges. Later events are read together with the swaps. What
was found is kept in the outbox's file, so a name once given stays.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from marketdata.errors import ProviderError, UsageError
from marketdata.ingest.chain_cursor import ChainCursor
from marketdata.ingest.outbox import Outbox, Transaction
from marketdata.ingest.pool_tokens import PoolTokens
from marketdata.source.adaptive_range import MAX_BLOCKS, AdaptiveRange
from marketdata.source.evm import WORD, Log, address_word
from marketdata.source.log_filter import LogFilter
from marketdata.source.pools import KINDS
from marketdata.source.pools.pool import NATIVE, Creation, Pool, contract_of
from marketdata.source.provider import Provider, complete_range
from marketdata.source.rpc_file import Chain
from marketdata.source.tokens import free_name, is_inverted, pool_name

CAUGHT_UP_BLOCKS = MAX_BLOCKS
"""A pool that is found after its creation is read from about this many blocks before the final block. The backfill
reads the rest, so that the past of thousands of pools does not delay the present."""

_ROUND = 10_000
_WAITING = (
    "SELECT address, kind, trades, factory, token0, token1 FROM discovered "
    "WHERE chain = ? AND symbol IS NULL AND fault = ''"
)

_log = logging.getLogger("marketdata.ingestor")


class Found(NamedTuple):
    """A pool that a factory announced in the block ``block``, at ``time`` in seconds since 1970."""

    creation: Creation
    kind: str
    factory: str
    block: int
    time: int

    @property
    def address(self) -> str:
        """The pool's address."""
        return self.creation.address

    @property
    def contract(self) -> str:
        """The contract that emits the pool's events."""
        return contract_of(self.address)


class WaitingPool(NamedTuple):
    """A pool that is not read, because it has fewer swaps than its factory's ``min_trades``."""

    address: str
    kind: str
    trades: int
    min_trades: int

    @property
    def contract(self) -> str:
        """The contract that emits the pool's events."""
        return contract_of(self.address)


class Discovery:
    """The pools of one chain's factories. Used by one thread."""

    def __init__(self, provider: Provider, chain: Chain, outbox: Outbox) -> None:
        self._provider = provider
        self._chain = chain
        self._outbox = outbox
        self._factories = {factory.address: factory for factory in chain.factories}
        self._listed = {pool.address for pool in chain.pools}
        self._listed_symbols = {pool.symbol for pool in chain.pools}
        self._natives = {NATIVE}
        self._tokens = PoolTokens(provider, chain, outbox)

    def events(self) -> dict[str, set[str]]:
        """The first topics of the events of each factory, for a :class:`LogFilter`."""
        return {address: set(KINDS[factory.kind].creations) for address, factory in self._factories.items()}

    def check_names(self, pools: Iterable[Pool]) -> None:
        """Raise UsageError if a pool of ``rpc.json`` has the symbol of another pool that was found."""
        statement = "SELECT address FROM discovered WHERE symbol = ? AND address <> ?"
        for pool in pools:
            for (address,) in self._outbox.rows(statement, pool.symbol, pool.address):
                raise UsageError(
                    f"rpc.json: {pool.symbol} is the symbol of the pool {address}, which a factory announced: give "
                    f"the pool {pool.address} another symbol"
                )

    # -- the past ----------------------------------------------------------------------------------------------------

    def begin(self, cursor: ChainCursor, final: int) -> None:
        """Read the factories' events before the chain's next block, and record the pools. After a kill, the next
        call goes on. ``final`` is the newest final block."""
        self._enter(cursor, final)
        if not self._factories:
            return
        self._read_natives()
        self._tokens.read_silent()
        with self._outbox.transaction() as transaction:
            self._readmit(transaction, cursor, self.waiting(), final)
        sizes = AdaptiveRange()
        while (at := self._late()) and (end := cursor.next_block()) is not None:
            first = min(at.values())
            last = min([end - 1, first + sizes.size - 1, *(other - 1 for other in at.values() if other > first)])
            behind = [address for address, other in at.items() if other == first]
            if last >= first:
                logs = self._creations(first, last, behind, sizes)
                if logs is None:
                    continue
                found = self.announced(logs)
            with self._outbox.transaction() as transaction:
                if last >= first:
                    self.record(transaction, cursor, found, _horizon(end, final))
                done = None if last >= end - 1 else last + 1
                transaction.executemany(
                    "UPDATE factories SET next_block = ? WHERE chain = ? AND address = ?",
                    [(done, self._chain.name, address) for address in behind],
                )

    def _enter(self, cursor: ChainCursor, final: int) -> None:
        """Record the factories. A factory that is new, or selects other pools, is read from its start. A factory that
        is no longer listed continues at its recorded block if it is listed again."""
        with self._outbox.transaction() as transaction:
            starts = [factory.start_block for factory in self._factories.values()]
            if starts and cursor.next_block() is None:
                cursor.begin(transaction, max(min(starts), _recent(final)))
            known = transaction.execute("SELECT address FROM factories WHERE chain = ?", (self._chain.name,)).fetchall()
            transaction.executemany(
                "UPDATE factories SET next_block = coalesce(next_block, ?) WHERE chain = ? AND address = ?",
                [
                    (cursor.next_block(), self._chain.name, address)
                    for (address,) in known
                    if address not in self._factories
                ],
            )
            for factory in self._factories.values():
                selection = json.dumps([factory.kind, factory.start_block, *sorted(factory.tokens)])
                transaction.execute(
                    "INSERT INTO factories VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET selection = ?3, "
                    "next_block = ?4 WHERE selection <> ?3",
                    (self._chain.name, factory.address, selection, factory.start_block),
                )

    def _late(self) -> dict[str, int]:
        """The next block of each factory whose past was not read."""
        statement = "SELECT address, next_block FROM factories WHERE chain = ? AND next_block IS NOT NULL"
        rows = self._outbox.rows(statement, self._chain.name)
        return {address: at for address, at in rows if address in self._factories}

    def _creations(self, first: int, last: int, factories: Sequence[str], sizes: AdaptiveRange) -> list[Log] | None:
        """The factories' events; None if the provider refuses a range of this size."""
        events = self.events()
        wanted = LogFilter({address: events[address] for address in factories})
        asked = last - first + 1
        try:
            logs = complete_range(self._provider, first, last, wanted)
        except ProviderError as error:
            if error.may_be_too_large and sizes.refused(asked, error.suggested):
                return None
            raise
        sizes.answered(asked)
        return logs

    def _read_natives(self) -> None:
        """Find the wrapped native currency: the token of ``quotes.native`` that is not in ``quotes.usd``. Raises
        ProviderError if the chain has no such token: the node may be wrong, or ``rpc.json``."""
        usd = self._chain.quotes.usd
        for pool in sorted(self._chain.quotes.native):
            answers = self._provider.read_contracts([(pool, "token0()"), (pool, "token1()")])
            if any(len(each) != WORD for each in answers):
                detail = f"{self._provider.name}: {pool} of quotes/native in rpc.json does not say its tokens"
                raise ProviderError(detail, code="not_as_listed")
            tokens = {address_word(int.from_bytes(each, "big")) for each in answers}
            if len(tokens - usd) != 1:
                raise ProviderError(
                    f"{self._provider.name}: rpc.json: quotes/native: one of the tokens of {pool} must be in "
                    "quotes/usd, and the other one is the wrapped native currency; they are "
                    f"{' and '.join(sorted(tokens))}",
                    code="not_as_listed",
                )
            self._natives |= tokens - usd

    # -- found pools -------------------------------------------------------------------------------------------------

    def announced(self, logs: Iterable[Log]) -> list[Found]:
        """The pools that the factories' events among ``logs`` announce, in the order of the logs. An event that cannot
        be decoded is skipped. The tokens of the pools are read."""
        found = []
        for log in logs:
            factory = self._factories.get(log.address)
            if factory is None or log.topics[0] not in KINDS[factory.kind].creations:
                continue
            try:
                creation = KINDS[factory.kind].creations[log.topics[0]](log)
            except ValueError as error:
                _log.warning("skipped an event of the factory %s in %s: it %s", log.address, log.transaction, error)
                continue
            if factory.selects(creation.tokens):
                found.append(Found(creation, factory.kind, factory.address, log.block_number, log.time))
        self._tokens.read(token for each in found for token in each.creation.tokens)
        return found

    def record(
        self, transaction: Transaction, cursor: ChainCursor, found: Iterable[Found], first_block: int | None = None
    ) -> tuple[list[Pool], list[WaitingPool]]:
        """Record found pools. Returns those that are read now, and those that wait for more swaps. The former begin at
        ``first_block``, or in the block of their creation."""
        made: list[Pool] = []
        waiting: list[WaitingPool] = []
        self._tokens.keep(transaction, (token for each in found for token in each.creation.tokens))
        for each in found:
            address, tokens = each.creation.address, each.creation.tokens
            fault = each.creation.unreadable or self._tokens.fault(tokens)
            min_trades = self._factories[each.factory].min_trades
            is_new = transaction.execute(
                "INSERT INTO discovered (chain, address, kind, factory, token0, token1, block, time, fault) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (self._chain.name, address, each.kind, each.factory, *tokens, each.block, each.time, fault),
            ).rowcount
            if not is_new or fault or not self._is_selected(each.factory, address, tokens):
                continue
            if min_trades:
                waiting.append(WaitingPool(address, each.kind, 0, min_trades))
            elif pool := self._admit(transaction, address):
                cursor.add(transaction, pool, each.block if first_block is None else first_block)
                made.append(pool)
        return made, waiting

    def forget(self, transaction: Transaction, cursor: ChainCursor, after: int) -> None:
        """Forget the pools that were created after the block ``after``, because a reorganisation replaced it. Their
        tokens are read again, because other tokens may get their addresses."""
        gone = transaction.execute(
            "SELECT symbol FROM discovered WHERE chain = ? AND block > ? AND symbol IS NOT NULL",
            (self._chain.name, after),
        ).fetchall()
        cursor.remove(transaction, [row[0] for row in gone])
        transaction.execute("DELETE FROM discovered WHERE chain = ? AND block > ?", (self._chain.name, after))
        self._tokens.forget(transaction)
        transaction.execute(
            "UPDATE factories SET next_block = min(next_block, ?) WHERE chain = ? AND next_block IS NOT NULL",
            (after + 1, self._chain.name),
        )

    def pools(self) -> list[Pool]:
        """The found pools that are read, in the order of their creation."""
        rows = self._outbox.rows(
            "SELECT symbol, address, kind, decimals0, decimals1, invert, block, factory, token0, token1 "
            "FROM discovered WHERE chain = ? AND symbol IS NOT NULL ORDER BY block, address",
            self._chain.name,
        )
        return [
            Pool(symbol, address, kind, (decimals0, decimals1), bool(invert), block, (token0, token1))
            for symbol, address, kind, decimals0, decimals1, invert, block, factory, token0, token1 in rows
            if self._is_selected(factory, address, (token0, token1))
        ]

    def waiting(self) -> list[WaitingPool]:
        """The found pools whose swaps are only counted, in the order of their creation."""
        return self._waiting(self._outbox.rows(f"{_WAITING} ORDER BY block, address", self._chain.name))

    def _waiting(self, rows: Iterable[Sequence[Any]]) -> list[WaitingPool]:
        return [
            WaitingPool(address, kind, trades, self._factories[factory].min_trades)
            for address, kind, trades, factory, *tokens in rows
            if self._is_selected(factory, address, tokens)
        ]

    def count(self, transaction: Transaction, cursor: ChainCursor, trades: Mapping[str, int], final: int) -> list[Pool]:
        """Add to the numbers of swaps of waiting pools, by address. Returns the pools that have enough now. They are
        read from the beginning, see :data:`CAUGHT_UP_BLOCKS`."""
        name = self._chain.name
        transaction.executemany(
            "UPDATE discovered SET trades = trades + ? WHERE chain = ? AND address = ?",
            [(count, name, address) for address, count in trades.items()],
        )
        rows = [row for address in trades for row in self._outbox.rows(f"{_WAITING} AND address = ?", name, address)]
        return self._readmit(transaction, cursor, self._waiting(rows), final)

    def _readmit(
        self, transaction: Transaction, cursor: ChainCursor, waiting: Iterable[WaitingPool], final: int
    ) -> list[Pool]:
        """Admit the waiting pools that have enough swaps. A pool that is no longer excluded, or no longer listed, may
        have enough already."""
        made = []
        next_block = cursor.next_block()
        for each in waiting:
            if each.trades < each.min_trades or next_block is None:
                continue
            pool = self._admit(transaction, each.address)
            if pool is not None:
                cursor.add(transaction, pool, max(pool.start_block, _horizon(next_block, final)))
                made.append(pool)
        return made

    def _admit(self, transaction: Transaction, address: str) -> Pool | None:
        """Give a recorded pool its symbol and its decimals. None if its tokens do not say their decimals."""
        kind, block, *tokens = transaction.execute(
            "SELECT kind, block, token0, token1 FROM discovered WHERE chain = ? AND address = ?",
            (self._chain.name, address),
        ).fetchone()
        infos = [self._tokens.info(token) for token in tokens]
        decimals = (infos[0].decimals, infos[1].decimals)
        if decimals[0] is None or decimals[1] is None:
            return None
        invert = is_inverted((tokens[0], tokens[1]), self._chain.quotes.usd, self._natives)
        sides = list(zip(infos, tokens, strict=True))
        (base, base_address), (quote, quote_address) = sides[::-1] if invert else sides

        def is_taken(name: str) -> bool:
            symbol = f"{self._chain.name}:{name}"
            statement = (
                "SELECT 1 FROM pools WHERE symbol = ?1 AND address <> ?2 "
                "UNION SELECT 1 FROM discovered WHERE symbol = ?1"
            )
            row = transaction.execute(statement, (symbol, address)).fetchone()
            return symbol in self._listed_symbols or row is not None

        name = free_name(pool_name(base, base_address, quote, quote_address), address, is_taken)
        pool = Pool(
            f"{self._chain.name}:{name}",
            address,
            kind,
            (decimals[0], decimals[1]),
            invert,
            block,
            (tokens[0], tokens[1]),
        )
        transaction.execute(
            "UPDATE discovered SET symbol = ?, decimals0 = ?, decimals1 = ?, invert = ? "
            "WHERE chain = ? AND address = ?",
            (pool.symbol, *decimals, invert, self._chain.name, address),
        )
        return pool

    def _is_selected(self, address: str, pool: str, tokens: Collection[str]) -> bool:
        """Whether the pool, which the factory at ``address`` announced, is read as a found one."""
        factory = self._factories.get(address)
        return factory is not None and pool not in self._listed and not factory.rejection(pool, tokens)

    def read_listed(self, pools: Iterable[Pool]) -> None:
        """Read and record the tokens of pools of ``rpc.json``, for the list of pools."""
        tokens = [token for pool in pools for token in pool.tokens]
        self._tokens.read(tokens)
        with self._outbox.transaction() as transaction:
            self._tokens.keep(transaction, tokens)


def _horizon(next_block: int, final: int) -> int:
    """The first block of a pool that is found after its creation."""
    return max(0, min(next_block, _recent(final)))


def _recent(final: int) -> int:
    """The block from which the past is read. It is rounded, so that pools which are found one after the other begin
    together, and the backfill reads what was before in few ranges."""
    return (final - CAUGHT_UP_BLOCKS) // _ROUND * _ROUND
