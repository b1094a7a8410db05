"""The lines of a function are found in sources as people write them."""

from __future__ import annotations

import textwrap

import pytest

from cardapp.authoring.function_lines import function_lines
from cardapp.errors import InvalidValue


def shown(function: str, file: str, source: str) -> list[str]:
    """The lines of the function, which the source marks with a final ``|``."""
    lines = textwrap.dedent(source).strip("\n").split("\n")
    first, last = function_lines(function, file, [line.rstrip(" |") for line in lines])
    marked = [number for number, line in enumerate(lines, 1) if line.endswith("|")]
    assert list(range(first, last + 1)) == marked
    return lines


def test_a_definition_begins_behind_the_comment_before_it() -> None:
    shown(
        "total",
        "a.c",
        """
        static int total(int count);
        int limit = 3;

        /* Adds. total(3) { */
        static int           |
        total(int count)     |
        {                    |
            if (count) {     |
                puts("}");   |
            }                |
            return '}';      |
        }                    |

        int main(void) { return total(3); }
        """,
    )


def test_a_macro_may_stand_before_the_name_or_behind_the_parameters() -> None:
    shown(
        "cJSON_Parse",
        "cJSON.c",
        """
        CJSON_PUBLIC(cJSON *) cJSON_Other(const char *value);
        CJSON_PUBLIC(cJSON *) cJSON_Parse(const char *value)  |
        {                                                     |
            return cJSON_Other(value);                        |
        }                                                     |
        """,
    )
    shown("area", "a.c", "int area(int side) __attribute__((noinline))  |\n{ return side * side; }  |")


def test_each_branch_of_a_conditional_has_its_own_braces() -> None:
    shown(
        "grow",
        "a.c",
        """
        #define LOOP while (1) { \\
            }
        int other(void)
        {
        #ifdef FAST
            if (fast) {
        #elif SLOW
            if (slow) {
        #else
            if (0) {
        #endif
            }
            return 0;
        }
        int grow(void)  |
        {               |
            return 1;   |
        }               |
        """,
    )


def test_parameters_may_be_declared_behind_the_parentheses() -> None:
    shown(
        "inflate",
        "inflate.c",
        """
        int deflate(strm, flush) z_streamp strm; int flush; { return 1; }
        int inflate(strm, flush)  |
        z_streamp strm;           |
        int flush;                |
        {                         |
            return 0;             |
        }                         |
        """,
    )
    shown("used", "a.c", "int declared(size_t) MACRO;\nint used(void)  |\n{ return 0; }  |")


def test_a_structure_before_a_function_does_not_hide_it() -> None:
    shown(
        "make",
        "a.c",
        """
        struct point { int x, y; };
        static const int table[] = {1, 2, 3};
        struct point make(int x)                  |
        {                                         |
            struct point made = {.x = x, .y = 0}; |
            return made;                          |
        }                                         |
        """,
    )


NAMESPACES = """
namespace shop {
namespace {
int hidden(int n) { return n; }
}
class Basket final : public Base {
public:
    explicit Basket(int n) : n_{n}, items_(make({1, 2})) {
        total(n);
    }
    int total(int n = 1'000) const;
private:
    int n_{0};
};
int Basket::total(int n) const
{
    auto twice = [](int x) { return 2 * x; };
    return twice(n) + (R"(})"[0] == '}');
}
}  // namespace shop
int total(int n) { return n; }
"""


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("shop::Basket::total", (15, 19)),
        ("Basket::total(int) const", (15, 19)),
        ("shop::Basket::Basket", (8, 10)),
        ("shop::(anonymous namespace)::hidden", (4, 4)),
    ],
)
def test_names_are_qualified_by_scopes_and_by_the_definition(function: str, expected: tuple[int, int]) -> None:
    assert function_lines(function, "shop.cpp", NAMESPACES.split("\n")) == expected


def test_a_name_that_fits_several_definitions_is_refused_with_their_lines() -> None:
    with pytest.raises(InvalidValue, match=r"defines total 2 times \(lines 15 to 19, lines 21 to 21\)"):
        function_lines("total", "shop.cpp", NAMESPACES.split("\n"))


RUST = """
mod shop {
    /* a comment /* in a comment */ { */
    pub struct Basket<'a> { name: &'a str }
    impl<'a> Basket<'a> {
        #[inline(never)]
        pub fn total(&self, n: usize) -> usize
        where
            usize: Copy,
        {
            let brace = '{';
            let text = r#"fn total() {"}"#;
            n + text.len() + (brace as usize)
        }
    }
    impl std::fmt::Display for Basket<'_> {
        fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result { write!(f, "{}", self.name) }
    }
}
fn main() {
    println!("{}", 1);
}
"""


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("main", (20, 22)),
        ("crate_name::main", (20, 22)),
        ("crate_name::shop::Basket::total", (6, 14)),
        ("fmt", (17, 17)),
    ],
)
def test_functions_of_rust(function: str, expected: tuple[int, int]) -> None:
    assert function_lines(function, "main.rs", RUST.split("\n")) == expected


def test_a_missing_function_is_named_with_the_lines_that_mention_it() -> None:
    lines = ["int total(int);", "int main(void) { return total(1); }"]
    with pytest.raises(InvalidValue, match=r"a\.c does not define the function total; the name stands in lines 1, 2"):
        function_lines("total", "a.c", lines)
    with pytest.raises(InvalidValue, match=r"does not define the function sum; no line of it has this name"):
        function_lines("sum", "a.c", lines)
