"""Keccak-256 as Ethereum uses it. ``hashlib.sha3_256`` pads its input differently (FIPS 202) and gives other hashes.

From the Keccak reference: permutation Keccak-f[1600], rate 1088, padding 0x01 … 0x80.
"""

from __future__ import annotations

from functools import cache

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
        x, y, lane = 1, 0, state[1]  # rho and pi: each lane is rotated, and moves to the place of the next one
        for step in range(24):
            x, y = y, (2 * x + 3 * y) % 5
            state[x + 5 * y], lane = _rotated(lane, (step + 1) * (step + 2) // 2 % 64), state[x + 5 * y]
        for row in range(0, 25, 5):  # chi
            a = state[row : row + 5]
            state[row : row + 5] = [a[x] ^ (~a[(x + 1) % 5] & a[(x + 2) % 5]) for x in range(5)]
        state[0] ^= constant
    return state


def keccak256(data: bytes) -> bytes:
    """The hash of ``data``, 32 bytes."""
    padded = bytearray(data) + bytes(_RATE - len(data) % _RATE)
    padded[len(data)] ^= 0x01
    padded[-1] ^= 0x80
    state = [0] * 25
    for block in range(0, len(padded), _RATE):
        for lane in range(_RATE // 8):
            state[lane] ^= int.from_bytes(padded[block + 8 * lane : block + 8 * lane + 8], "little")
        state = _permuted(state)
    return b"".join(lane.to_bytes(8, "little") for lane in state[:4])
