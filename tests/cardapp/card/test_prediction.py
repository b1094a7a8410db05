"""A learner's spellings of values, right and wrong, judged as a teacher would judge them."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from cardapp.card.constant import Language, language_of
from cardapp.card.literal import read
from cardapp.card.model import Expectation
from cardapp.card.notation import read_in, shown
from cardapp.card.prediction import judge

# The value that the program has, as gdb prints it; the languages; what is right; what is wrong.
TABLE: tuple[tuple[str, str, str, str], ...] = (
    ("c c++", "8", "8 8u 8UL 0x8 010 0b1000 1<<3 2*4 (3+5) 17/2 16>>1 ~-9 +8", "9 08 8_0 1<<4 true NULL eight 0o10"),
    ("rust", "8", "8 8u32 8_usize 0o10 0b1000 0x8 1<<3 08", "010u8 8UL true null +8"),
    ("rust", "10", "010 10i64 0xA", "012"),
    ("c c++ rust", "0", "0 0b0 0x0 5-5", "NULL false null nullptr"),
    ("c c++", "-3", "-3 \u22123 \u20133 \u20113 -7/2 -(3) 0xfffffffd", "3 -4 4294967293"),
    ("c c++", "4294967295", "4294967295 0xFFFFFFFF -1+0u ~0u 0u-1", "-1"),
    ("c", "97", "97 'a' '\\x61' '\\141' 'b'-1 96+1", "a 'b' \"a\""),
    ("rust", "97", "97 b'a' 0x61", "'a'"),
    ("c c++", "97 'a'", "97 'a' 0x61 '\\x61'", "'A' 65 a"),
    ("rust", "'a'", "'a' '\\x61' '\\u{61}'", "'A' 97 a"),
    ("c", "10 '\\n'", "10 '\\n' 012 '\\012'", "'n' n"),
    ("c c++ rust", "0x0", "NULL nullptr null 0 0x0", "1 false 0x1000"),
    ("c++ rust", "true", "true", "false yes TRUE"),
    ("c c++", "true", "true 1 1==1 !0", "false 0 2"),
    ("rust", "false", "false 1>2", "0 true"),
    ("c c++ rust", '"alice"', 'alice "alice"', "'alice' \"alice bob\" bob * NULL"),
    ("c c++", "0.5", "0.5 .5e0 5e-1 0.5f 1/2.0", "0.25 1/2"),
    ("rust", "0.5", "0.5 5e-1 0.5_f32 1.0/2.0", "0.25 1/2 .5"),
    ("c c++", "0.100000001", "0.1 0.1f 1e-1", "0.2"),
    ("c c++", "{1, 2, 3}", "{1,2,3} {1,0x2,'\\x03'} {1,2,3,}", "{1,2} {1,2,3,4} 1,2,3 {3,2,1}"),
    ("c c++", "{x = 1, next = 0x0}", "{1,NULL} {x=1,next=0} {.x=1,.next=nullptr} {next=0,x=1}", "{1} {x=1,y=0} {2,0}"),
    ("rust", "Some(3)", "Some(3) Some(0b11)", "None 3 (3) Some(4) Ok(3)"),
    ("rust", "[1, 2]", "[1,2] [1u8,2]", "[2,1] {1,2}"),
)  # fmt: skip
# Values and spellings that have blanks in them.
WITH_BLANKS: tuple[tuple[Language, str, str, bool], ...] = (
    ("c", "{ 1 , 2,3 }", "{1, 2, 3}", True),
    ("c", "{0 <repeats 16 times>}", "{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}", True),
    ("c", "{name = \"alice\", id = 7}", '{name = * "alice", id = 7}', True),
    ("c", "{name = \"bob\", id = 7}", '{name = * "alice", id = 7}', False),
    ("c", "{name = *, id = 7}", '{name = * "alice", id = 7}', False),
    ("c", "{name = *, id = 7}", "{name = *, id = 7}", True),
    ("c", "{name = NULL, id = 7}", "{name = *, id = 7}", False),
    ("c", "(void *) 0", "0x0", True),
    ("c++", '{"a","b"}', 'std::vector of length 2 = {"a", "b"}', True),
    ("c++", "std::vector<std::string>{a, b}", 'std::vector of length 2 = {"a", "b"}', True),
    ("c++", '{["b"] = 2, ["a"] = 1}', 'std::map with 2 elements = {["a"] = 1, ["b"] = 2}', True),
    ("c++", '{["b"] = 1, ["a"] = 2}', 'std::map with 2 elements = {["a"] = 1, ["b"] = 2}', False),
    ("c++", "Red", "Color::Red", True),
    ("rust", 'Item{n:1,name:"egg"}', 'Item { name: "egg", n: 1 }', True),
    ("rust", 'Item { name: "ham", n: 1 }', 'Item { name: "egg", n: 1 }', False),
    ("rust", "( 1, 2 )", "(1, 2)", True),
    ("c", "97 'a'", "97 'a'", True),
    ("c", "98 'a'", "97 'a'", False),
    ("c", "5", "*", False),
    ("c", "0x7ffe12", "*", True),
    ("c", "two words", '"two words"', True),
    ("c", "two  words", '"two words"', False),
    ("c", '"two  words"', '"two words"', False),
    ("c", "{1, 2, 3, 4}", "{1, 2, 3, …}", True),
    ("c", "{1, 2}", "{1, 2, 3, …}", False),
    ("c", "{1, 2}", "{…}", False),
    ("c", "abcd", '"abc"…', True),
    ("c", "abd", '"abc"…', False),
    ("c", "caf\\303\\251", '"café"', True),
)  # fmt: skip


def rows() -> Iterator[tuple[Language, str, str, bool]]:
    for languages, seen, right, wrong in TABLE:
        for language in languages.split():
            for spelling in right.split():
                yield language, spelling, seen, True  # type: ignore[misc]
            for spelling in wrong.split():
                yield language, spelling, seen, False  # type: ignore[misc]
    yield from WITH_BLANKS


def test_spellings_are_judged_as_a_teacher_would() -> None:
    found = [
        (language, said, seen, judge(said, Expectation("e", seen), seen, language).right)
        for language, said, seen, _ in rows()
    ]
    wrong = [got for got, wanted in zip(found, rows(), strict=True) if got != wanted]
    assert not wrong, wrong
    assert len(found) >= 60


READS: tuple[tuple[Language, str, str | None, str | None], ...] = (
    ("c", "8u", "0", "8"),
    ("c", "8u", None, "8"),
    ("c", "010", "0", "8"),
    ("c++", "010", "0", "8"),
    ("rust", "010", "0", "10"),
    ("c", "0b101", None, "5"),
    ("c", "1'000", "0", "1000"),
    ("rust", "1_000", "0", "1000"),
    ("c", "'a'", "97 'a'", "97 'a'"),
    ("c", "'a'", None, "97 'a'"),
    ("c", "'a'", "1", "97"),
    ("c", "NULL", "0x0", "0x0"),
    ("c", "0", "0x7ffe12345678", "0x0"),
    ("c++", "nullptr", None, "0x0"),
    ("c", "NULL", "7", None),
    ("c", "words here", "7", None),
    ("c", "true", "7", None),
    ("c", "alice", '"bob"', '"alice"'),
    ("c", "alice", None, None),
    ("c", "{1,2 ,3}", "{4, 5, 6}", "{1, 2, 3}"),
    ("c", "{1,NULL}", "{x = 4, p = 0x0}", "{1, 0x0}"),
    ("c", "1/0", "7", None),
    ("c", "2147483647+1", "7", None),
    ("c", "1<<31", "7", None),
    ("c", "1u<<31", "7", "2147483648"),
    ("rust", "Some( 3u8 )", "None", "Some(3)"),
    ("rust", "3", "None", None),
    ("rust", "3", "Some(4)", None),
    ("c", '"box"', "box", '"box"'),
    ("c++", "5", "std::optional = {4}", "5"),
    ("c++", "5", "std::optional [no contained value]", "5"),
    ("c", "0.5f", None, "0.5"),
    ("c", "1e3", "2.5", "1000"),
    ("c", "−5", "7", "-5"),
    ("c", "x" * 1000, "7", None),
    ("c", "(" * 900 + "1" + ")" * 90, "7", None),
    ("c", "1<<99999999", "7", None),
    ("rust", "1" + "*99999999" * 99, "7", None),
)  # fmt: skip


# What other languages and word processors write, and what the reading says about it.
REASONS: tuple[tuple[Language, str, str | None, str], ...] = (
    ("c", "True", "true", "write true"),
    ("c++", "FALSE", "false", "write false"),
    ("c", "a", "97 'a'", "write 'a'"),
    ("rust", "a", "'a'", "write 'a'"),
    ("c", "‘a’", "97 'a'", "write 'a'"),
    ("c", "“ab”", '"ab"', 'write "ab"'),
    ("c", "None", "0x0", "write NULL"),
    ("c", "ab", None, 'write "ab" for a text'),
    ("c", "\u0663", "3", "this is no value"),
    ("c", "{1, \u0662}", "{1, 2}", "this is no value"),
    ("rust", "\uff13", "3", "this is no value"),
    ("c++", "{axe = 1}", 'std::map with 1 element = {["axe"] = 1}', "write a map as {{key, value}}"),
    ("rust", "{a = 1}", '{"a": 1}', "write a map as {key: value}"),
)


def test_what_is_no_value_says_how_to_write_it() -> None:
    for language, typed, seen, reason in REASONS:
        found = judge(typed, Expectation("e", seen or "?"), seen, language)
        assert found.reading == (None, reason), typed
        assert not found.right, typed


def test_a_text_is_read_as_its_language_reads_it_or_a_reason_is_given() -> None:
    for language, typed, like, wanted in READS:
        found = read(typed, language, like)
        assert found.reads == wanted, (language, typed, like, found)
        assert (found.reads is None) == (found.reason is not None)


def test_the_format_of_the_card_tells_how_its_value_is_written() -> None:
    for letter, seen, said, wanted in (
        ("x", "0x40", "64", True),
        ("o", "0100", "64", True),
        ("t", "1000000", "0x40", True),
        ("x", "0xffffffff", "-1", True),
        ("d", "64", "0x41", False),
    ):
        assert judge(said, Expectation("e", seen, letter), seen, "c").right is wanted, (letter, said)


def test_the_language_is_that_of_the_sources() -> None:
    found = [language_of(files) for files in (["Makefile", "src/a.rs"], ["a.h", "a.c"], ["a.hpp"], ["a.cc", "b.c"], [])]
    assert found == ["rust", "c", "c++", "c++", "c"]


def test_a_text_that_the_card_hides_may_be_predicted() -> None:
    assert judge("alice", Expectation("e", "*"), '"alice"', "c") == (('* "alice"', None), True)
    assert judge("bob", Expectation("e", "*"), '"alice"', "c").right is False


def test_an_array_of_characters_is_its_text() -> None:
    for seen in ('"ab\\000c"', "\"ab\", '\\000' <repeats 13 times>"):
        assert judge("ab", Expectation("e", seen), seen, "c").right, seen


def test_a_prediction_and_the_value_are_shown_in_one_notation() -> None:
    for typed, reads, seen, letter, wanted in (
        ("0x3f", "63", "64", None, ("0x3f", "63", "0x40", "64")),
        ("63", "63", "0x40", "x", ("0x3f", "63", "0x40", "64")),
        ("64u", "64", "64", None, ("64", "64u", "64", None)),
        ("077", "63", "64", None, ("077", "63", "0100", "64")),
        ("0o77", "63", "64", None, ("0o77", "63", "0o100", "64")),
        ("5", "5", "101", "t", ("0b101", "5", "0b101", "101")),
        ("NULL", "0x0", "0x0", None, ("0x0", "NULL", "0x0", None)),
        ("{1,18}", "{1, 18}", "{0x1, 0x2}", "x", ("{0x1, 0x12}", "{1,18}", "{0x1, 0x2}", None)),
        ("eight", None, "8", None, ("eight", None, "8", None)),
        (None, None, "0x40", "x", (None, None, "0x40", "64")),
    ):
        assert tuple(shown(typed, reads, seen, letter).values()) == wanted, (typed, seen, letter)
    for reads, letter, expected in (
        ("63", "x", "0x3f"),
        ("5", "t", "0b101"),
        ("63", None, "63"),
        ("no idea", "x", "no idea"),
    ):
        assert read_in(reads, letter) == expected


SIGNS = """ ' " \\ { } ( ) [ ] , = : :: * & - + << / % ! ~ ? . _ … \u2212 ; """
WORDS = "0x 1 9 u UL true NULL Some x e 0b1 1e999 0x1p9999 é"
PIECES = [*SIGNS.split(), *WORDS.split()]
LIKES = (
    None, "64", "0x0", "*", '* "alice"', "* <main>", '"bob"', "97 'a'", "'a'", "0.5", "true", "RED", "{1, 2}",
    "{x = 1, next = *}", "std::optional = {5}", "std::vector of length 0", "Some(3)", "{0 <repeats 16 times>}",
    "<error>",
)  # fmt: skip


@given(
    st.lists(st.sampled_from([*PIECES, " ", "\n", "\0", " <repeats 99 times>"]), max_size=60).map("".join),
    st.sampled_from(LIKES),
    st.sampled_from(["c", "c++", "rust"]),
)
def test_any_text_has_a_value_or_a_reason(typed: str, like: str | None, language: Language) -> None:
    found = read(typed, language, like)
    assert (found.reads is None) != (found.reason is None)
    if like is not None:
        for said, seen in ((typed, like), (like, typed)):
            judge(said, Expectation("e", "?"), seen, language)
            found, right = judge(said, Expectation("e", like), seen, language)
            assert found.reads is not None or not right


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1), st.sampled_from("+-*/%&|^"))
def test_a_sum_of_literals_is_what_a_compiler_makes_of_it(a: int, b: int, sign: str) -> None:
    """64 bits hold every result, and a quotient of C is cut towards zero."""
    found = read(f"({a}ll) {sign} ({b}ll)", "c", "0").reads
    if sign in "/%":
        quotient = int(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else 0
        wanted = None if b == 0 else quotient if sign == "/" else a - quotient * b
    else:
        wanted = {"+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b}[sign]
    assert found == (None if wanted is None else str(wanted))
