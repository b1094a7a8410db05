"""The values of an EVM chain as JSON-RPC writes them: quantities, bytes, ABI words, addresses, bloom filters.

The text comes from a provider. Every function that reads it raises ValueError when it is malformed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any, NamedTuple

WORD = 32
ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,64}")
_HASH = re.compile(r"0x[0-9a-f]{64}")
BLOOM_BITS = 2048
MAX_TIME = 32_503_680_000
"""The year 3000, in seconds since 1970. The API takes earlier times only."""


class Block(NamedTuple):
    """A block as a header or a log names it; ``time`` is in seconds since 1970."""

    number: int
    hash: str
    time: int


class Header(NamedTuple):
    """The part of a block's header that this program uses; ``time`` is in seconds since 1970."""

    number: int
    hash: str
    parent: str
    time: int
    bloom: int
    has_transactions: bool

    @property
    def block(self) -> Block:
        return Block(self.number, self.hash, self.time)


class Log(NamedTuple):
    """An event of a contract. ``address`` and hashes are lower-case; ``position`` is the log's index in its block.
    ``time`` is the block's time in seconds since 1970, or 0 if the provider does not name it."""

    address: str
    topics: tuple[str, ...]
    data: bytes
    block_number: int
    block_hash: str
    transaction: str
    position: int
    time: int

    @property
    def block(self) -> Block:
        return Block(self.block_number, self.block_hash, self.time)

    def indexed(self, count: int) -> tuple[int, ...]:
        """Exactly ``count`` indexed arguments, as unsigned words. They are the topics after the first one."""
        if len(self.topics) != count + 1:
            raise ValueError(f"has {len(self.topics)} topics instead of {count + 1}")
        return tuple(int(topic, 16) for topic in self.topics[1:])


class Receipt(NamedTuple):
    """What one transaction did: the bloom filter of its logs, and all of them."""

    block_hash: str
    bloom: int
    logs: tuple[Log, ...]


def quantity(value: Any) -> int:
    """The number of a hexadecimal quantity: 436 for ``0x1b4``."""
    if not isinstance(value, str) or not _QUANTITY.fullmatch(value):
        raise ValueError("is not a hexadecimal quantity")
    return int(value, 16)


def data(value: Any) -> bytes:
    """The bytes of ``0x00ff``."""
    # bytes.fromhex skips white space, so the characters are checked before.
    if isinstance(value, str) and value[:2] == "0x" and (value[2:].isalnum() or len(value) == 2):
        with suppress(ValueError):
            return bytes.fromhex(value[2:])
    raise ValueError("is not hexadecimal data")


def hash_text(value: Any) -> str:
    """A hash of 32 bytes, in lower case."""
    if not isinstance(value, str) or not _HASH.fullmatch(lower := value.lower()):
        raise ValueError("is not a hash of 32 bytes")
    return lower


def address(value: Any) -> str:
    """An address, in lower case. If ``value`` has mixed case, it must have the checksum of EIP-55."""
    if not isinstance(value, str) or not ADDRESS.fullmatch(value):
        raise ValueError("is not an address: 0x and 40 hexadecimal digits")
    digits = value[2:]
    if digits not in (digits.lower(), digits.upper()) and value != checksummed(value.lower()):
        raise ValueError(f"has a wrong checksum (EIP-55) and may be mistyped; its right form is {checksummed(value)}")
    return value.lower()


def checksummed(value: str) -> str:
    """The address with the checksum of EIP-55: a letter is upper-case where the hash of the lower-case address has a
    digit of 8 or more."""
    digits = value[2:].lower()
    nibbles = keccak256(digits.encode()).hex()
    return "0x" + "".join(c.upper() if int(n, 16) > 7 else c for c, n in zip(digits, nibbles, strict=False))


def header(value: Any) -> Header:
    """A block of ``eth_getBlockByNumber`` or ``eth_getBlockByHash``."""
    if not isinstance(value, dict):
        raise ValueError("is not a block")
    return Header(
        number=quantity(value.get("number")),
        hash=hash_text(value.get("hash")),
        parent=hash_text(value.get("parentHash")),
        time=_time(value.get("timestamp")),
        bloom=_bloom(value.get("logsBloom")),
        has_transactions=bool(value.get("transactions")),
    )


def _bloom(value: Any) -> int:
    bloom = data(value)
    if len(bloom) * 8 != BLOOM_BITS:
        raise ValueError("has a bloom filter of the wrong size")
    return int.from_bytes(bloom, "big")


def receipt(value: Any) -> Receipt:
    """An entry of ``eth_getBlockReceipts``."""
    if not isinstance(value, dict) or not isinstance(value.get("logs"), list):
        raise ValueError("is not a receipt")
    logs = tuple(log(each) for each in value["logs"])
    return Receipt(hash_text(value.get("blockHash")), _bloom(value.get("logsBloom")), logs)


def log(value: Any) -> Log:
    """An entry of ``eth_getLogs``."""
    if not isinstance(value, dict) or not isinstance(value.get("topics"), list):
        raise ValueError("is not a log")
    if value.get("removed") is True:
        raise ValueError("is of a block that a reorganisation removed")
    return Log(
        address=address(str(value.get("address")).lower()),
        topics=tuple(hash_text(topic) for topic in value["topics"]),
        data=data(value.get("data")),
        block_number=quantity(value.get("blockNumber")),
        block_hash=hash_text(value.get("blockHash")),
        transaction=hash_text(value.get("transactionHash")),
        position=quantity(value.get("logIndex")),
        time=_log_time(value.get("blockTimestamp")),
    )


def _log_time(value: Any) -> int:
    """The time that a log names. 0 if it names none, or one that is not in seconds: then the header decides."""
    try:
        return _time(value)
    except ValueError:
        return 0


def _time(value: Any) -> int:
    time = quantity(value)
    if time >= MAX_TIME:
        raise ValueError("has a time that is not in seconds, or after the year 2999")
    return time


def words(encoded: bytes, count: int) -> tuple[int, ...]:
    """Exactly ``count`` unsigned ABI words of 32 bytes."""
    if len(encoded) != count * WORD:
        raise ValueError(f"has {len(encoded)} bytes of data instead of {count * WORD}")
    return tuple(int.from_bytes(encoded[at : at + WORD], "big") for at in range(0, len(encoded), WORD))


def signed(word: int) -> int:
    """The signed number that a word represents in two's complement."""
    return word - (1 << 256) if word >> 255 else word


def address_word(word: int) -> str:
    """The address that a word holds, in lower case."""
    if word >> 160:
        raise ValueError("has an address of more than 20 bytes")
    return f"0x{word:040x}"


def topic(signature: str) -> str:
    """The first topic of an event: the hash of its signature."""
    return "0x" + keccak256(signature.encode()).hex()


@cache
def selector(signature: str) -> str:
    """The call data of a function without arguments."""
    return "0x" + keccak256(signature.encode())[:4].hex()


@lru_cache(maxsize=1 << 15)
def bloom_bits(value: str) -> int:
    """The three bits of an address or topic in the bloom filter of a block (Yellow Paper, section 4.3.1)."""
    hashed = keccak256(bytes.fromhex(value[2:]))
    bits = 0
    for at in (0, 2, 4):
        bits |= 1 << (int.from_bytes(hashed[at : at + 2], "big") & 2047)
    return bits


def is_in_bloom(bloom: int, value: str) -> bool:
    """False if the block certainly has no log with this address or topic. Bloom filters have false positives, so True
    means that the block may have such a log."""
    bits = bloom_bits(value)
    return bloom & bits == bits


def bloom_of(logs: Iterable[Log]) -> int:
    """The bloom filter of logs: that of their addresses and topics."""
    bits = 0
    for each in logs:
        for value in (each.address, *each.topics):
            bits |= bloom_bits(value)
    return bits


# -- Keccak-256 -------------------------------------------------------------------------------------------------------
# From the Keccak reference: permutation Keccak-f[1600], rate 1088 bits, padding 0x01 … 0x80. hashlib.sha3_256 pads its
# input differently (FIPS 202), which gives other hashes.

_RATE = 136
_WORD = (1 << 64) - 1


@cache
def _round_constants() -> tuple[int, ...]:
    """The 24 constants of the step iota, from its linear feedback shift register (x^8 + x^6 + x^5 + x^4 + 1)."""
    constants, register = [], 1
    for _ in range(24):
        constant = 0
        for power in range(7):
            if register & 1:
                constant |= 1 << ((1 << power) - 1)
            register = (register << 1) ^ (0x171 if register & 0x80 else 0)
        constants.append(constant)
    return tuple(constants)


def _rotated(word: int, by: int) -> int:
    return ((word << by) | (word >> (64 - by))) & _WORD if by else word


def _permuted(state: list[int]) -> list[int]:
    """Keccak-f[1600]; the lane (x, y) is ``state[x + 5 * y]``."""
    for constant in _round_constants():
        column = [state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20] for x in range(5)]
        theta = [column[x - 1] ^ _rotated(column[(x + 1) % 5], 1) for x in range(5)]
        state = [lane ^ theta[at % 5] for at, lane in enumerate(state)]
        x, y, lane = 1, 0, state[1]  # rho and pi: each lane is rotated and moved to the next position
        for step in range(24):
            x, y = y, (2 * x + 3 * y) % 5
            state[x + 5 * y], lane = _rotated(lane, (step + 1) * (step + 2) // 2 % 64), state[x + 5 * y]
        for row in range(0, 25, 5):  # chi
            a = state[row : row + 5]
            state[row : row + 5] = [a[x] ^ (~a[(x + 1) % 5] & a[(x + 2) % 5]) for x in range(5)]
        state[0] ^= constant
    return state


def keccak256(data: bytes) -> bytes:
    """The Keccak-256 hash that Ethereum uses, 32 bytes."""
    padded = bytearray(data) + bytes(_RATE - len(data) % _RATE)
    padded[len(data)] ^= 0x01
    padded[-1] ^= 0x80
    state = [0] * 25
    for block in range(0, len(padded), _RATE):
        for lane in range(_RATE // 8):
            state[lane] ^= int.from_bytes(padded[block + 8 * lane : block + 8 * lane + 8], "little")
        state = _permuted(state)
    return b"".join(lane.to_bytes(8, "little") for lane in state[:4])
