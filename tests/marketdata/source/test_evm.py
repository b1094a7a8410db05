"""Hashes, encodings and bloom filters of the EVM, against published vectors."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from marketdata.source import evm
from marketdata.source.evm import keccak256

KNOWN = {
    # The Keccak team's known answers for a capacity of 512 bits, and Ethereum's well-known hashes.
    b"": "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470",
    b"abc": "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45",
    b"\xcc": "eead6dbfc7340a56caedc044696a168870549a6a7f6f56961e84a54bd9970b8a",
    b"transfer(address,uint256)": "a9059cbb2ab09eb219583f4a59a5d0623ade346d962bcd4e46b11da047c9049b",
    b"Transfer(address,address,uint256)": "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
}
OF_EVERY_LENGTH = "eb7ab6a99a251538f8057d3ecc1e3d4564372aef062fb4a6f22ec105cf884a67"
"""The SHA-256 of the hashes of the first 0 to 299 bytes of ``PADDED``, one after the other. They were compared with
hashes of hashlib's SHA-3, which has the same permutation and another padding."""
PADDED = bytes(range(256)) * 2


def test_keccak256_gives_known_hashes_and_pads_every_length_around_a_block() -> None:
    assert {data: keccak256(data).hex() for data in KNOWN} == KNOWN
    assert evm.selector("decimals()") == "0x313ce567"
    hashes = b"".join(keccak256(PADDED[:length]) for length in range(300))
    assert hashlib.sha256(hashes).hexdigest() == OF_EVERY_LENGTH


CHECKSUMMED = (
    # The examples of EIP-55.
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
)


def test_an_address_has_the_checksum_of_eip_55() -> None:
    for address in CHECKSUMMED:
        assert evm.checksummed(address.lower()) == address
        assert evm.address(address) == address.lower() == evm.address(address.lower())
        assert evm.address("0x" + address[2:].upper()) == address.lower()
        wrong = address[:2] + address[2:].swapcase()
        with pytest.raises(ValueError, match="wrong checksum"):
            evm.address(wrong)


def test_a_malformed_quantity_or_data_is_refused() -> None:
    for value in (None, 5, "", "5", "0x", "0xg", "-0x1", "0x" + "f" * 65, "0x 1"):
        with pytest.raises(ValueError, match="quantity"):
            evm.quantity(value)
    for value in (None, "0x0", "00", "0xzz"):
        with pytest.raises(ValueError, match="data"):
            evm.data(value)


def test_data_with_another_number_of_words_is_refused() -> None:
    assert evm.words(bytes(31) + b"\x01" + b"\xff" * 32, 2) == (1, (1 << 256) - 1)
    assert [evm.signed(word) for word in (0, 1, (1 << 255) - 1, 1 << 255, (1 << 256) - 1)] == [
        0, 1, (1 << 255) - 1, -(1 << 255), -1,
    ]  # fmt: skip
    for wrong in (b"", bytes(63), bytes(65), bytes(96)):
        with pytest.raises(ValueError, match="bytes of data"):
            evm.words(wrong, 2)


def test_the_bloom_filter_contains_its_logs() -> None:
    """The tests of the ingestor show that a real node sets the same bits, because the ingestor would read no block
    otherwise."""
    logs = [("0x" + f"{n:040x}", "0x" + f"{n:064x}") for n in (1, 2, 3)]
    bloom = 0
    for address, topic in logs:
        bloom |= evm.bloom_bits(address) | evm.bloom_bits(topic)
    assert all(evm.is_in_bloom(bloom, part) for log in logs for part in log)
    assert bloom.bit_count() <= 18
    assert not evm.is_in_bloom(bloom, "0x" + "ab" * 20)
    assert not evm.is_in_bloom(0, logs[0][0])


def test_a_block_with_a_time_that_the_api_refuses_is_refused() -> None:
    block: dict[str, Any] = {
        "number": "0x1", "hash": "0x" + "ab" * 32, "parentHash": "0x" + "00" * 32, "logsBloom": "0x" + "00" * 256,
    }  # fmt: skip
    assert evm.header(block | {"timestamp": hex(32_503_679_999)}).time == 32_503_679_999
    with pytest.raises(ValueError, match="not in seconds"):
        evm.header(block | {"timestamp": hex(1_700_000_000_000)})
