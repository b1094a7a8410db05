"""API tokens: ``md_``, 30 random base62 characters, 6 of checksum. Pure; where they are kept is ``store/tokens.py``.

The prefix lets secret scanners find a leaked token, and the checksum lets a mistyped or invented one be refused before
the database is asked. What is stored is the SHA-256 only: 30 base62 characters hold 178 bits, so no salt and no slow
hash are needed.
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
_CHECKSUM_LENGTH: Final = 6  # 62**6 > 2**32
_HINT_LENGTH: Final = 4
_FORM: Final = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{_RANDOM_LENGTH + _CHECKSUM_LENGTH}}}", re.ASCII)


def generate() -> str:
    """A fresh token from the system's source of randomness."""
    body = "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM_LENGTH))
    return PREFIX + body + _checksum(body)


def is_sound(text: str) -> bool:
    """Whether ``text`` has the form of a token and its checksum is right; it says nothing of who knows it."""
    if _FORM.fullmatch(text) is None:
        return False
    return _checksum(text[len(PREFIX) : -_CHECKSUM_LENGTH]) == text[-_CHECKSUM_LENGTH:]


def digest(text: str) -> bytes:
    """The 32 bytes that stand for a token in the database."""
    return hashlib.sha256(text.encode()).digest()


def hint(text: str) -> str:
    """The first characters, by which its owner tells one token from another: ``md_1a2B…``."""
    return text[: len(PREFIX) + _HINT_LENGTH] + "…"


def _checksum(body: str) -> str:
    rest, digits = zlib.crc32(body.encode()), []
    for _ in range(_CHECKSUM_LENGTH):
        rest, digit = divmod(rest, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
