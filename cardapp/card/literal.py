"""Reads a value that a learner typed, as the language of the program reads it: ``0x40``, ``8u``, ``'a'``, ``1<<6``.

What the text may be depends on the kind of the asked value, which the value seen at the stop, or expected there, shows:
``true`` is a truth value only, ``NULL`` a pointer only, and a text needs no quotes. Without it, literals are read by
their own form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Literal, NamedTuple

from cardapp.card import aggregate
from cardapp.card.aggregate import Aggregate, arranged, spelled, without_holder
from cardapp.card.constant import Language, NoValue, Number, evaluate, unescaped
from cardapp.card.model import NOT_RECORDED
from cardapp.card.notation import MINUS_SIGNS

Kind = Literal["pointer", "integer", "float", "truth", "character", "text", "aggregate", "name"]

NULL: Final = "0x0"
_NULLS = frozenset(["NULL", "nullptr", "null"])
_WORDS = _NULLS | {"true", "false"}
_NULL_CALL = re.compile(
    r"\(\s*(?:const\s+)?(?:struct\s+)?[\w:]+\s*\*+\s*\)\s*(?:0|NULL)|(?:(?:std|core)::)?ptr::null(?:_mut)?\(\)"
)
"""A null pointer that is cast, and the call that makes one in Rust."""
_MINUS = str.maketrans(dict.fromkeys(MINUS_SIGNS, "-") | dict.fromkeys("\u00a0\u2009\u202f", " "))
"""What is pasted from a text: minus signs, and blanks that are none of the language."""


class Constant(NamedTuple):
    """What gdb made of a text with names of the program: ``value`` as it prints it, ``number`` the integer. It is None
    for a floating point number."""

    value: str
    number: int | None


Constants = Mapping[str, Constant]


class Reading(NamedTuple):
    """How a text is understood. One of the two is None: ``reads`` is the value as the debugger writes it, ``reason``
    says why there is none."""

    reads: str | None
    reason: str | None = None


# -- kinds -----------------------------------------------------------------------------------------------------------

_TEXT = re.compile(r"(?:\(.*\)\s*)?(?:0x[0-9a-f]+\s+)?(?:[LuU]?8?\"|L?'(?:\\.[^']*|[^'\\])' <repeats )")
_POINTER = re.compile(r"\*(?: .*)?|(?:\(.*\*+\)\s*)0x[0-9a-f]+.*|0x(?:0|[0-9a-f]{5,})(?:\s+<.*)?", re.DOTALL)
_KINDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("truth", re.compile("true|false")),
    ("character", re.compile(r"(?:-?\d+ )?[LuU]?'.*'", re.DOTALL)),
    ("integer", re.compile(r"[-+]?(?:0x[0-9a-fA-F]+|\d+)(?: <.*>)?")),
    ("float", re.compile(r"-?(?:nan.*|inf|\d+\.\d*(?:e[-+]?\d+)?|\d+e[-+]?\d+)", re.IGNORECASE)),
    ("name", re.compile(r"[A-Za-z_][\w:]*|\((?:[A-Za-z_][\w:]*|unknown: 0x[0-9a-f]+)(?: \| .*)?\)")),
)


def kind_of(value: str | None, language: Language, letter: str | None = None) -> Kind | None:
    """The kind of a value that gdb printed, or that a card expects, with the format ``letter``; None if it is not
    known."""
    if value is None or value.strip() in ("", NOT_RECORDED):
        return None
    value = value.strip()
    if letter is not None and letter in "xodutz" and re.fullmatch(r"[-+]?(?:0[xX])?[0-9a-fA-F]+", value):
        return "integer"
    if _TEXT.match(value):
        return "text"
    if _POINTER.fullmatch(value):
        return "pointer"
    if aggregate.parse(value, language) is not None:
        return "aggregate"
    return next((kind for kind, form in _KINDS if form.fullmatch(value)), None)


# -- reading ---------------------------------------------------------------------------------------------------------


def read(
    typed: str,
    language: Language,
    like: str | None = None,
    letter: str | None = None,
    constants: Constants | None = None,
) -> Reading:
    """How ``typed`` is understood, as a value of the kind of ``like``, which gdb printed or the card expects.

    ``letter`` is the card's print format for ``like``. ``constants`` has what gdb made of texts with names.
    """
    try:
        return Reading(_read(typed.strip(), language, like, letter, constants or {}))
    except NoValue as error:
        return Reading(None, str(error))


def _read(text: str, language: Language, like: str | None, letter: str | None, constants: Constants) -> str:
    if not text:
        raise NoValue("this is empty")
    kind = kind_of(like, language, letter)
    if kind == "text":
        return _text(text)
    text = text if '"' in text else text.translate(_MINUS)
    if kind == "pointer":
        return _pointer(text, language, like or "", constants)
    if kind in (None, "name") and text.startswith('"'):
        return _text(text)
    if kind == "name" and language != "rust":
        return _enumerator(text, language, like or "", constants)
    is_variant = kind in ("name", "aggregate") and language == "rust"
    if is_variant and _NAME.fullmatch(text):
        return text
    # In Rust a name may be one of several variants, of which others have parts.
    if kind == "aggregate" or is_variant or (kind in (None, "name") and aggregate.parse(text, language) is not None):
        return _aggregate(text, language, like, constants)
    if kind is None and text in _NULLS:
        return NULL
    text = _known(text, constants)
    found = re.fullmatch(r"(-?[0-9]+) ('.*')", text)  # a character as gdb prints it: 97 'a'
    if kind == "float" and (special := re.fullmatch(r"(-?)(nan|inf)(?:inity)?", text, re.IGNORECASE)):
        return special[1] + special[2].lower()
    try:
        number = evaluate(found[2] if found else text, language)
    except NoValue as error:
        raise _told(text, kind, error) from None
    if found and (int(number.value) - int(found[1])) % 256:
        raise NoValue(f"{found[2]} is not {found[1]}")
    return _number(number, kind, language)


def _known(text: str, constants: Constants, default: str | None = None) -> str:
    """What gdb made of the text, as a literal; else the text itself."""
    found = constants.get(text)
    if found is None:
        return text if default is None else default
    return found.value if found.number is None or found.value in ("true", "false") else str(found.number)


_NAME = re.compile(r"[A-Za-z_][\w:]*", re.ASCII)
_ENUMERATORS = re.compile(rf"\(?\s*{_NAME.pattern}(?:\s*\|\s*{_NAME.pattern})*\s*\)?", re.ASCII)


def _enumerator(text: str, language: Language, like: str, constants: Constants) -> str:
    """An enumerator, or flags, by its name: also if its number or a part of its scope was typed."""
    found = constants.get(_as_enumerator(text, like))
    if found is not None:
        return found.value
    if not _ENUMERATORS.fullmatch(text) or text in _WORDS:
        return _number(evaluate(_known(text, constants), language), "name", language)
    names = [_scoped(each, like) for each in _NAME.findall(text)]
    return names[0] if len(names) == 1 else f"({' | '.join(names)})"


def _as_enumerator(text: str, like: str) -> str:
    """The text as an expression of gdb of the same type as the enumerator ``like``."""
    name = _NAME.search(like)
    return f"(__typeof__({name[0]})) ({text})" if name else text


def _scoped(name: str, like: str) -> str:
    """The enumerator with the whole scope that ``like`` has, if it has a part of it."""
    full = _NAME.search(like)
    scope = full[0].rpartition("::")[0] if full else ""
    mine, _, last = name.rpartition("::")
    has_part = scope and (not mine or f"::{scope}".endswith(f"::{mine}"))
    return f"{scope}::{last}" if has_part else name


def _told(text: str, kind: Kind | None, error: NoValue) -> NoValue:
    """The error; for what other languages or a word processor write, it says how to write it."""
    instead = None
    if kind in ("truth", None) and text.lower() in ("true", "false"):
        instead = text.lower()
    elif kind in ("character", None) and (quoted := re.fullmatch("[‘’‚‛](.)[‘’]", text)):
        instead = f"'{quoted[1]}'"
    elif kind == "character" and len(text) == 1:
        instead = f"'{text}'"
    elif kind in ("pointer", None) and text == "None":
        instead = "NULL"
    elif kind is None and (quoted := _TYPOGRAPHIC.fullmatch(text)):
        instead = f'"{quoted[1]}"'
    elif kind is None and _NAME.fullmatch(text):
        instead = f'"{text}" for a text'
    return error if instead is None else NoValue(f"write {instead}")


_TYPOGRAPHIC = re.compile("[“”„«»‘’](.*)[“”«»‘’]")
_NAMED = re.compile(r"(?<![\w.'\\])[A-Za-z_]\w*")
_MAX_NAMED = 200


def named(typed: str, language: Language, like: str | None = None) -> set[str]:
    """The parts of what was typed that only gdb may know: those with a name that is neither a literal nor a text."""
    kind = kind_of(like, language)
    if kind == "text":
        return set()
    found, known = aggregate.parse(typed, language), _parsed(like, language)
    if known is not None and known.holds_one:
        content = without_holder(found or typed, known, language)
        return set() if content is None else named(spelled(content, language), language, _like(known.held, language))
    if found is not None:
        with suppress(NoValue):
            found = arranged(found, known, language)
        parts = [(value, model_of(name, at, known, language)) for at, (name, value) in enumerate(found.items)]
        return {
            name for value, model in parts for name in named(spelled(value, language), language, _like(model, language))
        }
    text = typed.strip().translate(_MINUS)
    if '"' in text or len(text) > _MAX_NAMED:
        return set()
    if kind == "name" and language != "rust":
        return set() if text in _WORDS else {_as_enumerator(text, like or "")}
    return {text} if {*_NAMED.findall(text)} - _WORDS else set()


def _number(number: Number, kind: Kind | None, language: Language) -> str:
    value = number.value
    if kind == "truth" or number.form == "truth":
        if kind not in ("truth", None) or not (number.form == "truth" or (language != "rust" and value in (0, 1))):
            raise NoValue("true and false are truth values" if number.form == "truth" else "this is no truth value")
        return "true" if value else "false"
    if isinstance(value, float):
        return float_text(value)
    if language == "rust":
        if (number.form == "character") != (kind == "character") and kind is not None:
            raise NoValue("a char is no number; write b'…'" if kind != "character" else "write a char as 'x'")
        return f"'{_sign(value, 128)}'" if number.form == "character" else str(value)
    if (kind == "character" and -128 <= value < 0x110000) or (kind is None and number.form == "character"):
        return f"{value} '{_sign(value, 256)}'"
    return str(value)


def float_text(value: float) -> str:
    """The shortest text of a float, without ``.0``, as gdb leaves it out."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e16 else repr(value)


def _sign(code: int, first_wide: int) -> str:
    """A character between its quotes, as the debugger prints it. From ``first_wide`` on it has more than a byte."""
    encoded = bytes([code % 256]) if code < first_wide else chr(code).encode("utf-8", "surrogatepass")
    return {0: "\\000", 39: "\\'", 34: '"'}.get(code) or escaped(encoded)


def _pointer(text: str, language: Language, like: str, constants: Constants) -> str:
    if text in _NULLS or _NULL_CALL.fullmatch(text):
        return NULL
    content = like.removeprefix("*").strip() if like.startswith("*") else ""
    if _FUNCTION.fullmatch(content):
        return _function(text)
    has_content = text.startswith('"') or aggregate.parse(text, language) is not None
    if text.startswith("*") or has_content or (content and (content.isdecimal() or not text.startswith("0x"))):
        inner = text.removeprefix("*").strip()
        return f"* {inner and _read(inner, language, content or None, None, constants)}".rstrip()
    address = re.fullmatch(r"(?:\([^()]*\*+\)\s*)?(.+)", text)
    try:
        number = evaluate(_known(text, constants, address[1] if address else text), language)
    except NoValue as error:
        if like == "*" and _NAME.match(text) and text != "None":
            return f"* {_text(text)}"  # the card hides what the pointer points to: it may be a text
        raise _told(text, "pointer", error) from None
    if isinstance(number.value, float) or number.form != "number" or number.value < 0:
        raise NoValue("this is no address")
    return hex(number.value)


_FUNCTION = re.compile(r"<[\w:~]+(?:\(.*\))?(?:\+\d+)?>")


def _function(text: str) -> str:
    """A pointer to a function, which is written with its name."""
    match = re.fullmatch(r"(?:\*\s*)?[&<]?\s*([A-Za-z_][\w:~]*)(?:\(.*\))?>?|\*", text)
    if match is None:
        raise NoValue("write the name of the function")
    return f"* <{match[1]}>" if match[1] else "*"


_LITERALS = re.compile(r'(?:(?:[LuUb]|u8)?"(?:\\.|[^"\\])*"\s*)+')
_LITERAL = re.compile(r'"((?:\\.|[^"\\])*)"')


def _text(text: str) -> str:
    """A text in its quotes. A learner may leave them out."""
    if text in _NULLS:
        return NULL
    if _LITERALS.fullmatch(text):
        return f'"{escaped(b"".join(unescaped(each) for each in _LITERAL.findall(text)))}"'
    if text[0] in "\"'" or text[-1] == '"':
        raise NoValue('write a text in double quotes, "…", or in none')
    if quoted := _TYPOGRAPHIC.fullmatch(text):
        raise NoValue(f'write "{quoted[1]}"')
    try:
        content = unescaped(text)
    except NoValue:  # a backslash of its own: C:\\dir
        content = text.encode("utf-8", "surrogatepass")
    return f'"{escaped(content)}"'


_SIGNS = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 27: "\\033", 34: '\\"', 92: "\\\\"}


def escaped(content: bytes) -> str:
    """The content of a text between its quotes, as gdb prints it."""
    return "".join(
        "".join(f"\\{byte:03o}" for byte in sign.encode("utf-8", "surrogateescape"))
        if not sign.isprintable() and ord(sign) not in _SIGNS
        else _SIGNS.get(ord(sign), sign)
        for sign in content.decode("utf-8", "surrogateescape")
    )


# -- aggregates ------------------------------------------------------------------------------------------------------


def _aggregate(text: str, language: Language, like: str | None, constants: Constants) -> str:
    found, known = aggregate.parse(text, language), _parsed(like, language)
    if known is not None and known.holds_one:
        content = without_holder(found or text, known, language)
        if content is None:
            return "nullopt"
        return _read(spelled(content, language), language, _like(known.held, language), None, constants)
    if found is None:
        raise NoValue("write all parts, in the brackets of the language")
    found = arranged(found, known, language)
    items = [
        (_key(name, language, known, constants), _part(value, model_of(name, at, known, language), language, constants))
        for at, (name, value) in enumerate(found.items)
    ]
    return aggregate.text_of(found, language, items)


def _parsed(like: str | None, language: Language) -> Aggregate | None:
    return aggregate.parse(like, language) if like is not None else None


def _like(model: Aggregate | str | None, language: Language) -> str | None:
    return None if model is None else spelled(model, language)


def _part(value: Aggregate | str, model: Aggregate | str | None, language: Language, constants: Constants) -> str:
    return _read(spelled(value, language), language, _like(model, language), None, constants)


def _key(name: str | None, language: Language, known: Aggregate | None, constants: Constants) -> str | None:
    """The name, which is read as a value if it is the key of a map."""
    if name is None or known is None or not known.is_map(language):
        return name
    like = known.items[0].name if known.items else None
    read_key = _read(inner_key(name), language, None if like is None else inner_key(like), None, constants)
    return read_key if language == "rust" else f"[{read_key}]"


def inner_key(name: str) -> str:
    """The key in a map's element, without the brackets around it."""
    return name[1:-1].strip() if name.startswith("[") and name.endswith("]") else name


def model_of(name: str | None, at: int, known: Aggregate | None, language: Language) -> Aggregate | str | None:
    """The part of ``known`` that has this name or place. Beyond its end, the parts of an array are like its first, and
    so are all elements of a map."""
    if known is None or not known.items:
        return None
    if known.is_map(language):
        return known.items[0].value
    if name is not None and any(each.name is not None for each in known.items):
        return next((each.value for each in known.items if aggregate.key_of(each.name) == aggregate.key_of(name)), None)
    return known.items[at if at < len(known.items) else 0].value
