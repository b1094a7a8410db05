"""Judges a learner's prediction at a stop: with the program's values there, or with the card's values.

What the learner typed is read as the language of the program reads it (:mod:`cardapp.card.literal`), and compared as in
a proof: ``0x40``, ``64u`` and ``1<<6`` equal 64. A value is not judged if the card calls it undefined, or if there is
no known value for the comparison. A value that was left empty is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from cardapp.card import aggregate
from cardapp.card.aggregate import Aggregate, Item, key_of
from cardapp.card.constant import Language, NoValue, as_single, unescaped
from cardapp.card.literal import Constants, Reading, kind_of, model_of, named, read, spelled
from cardapp.card.model import NOT_RECORDED, Expectation, Snapshot
from cardapp.card.notation import integer
from cardapp.card.proof import same_value

Judge = Literal["program", "card"]
_LOWEST_ADDRESS = 0x1000
"""A program has nothing in the page that begins with the null pointer."""


def unasked(snapshot: Snapshot, values: Mapping[str, str]) -> Iterator[str]:
    """The expressions in ``values`` that the stop does not ask for."""
    return (expression for expression in values if expression not in snapshot.ask)


def expected_at(snapshot: Snapshot, expression: str) -> Expectation:
    """What the card expects of the expression; :data:`NOT_RECORDED` if it expects nothing."""
    found = (each for each in snapshot.expect if each.expression == expression)
    return next(found, Expectation(expression, NOT_RECORDED))


def understood(
    typed: str,
    wanted: Expectation,
    language: Language,
    seen: str | None = None,
    constants: Constants | None = None,
) -> Reading:
    """How ``typed`` is understood at a stop where the card expects ``wanted``, and the program has ``seen``, if known.

    Only the kinds of these two values are used. ``constants`` are the values of texts that gdb evaluated.
    """
    like = seen if seen is not None else None if wanted.undefined else wanted.value
    return read(typed, language, like, wanted.format, constants)


def names_in(
    said: Mapping[str, str], snapshot: Snapshot, values: Mapping[str, Any] | None, language: Language
) -> set[str]:
    """The texts whose values only gdb may know, among the predictions and the ``values`` of the program, if it has
    stopped: those with names of constants."""
    found: set[str] = set()
    for expression, text in said.items():
        seen = _seen(expected_at(snapshot, expression), values)
        found |= named(text, language, seen)
        if values is not None and kind_of(seen, language) == "name":
            found.add(str(seen))
    return found


def judged(
    seq: int,
    said: Mapping[str, str],
    snapshot: Snapshot,
    values: Mapping[str, Any] | None,
    language: Language = "c",
    constants: Constants | None = None,
) -> dict[str, Any]:
    """The judgement of the prediction with the number ``seq``: the data of an event ``prediction.judged``.

    :param said: the predicted values by expression. Those that the stop asks for and that are missing were left empty.
    :param values: what the session read at the stop, ``{expression: {value, error}}``; None: the card judges.
    :param constants: what gdb made of texts with names, by text.
    """
    seen: dict[str, str | None] = {}
    right: dict[str, bool | None] = {}
    reads: dict[str, str | None] = {}
    for expression in dict.fromkeys([*said, *snapshot.ask]):
        text, wanted = said.get(expression, ""), expected_at(snapshot, expression)
        there = _seen(wanted, values)
        seen[expression] = there
        reads[expression] = understood(text, wanted, language, there, constants).reads
        if wanted.undefined or there is None:
            right[expression] = None
        else:
            right[expression] = is_right(text, wanted, there, language, constants)
        if not text.strip() and not wanted.undefined:
            right[expression] = False
    by: Judge = "card" if values is None else "program"
    return {"prediction": seq, "said": dict(said), "reads": reads, "seen": seen, "right": right, "by": by}


def _seen(wanted: Expectation, values: Mapping[str, Any] | None) -> str | None:
    """The value with which a prediction is compared; None if it is not known."""
    if wanted.undefined:
        return wanted.value
    if values is not None:
        found: str | None = values.get(wanted.expression, {}).get("value")
        return found
    return wanted.value if wanted.value != NOT_RECORDED else None


# -- comparison ------------------------------------------------------------------------------------------------------


def is_right(
    typed: str, wanted: Expectation, seen: str, language: Language, constants: Constants | None = None
) -> bool:
    """Whether what the learner typed means the value ``seen``, within the tolerance that the card gives."""
    if _plain(typed) == _plain(seen):
        return True
    return _Comparison(wanted, language, constants or {}).is_same(
        aggregate.parse(typed, language) or typed, aggregate.parse(seen, language) or seen
    )


class _Comparison:
    def __init__(self, wanted: Expectation, language: Language, constants: Constants) -> None:
        self._wanted = wanted
        self._language = language
        self._constants = constants

    def is_same(self, said: Aggregate | str, seen: Aggregate | str) -> bool:
        if isinstance(seen, Aggregate) and isinstance(said, str) and seen.holds_one and seen.items:
            return self.is_same(said, seen.items[0].value)
        if isinstance(said, Aggregate) and isinstance(seen, Aggregate):
            return _fits_prefix(said, seen) and self._are_same(said, seen)
        typed, there = spelled(said, self._language), spelled(seen, self._language)
        return _plain(typed) == _plain(there) or self._is_same_value(typed, there)

    def _are_same(self, said: Aggregate, seen: Aggregate) -> bool:
        """Whether all parts are equal, by name if the learner names them. ``…`` ends what the debugger shows."""
        shown = list(seen.items)
        is_cut = len(shown) > 1 and shown[-1].value == "…"
        if is_cut:
            shown.pop()
        mine = [_pair(item) if _is_key(shown) else item for item in said.items]
        if len(mine) < len(shown) or (len(mine) > len(shown) and not is_cut):
            return False
        if seen.is_set(self._language):
            return self._are_same_set([item.value for item in mine], [item.value for item in shown])
        if all(item.name is None for item in mine):
            pairs = [(my.value, its.value) for my, its in zip(mine, shown, strict=False)]
        elif {key_of(item.name) for item in mine} != {key_of(item.name) for item in shown}:
            return False
        else:
            pairs = [(item.value, model_of(item.name, at, seen) or "") for at, item in enumerate(mine)]
        return all(self.is_same(my, its) for my, its in pairs)

    def _are_same_set(self, mine: list[Aggregate | str], shown: list[Aggregate | str]) -> bool:
        for value in mine:
            found = next((each for each in shown if self.is_same(value, each)), None)
            if found is None:
                return False
            shown.remove(found)
        return True

    def _is_same_value(self, typed: str, seen: str) -> bool:
        wanted, kind = self._wanted, kind_of(seen, self._language, self._wanted.format)
        if kind is None or (kind == "name" and typed[:1] == '"'):  # a card may leave out the quotes of a text
            pairs = ((typed, seen), (seen, typed))
            return any(
                same_value(Expectation(wanted.expression, a, wanted.format, wanted.tolerance), b) for a, b in pairs
            )
        reads = read(typed, self._language, seen, wanted.format, self._constants).reads
        if reads is None:
            return False
        if kind == "text":
            mine, its = content_of(reads), content_of(seen)
            return mine is not None and its is not None and (mine.startswith(its) if seen[-1] == "…" else mine == its)
        if kind == "pointer":
            return self._is_same_pointer(reads, seen)
        if kind == "character" and self._language == "rust":
            return reads == read(seen, "rust", seen).reads
        if kind == "float" and "nan" in seen:
            return "nan" in reads
        if kind in ("integer", "character") and (number := integer(reads)) is not None:
            return self._is_same_integer(number, seen, typed)
        if kind in ("integer", "float"):
            return any(
                same_value(Expectation(wanted.expression, each, None, wanted.tolerance), seen)
                for each in _spellings(reads)
            )
        return reads == seen or (kind == "name" and self._is_same_name(reads, seen))

    def _is_same_name(self, reads: str, seen: str) -> bool:
        """Whether the learner wrote the enumerator with less or more of its scope, or its number."""
        known = self._constants.get(seen)
        is_number = known is not None and known.number is not None and str(known.number) == reads
        return is_number or seen.endswith(f"::{reads}") or reads.endswith(f"::{seen}")

    def _is_same_pointer(self, reads: str, seen: str) -> bool:
        """A debugger's ``*`` stands for any address but null. What lies behind it is compared where it is shown."""
        content = seen.removeprefix("*").strip() if seen.startswith("*") else ""
        if content.startswith("<"):
            return reads == f"* {re.sub(r'[(+].*>', '>', content)}"
        if content:
            return reads.startswith("* ") and self._is_same_value(reads[2:], content)
        if seen == "*":
            return reads == "*" or (reads.startswith("0x") and int(reads, 16) >= _LOWEST_ADDRESS)
        return not reads.startswith("*") and same_value(Expectation(self._wanted.expression, reads), seen)

    def _is_same_integer(self, number: int, seen: str, typed: str) -> bool:
        letter = self._wanted.format
        there = integer(seen, letter)
        if there is None:
            return False
        if abs(number - there) <= (self._wanted.tolerance or 0):
            return True
        is_typed_as_bits = re.match(r"0[xXbB]|[LuU]?'", typed.strip()) is not None and self._language != "rust"
        is_bits = letter in ("x", "o", "t", "z") or is_typed_as_bits
        return is_bits and _has_same_bits(number, there)


def _is_key(items: Sequence[Item]) -> bool:
    """Whether these are the elements of a map of C++, each with its key."""
    return bool(items) and all(item.name is not None and item.name.startswith("[") for item in items)


def _pair(item: Item) -> Item:
    """An element of a map as C++ writes it, ``{"saw", 1}``, with its key as the name."""
    value = item.value
    if item.name is not None or isinstance(value, str) or len(value.items) != 2 or value.prefix:
        return item
    key, element = value.items
    return Item(f"[{key.value}]", element.value) if isinstance(key.value, str) else item


def _fits_prefix(said: Aggregate, seen: Aggregate) -> bool:
    """Whether the learner left out the type before the bracket, or wrote the right one."""
    if said.opening != seen.opening:
        return False
    if not said.prefix:
        return not seen.prefix or seen.opening != "("  # Some(3) is not (3)
    if not seen.prefix or said.prefix == seen.prefix or (not said.items and not seen.items):
        return True
    sizes = [re.search(r" (?:of length|with) (\d+)", each.prefix) for each in (said, seen)]
    return said.bare == seen.bare and (sizes[0] is None or sizes[1] is None or sizes[0][1] == sizes[1][1])


def _has_same_bits(number: int, other: int) -> bool:
    """Whether the two are one value of 8 to 64 bits, once read as signed and once as unsigned: -1 and 0xffffffff."""
    low, high = sorted((number, other))
    return any(
        low < 0 and high - low == 1 << bits and high >= 1 << (bits - 1) and high < 1 << bits for bits in (8, 16, 32, 64)
    )


def _spellings(reads: str) -> Iterator[str]:
    """The number as a ``double`` and as a ``float`` has it, as gdb prints both."""
    yield reads
    try:
        yield f"{as_single(float(reads)):.9g}"
    except ValueError:
        return


_REPEATED = re.compile(r"L?'(\\.[^']*|[^'\\])' <repeats (\d+) times>", re.DOTALL)
_QUOTED = re.compile(r'"((?:\\.|[^"\\])*)"', re.DOTALL)


def content_of(text: str) -> bytes | None:
    """The content of a text that gdb printed, up to its first NUL; None if it is not a text."""
    found = b""
    for match in re.finditer(f"{_REPEATED.pattern}|{_QUOTED.pattern}", text, re.DOTALL):
        once, count, quoted = match.groups()
        try:
            found += unescaped(quoted) if quoted is not None else unescaped(once) * min(int(count), 100_000)
        except NoValue:
            return None
    is_text = '"' in text or "' <repeats " in text
    return found.split(b"\0", 1)[0] if is_text else None


def _plain(text: str) -> str:
    """The text with each run of blanks as one, which makes no difference outside of quotes."""
    return text.strip() if '"' in text else " ".join(text.split())
