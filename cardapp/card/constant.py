"""Evaluates constant expressions of literals, as C, C++ and Rust do: ``1 << 6``, ``'a' + 1``, ``7 / 2``.

The types follow the language: in C and C++ ``int``, ``long`` and their unsigned forms (32 and 64 bits), in Rust the
suffix's type; a number of Rust without a suffix has the type that its place needs, so here it has 128 bits. What the
language leaves undefined or refuses, such as an overflow of a signed type, has no value.
"""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple

Language = Literal["c", "c++", "rust"]

_LANGUAGES: Final[dict[str, Language]] = {
    "rs": "rust", "c": "c", "h": "c",
    **dict.fromkeys(("cc", "cpp", "cxx", "c++", "hh", "hpp", "hxx", "h++", "C"), "c++"),
}  # fmt: skip


class NoValue(Exception):
    """The text has no value; the message says why."""


class Number(NamedTuple):
    """A value and its type: ``bits`` wide, signed or not. A ``float`` value has neither. ``form`` tells a character
    and a truth value from a number."""

    value: int | float
    bits: int = 32
    signed: bool = True
    form: Literal["number", "character", "truth"] = "number"


def language_of(files: Sequence[str]) -> Language:
    """The language of the first source file with a known suffix; C if there is none."""
    suffixes = (file.rpartition(".")[2] for file in files)
    return next((_LANGUAGES[suffix] for suffix in suffixes if suffix in _LANGUAGES), "c")


# -- literals ------------------------------------------------------------------------------------------------------

_ESCAPES = {
    "n": 10, "t": 9, "r": 13, "a": 7, "b": 8, "f": 12, "v": 11, "e": 27, "\\": 92, "'": 39, '"': 34, "?": 63,
}  # fmt: skip
_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]+)|u\{([0-9a-fA-F_]+)\}|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)


def unescaped(text: str) -> bytes:
    """The bytes of the text between the quotes of a literal, in UTF-8. Raises :class:`NoValue`."""
    found, at = bytearray(), 0
    for match in _ESCAPE.finditer(text):
        found += text[at : match.start()].encode("utf-8", "surrogatepass")
        found += _escaped(match)
        at = match.end()
    return bytes(found + text[at:].encode("utf-8", "surrogatepass"))


def _escaped(match: re.Match[str]) -> bytes:
    octal, hexadecimal, *points, letter = match.groups()
    if octal or hexadecimal:
        code = int(octal, 8) if octal else int(hexadecimal, 16)
        if code > 0xFF:
            raise NoValue(f"{match[0]} is more than a byte")
        return bytes([code])
    if letter is not None:
        if letter not in _ESCAPES:
            raise NoValue(f"{match[0]} is no escape sequence")
        return bytes([_ESCAPES[letter]])
    code = int(next(filter(None, points)).replace("_", ""), 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise NoValue(f"{match[0]} is no character")
    return chr(code).encode()


_C_NUMBER = re.compile(
    r"""(?P<float>0x(?:[0-9a-f']*\.[0-9a-f']+|[0-9a-f']+\.?)p[-+]?\d+
              | (?:\d[\d']*\.[\d']*|\.\d[\d']*)(?:e[-+]?\d+)?  |  \d[\d']*e[-+]?\d+)(?P<precision>[fl]?)
      | (?P<digits>0x[0-9a-f][0-9a-f']*|0b[01][01']*|\d[\d']*)(?P<suffix>(?:ll?|z)u|u?(?:ll?|z)?)""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_RUST_NUMBER = re.compile(
    r"""(?P<float>\d[\d_]*(?:\.\d[\d_]*(?:[eE][-+]?\d+)?|[eE][-+]?\d+|\.(?![\w.]))|\d[\d_]*(?=f(?:32|64)))
        (?P<precision>f32|f64|)
      | (?P<digits>0x[0-9a-fA-F_]+|0b[01_]+|0o[0-7_]+|\d[\d_]*)(?P<suffix>[iu](?:8|16|32|64|128|size)|)""",
    re.VERBOSE | re.ASCII,
)
_CHARACTER = re.compile(r"(?P<prefix>u8|[LuUb])?'(?P<text>\\.[^']*|[^'\\])'")
_OPERATOR = re.compile(r"<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^~!<>()?:]")
_WORD = re.compile(r"[A-Za-z_]\w*")


def _tokens(text: str, language: Language) -> list[Number | str]:
    """The numbers and operators of the text."""
    found: list[Number | str] = []
    at = 0
    number = _RUST_NUMBER if language == "rust" else _C_NUMBER
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        if match := _CHARACTER.match(text, at):
            found.append(_character(match, language))
        elif match := number.match(text, at):
            found.append(_number(match, language))
        elif match := _OPERATOR.match(text, at):
            found.append(match[0])
        elif (match := _WORD.match(text, at)) and match[0] in ("true", "false"):
            found.append(Number(int(match[0] == "true"), form="truth"))
        else:
            raise NoValue("this is no value")
        at = match.end()
        if isinstance(found[-1], Number) and _WORD.match(text, at):
            raise NoValue("this is no value")
    return found


def _character(match: re.Match[str], language: Language) -> Number:
    encoded, prefix = unescaped(match["text"]), match["prefix"] or ""
    if prefix and (prefix == "b") != (language == "rust"):
        raise NoValue("this is no value")
    if len(encoded) == 1:
        code = encoded[0]
        # A char is signed on x86: '\xff' is -1.
        code -= 256 if language != "rust" and not prefix and code > 127 else 0
    else:
        try:
            code = ord(encoded.decode())
        except (UnicodeDecodeError, TypeError) as error:
            raise NoValue("this is no character") from error
    return Number(code, 8 if prefix in ("b", "u8") else 32, not prefix, "number" if prefix == "b" else "character")


def _number(match: re.Match[str], language: Language) -> Number:
    if match["float"]:
        return Number(_float(match["float"], match["precision"].lower()))
    digits, suffix = match["digits"].replace("'", "").replace("_", "").lower(), match["suffix"].lower()
    base = {"0x": 16, "0b": 2, "0o": 8}.get(digits[:2], 10)
    if base == 10 and language != "rust" and len(digits) > 1 and digits[0] == "0":
        base = 8
    try:
        value = int(digits[2:] if base != 10 and not digits.isdigit() else digits, base)
    except ValueError as error:
        raise NoValue(f"{match[0]} has a digit that is not octal" if base == 8 else "this is no value") from error
    return _rust_integer(value, suffix) if language == "rust" else _c_integer(value, base, suffix)


def _float(text: str, precision: str) -> float:
    plain = text.replace("'", "").replace("_", "").lower()
    try:
        value = float.fromhex(plain) if plain.startswith("0x") else float(plain)
    except OverflowError as error:
        raise NoValue("the number is too large") from error
    return as_single(value) if precision in ("f", "f32") else value


def as_single(value: float) -> float:
    """The nearest value of a ``float``, which has 32 bits."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _rust_integer(value: int, suffix: str) -> Number:
    if not suffix:
        return _fitting(Number(value, 128))
    size = suffix[1:]
    return _fitting(Number(value, 64 if size == "size" else int(size), suffix[0] == "i"))


def _c_integer(value: int, base: int, suffix: str) -> Number:
    """The first type that holds the value: unsigned types only with the suffix ``u``, or if it is not decimal."""
    for bits in (32, 64) if suffix in ("", "u") else (64,):
        for signed in (True, False):
            if (signed and "u" not in suffix) or (not signed and ("u" in suffix or base != 10)):
                number = Number(value, bits, signed)
                if fits(number):
                    return number
    raise NoValue("the number is too large")


def fits(number: Number) -> bool:
    low = -(1 << (number.bits - 1)) if number.signed else 0
    return low <= number.value < low + (1 << number.bits)


def _fitting(number: Number) -> Number:
    if not fits(number):
        raise NoValue(f"this overflows {number.bits} bits")
    return number


# -- expressions ---------------------------------------------------------------------------------------------------

_SHIFTS = ("<<", ">>")
_COMPARISONS: dict[str, Callable[[int | float, int | float], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_C_LEVELS = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", "<=", ">", ">="),
    _SHIFTS,
    ("+", "-"),
    ("*", "/", "%"),
)
_RUST_LEVELS = (("||",), ("&&",), tuple(_COMPARISONS), ("|",), ("^",), ("&",), _SHIFTS, ("+", "-"), ("*", "/", "%"))
_MAX_DEPTH = 50


def evaluate(text: str, language: Language) -> Number:
    """The value of a literal or a constant expression of literals. Raises :class:`NoValue`."""
    parser = _Parser(_tokens(text, language), language)
    found = parser.expression()
    if parser.left:
        raise NoValue("this is no value")
    return found


class _Parser:
    def __init__(self, tokens: list[Number | str], language: Language) -> None:
        self.left = tokens[::-1]
        self._language = language
        self._levels = _RUST_LEVELS if language == "rust" else _C_LEVELS
        self._depth = 0

    def expression(self) -> Number:
        """A binary expression of the lowest level, or ``a ? b : c``, which Rust does not have."""
        condition = self._binary(0)
        if self._language == "rust" or not self._takes("?"):
            return condition
        then = self.expression()
        self._expect(":")
        otherwise = self.expression()
        return then if condition.value else otherwise

    def _binary(self, level: int) -> Number:
        if level == len(self._levels):
            return self._unary()
        found = self._binary(level + 1)
        while self.left and self.left[-1] in self._levels[level]:
            sign = str(self.left.pop())
            found = self._applied(sign, found, self._binary(level + 1))
        return found

    def _unary(self) -> Number:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise NoValue("this is nested too deep")
        if not self.left:
            raise NoValue("this is no value")
        token = self.left.pop()
        if token == "(":
            found = self.expression()
            self._expect(")")
        elif isinstance(token, str):
            found = self._signed(token, self._unary())
        else:
            found = token
        self._depth -= 1
        return found

    def _takes(self, sign: str) -> bool:
        return bool(self.left) and self.left[-1] == sign and bool(self.left.pop())

    def _expect(self, sign: str) -> None:
        if not self._takes(sign):
            raise NoValue(f"{sign} is missing")

    def _signed(self, sign: str, operand: Number) -> Number:
        is_rust = self._language == "rust"
        if sign == "!" and (not is_rust or operand.form == "truth"):
            return self._truth(not operand.value)
        if isinstance(operand.value, float):
            if sign in ("-", "+"):
                return Number(-operand.value if sign == "-" else operand.value)
        elif sign == "-" or (sign == "+" and not is_rust):
            return self._typed(-operand.value if sign == "-" else operand.value, self._promoted(operand))
        elif sign == ("!" if is_rust else "~"):
            return self._typed(~operand.value, self._promoted(operand), wraps=True)
        raise NoValue("this is no value")

    def _applied(self, sign: str, left: Number, right: Number) -> Number:
        if sign in ("&&", "||"):
            return self._truth(bool(left.value and right.value if sign == "&&" else left.value or right.value))
        if sign in _COMPARISONS:
            return self._truth(_COMPARISONS[sign](left.value, right.value))
        if isinstance(left.value, float) or isinstance(right.value, float):
            return Number(_of_floats(sign, float(left.value), float(right.value)))
        kind = self._promoted(left) if sign in _SHIFTS else self._common(left, right)
        a, b = (_converted(each.value, kind) if sign not in _SHIFTS else each.value for each in (left, right))
        if sign in _SHIFTS and not 0 <= b < kind.bits:
            raise NoValue(f"a shift by {b} is undefined")
        return self._typed(_of_integers(sign, int(a), int(b)), kind)

    def _truth(self, value: bool) -> Number:
        """The result of a comparison: a truth value in Rust; in C an int, which C++ converts to one, too."""
        return Number(int(value), form="truth" if self._language == "rust" else "number")

    def _promoted(self, operand: Number) -> Number:
        if self._language != "rust" and operand.bits < 32:
            return Number(0, 32, True)
        return Number(0, operand.bits, operand.signed)

    def _common(self, left: Number, right: Number) -> Number:
        """The type of both operands. In Rust a number without a suffix takes the type of the other one."""
        if self._language == "rust":
            return min(left, right, key=lambda each: each.bits)
        a, b = self._promoted(left), self._promoted(right)
        return max(a, b, key=lambda each: (each.bits, not each.signed))

    def _typed(self, value: int, kind: Number, *, wraps: bool = False) -> Number:
        """The result in its type. An unsigned type of C wraps around."""
        if wraps or (self._language != "rust" and not kind.signed):
            value = _converted(value, kind)
        return _fitting(Number(value, kind.bits, kind.signed))


def _converted(value: int | float, kind: Number) -> int:
    found = int(value) % (1 << kind.bits)
    return found - (1 << kind.bits) if kind.signed and found >> (kind.bits - 1) else found


_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_OF_INTEGERS = _OPERATIONS | {
    "<<": operator.lshift, ">>": operator.rshift, "&": operator.and_, "^": operator.xor, "|": operator.or_,
}  # fmt: skip
_OF_FLOATS = _OPERATIONS | {"/": operator.truediv}


def _of_floats(sign: str, left: float, right: float) -> float:
    if sign not in _OF_FLOATS:
        raise NoValue("this is no value")
    try:
        return float(_OF_FLOATS[sign](left, right))
    except (ZeroDivisionError, OverflowError) as error:
        raise NoValue("this is a division by zero") from error


def _of_integers(sign: str, left: int, right: int) -> int:
    if sign in ("/", "%"):
        if right == 0:
            raise NoValue("this is a division by zero")
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if sign == "/" else left - quotient * right
    return int(_OF_INTEGERS[sign](left, right))
