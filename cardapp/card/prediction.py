"""Judges a learner's prediction at a stop: with the program's values there, or with the card's values.

What the learner typed is read as the language of the program reads it (:mod:`cardapp.card.literal`), and compared as in
a proof: ``0x40``, ``64u`` and ``1<<6`` equal 64. A value is not judged if the card calls it undefined, or if there is
no known value for the comparison. A value that was left empty is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from cardapp.card import aggregate
from cardapp.card.aggregate import Aggregate, Item, arranged, key_of, spelled, without_holder
from cardapp.card.constant import Language, NoValue, as_single, unescaped
from cardapp.card.literal import Constants, Reading, inner_key, kind_of, named, read
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


class Judgement(NamedTuple):
    """How a prediction is read, and whether that is the value there: None if there is no value to compare with."""

    reading: Reading
    right: bool | None


def judge(
    typed: str, wanted: Expectation, seen: str | None, language: Language, constants: Constants | None = None
) -> Judgement:
    """Read ``typed`` at a stop where the card expects ``wanted``, and compare it with ``seen``, within the tolerance
    that the card gives.

    It is read as a value of the kind that the card expects, so that it reads the same before the program has run. What
    is no value is never right. ``constants`` are the values of texts that gdb evaluated.
    """
    known = constants or {}
    reading = read(typed, language, _kind_like(wanted), wanted.format, known)
    if wanted.undefined:
        return Judgement(reading, None)
    if not typed.strip():
        return Judgement(reading, False)
    if seen is None:
        return Judgement(reading, None)
    said, there = (aggregate.parse(each, language) or each for each in (typed, seen))
    return Judgement(reading, reading.reads is not None and _Comparison(wanted, language, known).is_same(said, there))


def _kind_like(wanted: Expectation) -> str | None:
    """The value whose kind the prediction has; None if the card has none."""
    return None if wanted.undefined else wanted.value


def names_in(
    said: Mapping[str, str], snapshot: Snapshot, values: Mapping[str, Any] | None, language: Language
) -> set[str]:
    """The texts whose values only gdb may know, among the predictions: those with names of constants. ``values`` are
    the program's, if it has stopped."""
    found: set[str] = set()
    for expression, text in said.items():
        wanted = expected_at(snapshot, expression)
        for like in {_kind_like(wanted), _seen(wanted, values)}:
            found |= named(text, language, like)
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
        wanted = expected_at(snapshot, expression)
        seen[expression] = _seen(wanted, values)
        found = judge(said.get(expression, ""), wanted, seen[expression], language, constants)
        reads[expression], right[expression] = found.reading.reads, found.right
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


class _Comparison:
    def __init__(self, wanted: Expectation, language: Language, constants: Constants) -> None:
        self._wanted = wanted
        self._language = language
        self._constants = constants

    def is_same(self, said: Aggregate | str, seen: Aggregate | str) -> bool:
        if isinstance(seen, Aggregate) and seen.holds_one:
            content, there = without_holder(said, seen, self._language), seen.held
            return content is there is None or (
                content is not None and there is not None and self.is_same(content, there)
            )
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
        try:
            mine = arranged(said, seen._replace(items=shown), self._language).items
        except NoValue:
            return False
        if len(mine) < len(shown) or (len(mine) > len(shown) and not is_cut):
            return False
        if seen.is_set(self._language) or seen.is_map(self._language):
            return self._are_among(shown, mine, seen.is_map(self._language))
        if all(item.name is None for item in mine):
            return all(self.is_same(my.value, its.value) for my, its in zip(mine, shown, strict=False))
        theirs = {key_of(item.name): item.value for item in shown}
        is_named = {key_of(item.name) for item in mine} == set(theirs)
        return is_named and all(self.is_same(item.value, theirs[key_of(item.name)]) for item in mine)

    def _are_among(self, shown: Sequence[Item], mine: Sequence[Item], have_keys: bool) -> bool:
        """Whether each of the elements is one of those that the learner wrote, in whatever order."""
        left = list(mine)
        for its in shown:
            same = (
                my for my in left if self.is_same(my.value, its.value) and (not have_keys or self._is_same_key(my, its))
            )
            found = next(same, None)
            if found is None:
                return False
            left.remove(found)
        return True

    def _is_same_key(self, mine: Item, shown: Item) -> bool:
        said, seen = (inner_key(each.name or "") for each in (mine, shown))
        return said == seen or self._is_same_value(said, seen)

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
        # The learner may write an enumerator with less or more of its scope.
        return reads == seen or (kind == "name" and (seen.endswith(f"::{reads}") or reads.endswith(f"::{seen}")))

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
