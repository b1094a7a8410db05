"""Reads what tokens say of themselves, and records it in the outbox's file."""

from __future__ import annotations

from collections.abc import Iterable

from marketdata.ingest.outbox import Outbox, Transaction
from marketdata.source.pools.pool import NATIVE
from marketdata.source.provider import Provider
from marketdata.source.rpc_file import Chain
from marketdata.source.tokens import TokenInfo, token_info

_READINGS = 4
"""Decimals that differ from one reading to the next are read at most this many times."""


class PoolTokens:
    """The tokens of one chain's pools. Used by one thread."""

    def __init__(self, provider: Provider, chain: Chain, outbox: Outbox) -> None:
        self._provider = provider
        self._chain = chain
        self._outbox = outbox
        self._known: dict[str, TokenInfo] = {}

    def info(self, address: str) -> TokenInfo:
        """What a token said when it was read."""
        if address == NATIVE:
            return TokenInfo(self._chain.native.symbol, self._chain.native.decimals)
        if address not in self._known:
            statement = "SELECT symbol, decimals FROM tokens WHERE chain = ? AND address = ?"
            self._known[address] = TokenInfo(*self._outbox.rows(statement, self._chain.name, address)[0])
        return self._known[address]

    def fault(self, tokens: Iterable[str]) -> str:
        """Why a pool of these tokens cannot be read; empty if it can."""
        for at, token in enumerate(tokens):
            if self.info(token).decimals is None:
                return _fault(at, token)
        return ""

    def read(self, tokens: Iterable[str]) -> None:
        """Read tokens from the chain, unless they are recorded. They are recorded together with the first of their
        pools, because a reorganisation may replace both."""
        wanted = set(tokens) - {NATIVE, ""}
        if not wanted:
            return
        known = {row[0] for row in self._outbox.rows("SELECT address FROM tokens WHERE chain = ?", self._chain.name)}
        self._known |= self._read(wanted - known)

    def keep(self, transaction: Transaction, tokens: Iterable[str]) -> None:
        """Record tokens that were read."""
        transaction.executemany(
            "INSERT OR IGNORE INTO tokens VALUES (?, ?, ?, ?)",
            [(self._chain.name, token, *self.info(token)) for token in set(tokens) - {NATIVE, ""}],
        )

    def read_silent(self) -> None:
        """Read again the tokens that did not say their decimals, because the provider may have refused the call. If a
        token says them now, its pools no longer have a fault."""
        name = self._chain.name
        rows = self._outbox.rows("SELECT address FROM tokens WHERE chain = ? AND decimals IS NULL", name)
        found = {
            token: info for token, info in self._read({row[0] for row in rows}).items() if info.decimals is not None
        }
        self._known |= found
        with self._outbox.transaction() as transaction:
            for token, info in found.items():
                transaction.execute(
                    "UPDATE tokens SET symbol = ?, decimals = ? WHERE chain = ? AND address = ?", (*info, name, token)
                )
                pools = transaction.execute(
                    "SELECT address, token0, token1 FROM discovered WHERE chain = ? AND fault IN (?, ?)",
                    (name, _fault(0, token), _fault(1, token)),
                ).fetchall()
                transaction.executemany(
                    "UPDATE discovered SET fault = ? WHERE chain = ? AND address = ?",
                    [(self.fault(pair), name, address) for address, *pair in pools],
                )

    def forget(self, transaction: Transaction) -> None:
        """Forget the tokens that no recorded pool has."""
        transaction.execute(
            "DELETE FROM tokens WHERE chain = ?1 AND address NOT IN "
            "(SELECT token0 FROM discovered WHERE chain = ?1 UNION SELECT token1 FROM discovered WHERE chain = ?1 "
            "UNION SELECT token0 FROM pools WHERE chain = ?1 UNION SELECT token1 FROM pools WHERE chain = ?1)",
            (self._chain.name,),
        )
        self._known.clear()

    def _read(self, tokens: Iterable[str]) -> dict[str, TokenInfo]:
        """The symbols and decimals that tokens report. Decimals count when two readings agree, because one answer may
        be wrong. A token whose readings never agree has no decimals."""
        symbols = self._ask(tokens, "symbol()")
        found: dict[str, bytes] = {}
        before = self._ask(tokens, "decimals()")
        for _ in range(1, _READINGS):
            again = self._ask(before, "decimals()")
            found |= {token: answer for token, answer in again.items() if answer == before[token]}
            before = {token: answer for token, answer in again.items() if token not in found}
        return {token: token_info(found.get(token, b""), symbol) for token, symbol in symbols.items()}

    def _ask(self, tokens: Iterable[str], function: str) -> dict[str, bytes]:
        asked = sorted(tokens)
        answers = self._provider.read_contracts([(token, function) for token in asked])
        return dict(zip(asked, answers, strict=True))


def _fault(at: int, token: str) -> str:
    return f"token{at} ({token}) does not say its decimals"
