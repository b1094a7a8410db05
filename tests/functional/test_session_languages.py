"""Stops and scalars of programs in C++ and Rust."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cardapp.card.model import Expectation
from cardapp.card.proof import same_value
from tests.capabilities import need_program, need_rustc
from tests.functional.program_cards import ProgramCard, session_tool
from tests.functional.session_process import RunningSession, SessionTool

pytestmark = [pytest.mark.functional]

CPP_BUILD = """
prog: shop.cpp
	$(CXX) -g -O0 -o $@ shop.cpp
"""
CPP = """
#include <cstdint>

namespace shop {
enum class Kind { food, book };

struct Item {
    int price;
    bool sold;
    explicit Item(int price) : price(price), sold(false) {}
    int twice() const { return 2 * price; }
};

int total(const Item &item, int n)
{
    return item.price * n;
}

double total(double price)
{
    return price * 1.5;
}

template <typename T> T larger(T a, T b)
{
    return a > b ? a : b; // larger
}
} // namespace shop

static int total(int n)
{
    return n; // the plain one
}

int main()
{
    shop::Item item(21);
    const shop::Item &same = item;
    auto kind = shop::Kind::book;
    const char *name = "ada";
    std::int64_t big = 1LL << 40;
    double price = shop::total(0.5);
    int sum = total(3) + shop::total(item, 2) + shop::larger(1, 2) + item.twice();
    auto add = [&](int n) {
        return sum + n; // in the lambda
    };
    sum = add(1);
    return price > 0 && same.sold; // the end
}
"""
RUST_BUILD = """
prog: main.rs
	{rustc} -g -o $@ main.rs
"""
RUST = """
mod shop {
    pub struct Item { pub price: i32, pub sold: bool }

    impl Item {
        pub fn twice(&self) -> i32 {
            2 * self.price // twice
        }
    }

    pub fn total(items: &[Item], rate: f64) -> f64 {
        let mut sum = 0;
        for item in items {
            sum += item.price; // summed
        }
        f64::from(sum) * rate
    }
}

fn main() {
    let items = [shop::Item { price: 10, sold: false }, shop::Item { price: 20, sold: true }];
    let letter = 'x';
    let total = shop::total(&items, 1.5);
    let count = items.len() as u64 + items[1].twice() as u64;
    println!("{} {} {} {}", total, count, letter, items[0].sold); // the end
}
"""


@pytest.fixture(scope="module")
def tool() -> Iterator[SessionTool]:
    yield from session_tool()


@pytest.fixture(scope="module")
def cpp(tool: SessionTool, tmp_path_factory: pytest.TempPathFactory) -> RunningSession:
    need_program("g++")
    return RunningSession(
        tool, ProgramCard(tmp_path_factory.mktemp("cpp") / "card", CPP_BUILD, {"shop.cpp": CPP}), "cpp"
    )


@pytest.fixture(scope="module")
def rust(tool: SessionTool, tmp_path_factory: pytest.TempPathFactory) -> RunningSession:
    sources = {"main.rs": RUST}
    card = ProgramCard(tmp_path_factory.mktemp("rust") / "card", RUST_BUILD.format(rustc=need_rustc()), sources)
    return RunningSession(tool, card, "rust")


def check_values(session: RunningSession, stop: dict[str, Any], **expected: Any) -> None:
    got = session.replay(stop, *expected)
    for expression, value in expected.items():
        reading = got["values"][expression]
        assert reading["value"] is not None, reading
        assert same_value(Expectation(expression, str(value)), reading["value"]), (expression, reading)


def test_scalars_of_cpp(cpp: RunningSession) -> None:
    end = cpp.card.at("// the end", "shop.cpp")
    values = {"item.price": 21, "same.sold": "false", "kind": "shop::Kind::book", "name": "ada", "big": 2**40}
    check_values(cpp, end, **values, price="0.75", sum=90)
    check_values(cpp, cpp.card.at("in the lambda", "shop.cpp"), n=1)


def test_functions_of_cpp_by_qualified_name(cpp: RunningSession) -> None:
    for name, function, expression, value in (
        ("shop::total(double)", "shop::total", "price", "0.5"),
        ("shop::total(shop::Item const&, int)", "shop::total", "item.price", "21"),
        ("shop::Item::twice", "shop::Item::twice", "this->price", "21"),
        ("shop::Item::Item", "shop::Item::Item", "price", "21"),
        ("shop::larger<int>", "shop::larger<int>", "a", "1"),
        ("total", "total", "n", "3"),
    ):
        got = cpp.replay({"function": name}, expression)
        assert got["function"].split("(")[0] == function
        assert got["values"][expression]["value"] == value, name
        assert got["inside"] is None
    # Overloads are refused without their parameters.
    refusal = cpp.refusal({"function": "shop::total"})
    assert refusal["code"] == "ambiguous_function"
    assert "shop::total(double) (shop.cpp:" in refusal["reason"]


def test_conditions_in_cpp(cpp: RunningSession) -> None:
    check_values(cpp, {"function": "shop::total(double)", "if": "price > 0.1"}, price="0.5")
    assert cpp.refusal({"function": "total", "if": "n > 3"})["code"] == "target_exited"


def test_scalars_of_rust(rust: RunningSession) -> None:
    end = rust.card.at("// the end", "main.rs")
    check_values(
        rust, end, **{"items[1].price": 20, "items[1].sold": "true", "total": 45, "count": 42, "letter": "'x'"}
    )


def test_functions_of_rust_by_qualified_name(rust: RunningSession) -> None:
    for name in ("shop::total", "total", "main::shop::total"):
        got = rust.replay({"function": name}, "rate")
        assert (got["values"]["rate"]["value"], got["file"]) == ("1.5", "main.rs"), name


def test_lines_methods_and_conditions_of_rust(rust: RunningSession) -> None:
    check_values(rust, rust.card.at("// summed", "main.rs", **{"if": "item.price == 20"}), sum=10)
    check_values(rust, rust.card.at("// twice", "main.rs"), **{"self.price": 20})
    assert rust.replay({"function": "main", "file": "main.rs"})["function"].endswith("main")
