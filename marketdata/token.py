"""Generates and checks API tokens: ``md_``, 30 random base62 characters, and a checksum of 6 characters.

Because of the prefix, secret scanners find leaked tokens. Because of the checksum, the API refuses mistyped or invented
tokens without a query. ``store/tokens.py`` stores only the SHA-256 of a token. A salt or a slow hash is not needed,
because 30 base62 characters have 178 bits of entropy.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
import zlib
from typing import Final, Literal

Scope = Literal["read", "write"]

PREFIX: Final = "md_"
_ALPHABET: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM_LENGTH: Final = 30
_CHECKSUM_LENGTH: Final = 6  # enough for the 32 bits of a CRC, because 62**6 > 2**32
_HINT_LENGTH: Final = 4
_FORM: Final = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{_RANDOM_LENGTH + _CHECKSUM_LENGTH}}}", re.ASCII)


def generate() -> str:
    """A new token from the system's source of randomness."""
    body = "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM_LENGTH))
    return PREFIX + body + _checksum(body)


def is_sound(text: str) -> bool:
    """Whether ``text`` has the form of a token and a correct checksum. The database may still not know the token."""
    if _FORM.fullmatch(text) is None:
        return False
    return _checksum(text[len(PREFIX) : -_CHECKSUM_LENGTH]) == text[-_CHECKSUM_LENGTH:]


def digest(text: str) -> bytes:
    """The SHA-256 of a token, 32 bytes."""
    return hashlib.sha256(text.encode()).digest()


def hint(text: str) -> str:
    """The first characters of a token, for listings: ``md_1a2B…``."""
    return text[: len(PREFIX) + _HINT_LENGTH] + "…"


def _checksum(body: str) -> str:
    rest, digits = zlib.crc32(body.encode()), []
    for _ in range(_CHECKSUM_LENGTH):
        rest, digit = divmod(rest, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
