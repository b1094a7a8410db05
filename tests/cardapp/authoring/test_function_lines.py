"""The lines of a function are found in sources as people write them."""

from __future__ import annotations

import re

import pytest

from cardapp.authoring.function_lines import function_lines
from cardapp.errors import InvalidValue

C = """
static int total(int count);
int limit = 3;

/* Adds. total(3) { */
static int                                                             |total
total(int count)                                                       |total
{                                                                      |total
    if (count) {                                                       |total
        puts("}");                                                     |total
    }                                                                  |total
    return '}';                                                        |total
}                                                                      |total

CJSON_PUBLIC(cJSON *) cJSON_Other(const char *value);
CJSON_PUBLIC(cJSON *) cJSON_Parse(const char *value)                   |cJSON_Parse
{                                                                      |cJSON_Parse
    return cJSON_Other(value);                                         |cJSON_Parse
}                                                                      |cJSON_Parse
int area(int side) __attribute__((noinline))                           |area
{ return side * side; }                                                |area
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
int grow(void)                                                         |grow
{                                                                      |grow
    return 1;                                                          |grow
}                                                                      |grow
int deflate(strm, flush) z_streamp strm; int flush; { return 1; }
int inflate(strm, flush)                                               |inflate
z_streamp strm;                                                        |inflate
int flush;                                                             |inflate
{                                                                      |inflate
    return 0;                                                          |inflate
}                                                                      |inflate
int declared(size_t) MACRO;
int used(void)                                                         |used
{ return 0; }                                                          |used
struct point { int x, y; };
static const int table[] = {1, 2, 3};
struct point make(int x)                                               |make
{                                                                      |make
    struct point made = {.x = x, .y = 0};                              |make
    return made;                                                       |make
}                                                                      |make

int main(void) { return total(3); }                                    |main
"""
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


def test_definitions_of_c_are_found_from_behind_the_comment_before_them() -> None:
    # A line that belongs to a function ends with | and the function's name.
    marked = [re.fullmatch(r"(.*?) *(?:\|(\w+))?", line) for line in C.split("\n")]
    source, marks = zip(*(each.groups() for each in marked if each is not None), strict=True)
    for function in set(marks) - {None}:
        lines = [number for number, mark in enumerate(marks, 1) if mark == function]
        assert function_lines(function, "a.c", source) == (lines[0], lines[-1]), function


def test_names_are_qualified_by_scopes_and_by_the_definition() -> None:
    for function, file, source, expected in (
        ("shop::Basket::total", "shop.cpp", NAMESPACES, (15, 19)),
        ("Basket::total(int) const", "shop.cpp", NAMESPACES, (15, 19)),
        ("shop::Basket::Basket", "shop.cpp", NAMESPACES, (8, 10)),
        ("shop::(anonymous namespace)::hidden", "shop.cpp", NAMESPACES, (4, 4)),
        ("main", "main.rs", RUST, (20, 22)),
        ("crate_name::main", "main.rs", RUST, (20, 22)),
        ("crate_name::shop::Basket::total", "main.rs", RUST, (6, 14)),
        ("fmt", "main.rs", RUST, (17, 17)),
    ):
        assert function_lines(function, file, source.split("\n")) == expected, function


def test_a_function_that_is_not_defined_once_is_refused_with_lines() -> None:
    with pytest.raises(InvalidValue, match=r"defines total 2 times \(lines 15 to 19, lines 21 to 21\)"):
        function_lines("total", "shop.cpp", NAMESPACES.split("\n"))
    lines = ["int total(int);", "int main(void) { return total(1); }"]
    with pytest.raises(InvalidValue, match=r"a\.c does not define the function total; the name stands in lines 1, 2"):
        function_lines("total", "a.c", lines)
    with pytest.raises(InvalidValue, match=r"does not define the function sum; no line of it has this name"):
        function_lines("sum", "a.c", lines)
