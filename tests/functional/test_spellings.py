"""A learner's spellings, right and wrong, judged as a teacher would: by values of programs in three languages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cardapp.card.constant import Language
from cardapp.card.literal import Constant
from cardapp.card.model import Expectation, Snapshot, Stop
from cardapp.card.prediction import expected_at, judge, judged, names_in
from tests.capabilities import need_program, need_rustc
from tests.functional.program_cards import ProgramSession, program_session

pytestmark = [pytest.mark.functional]

C = """
#include <stdbool.h>
#define SIZE 64
enum color { RED, GREEN };
enum flags { READ = 1, WRITE = 2 };
struct point { int x, y; };
struct item { const char *name; struct item *next; int id; };

int main(void)
{
    int count = 64, below = -3, zeros[16] = {0};
    unsigned top = 0x80000000u;
    bool ready = true;
    char letter = 'a', buffer[8] = "ab";
    float third = 0.1f;
    struct point at = {1, 2};
    struct item last = {"bob", 0, 2}, first = {"alice", &last, 1};
    const char *name = first.name;
    struct item *end = last.next;
    enum color chosen = GREEN;
    enum flags both = READ | WRITE;
    zeros[1] = zeros[0];
    return count + below + ready + letter + buffer[0] + at.x + *name + !end + chosen + both + (top > third); // end
}
"""
CPP = """
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>
namespace shop { enum class Color { red, green }; }
struct Point { int x, y; };

int main()
{
    std::vector<std::string> names{"saw", "axe"};
    std::vector<int> none;
    std::map<std::string, int> stock{{"axe", 2}, {"saw", 1}};
    std::set<int> seen{1, 2};
    std::optional<int> found = 5, missing;
    std::unique_ptr<Point> owner(new Point{1, 2}), nobody;
    std::shared_ptr<std::string> shared = std::make_shared<std::string>("hey");
    std::array<int, 3> three{1, 2, 3};
    std::pair<int, bool> pair{1, true};
    std::vector<std::vector<int>> nested{{1}, {2, 3}};
    std::optional<Point> place = Point{1, 2};
    std::optional<std::unique_ptr<Point>> kept = std::unique_ptr<Point>(new Point{1, 2});
    std::variant<int, Point> either = Point{1, 2};
    std::optional<std::vector<int>> some = std::vector<int>{5};
    std::optional<std::string> word = "hey";
    std::unordered_map<int, std::vector<int>> groups{{1, {10}}, {2, {20, 21}}};
    std::multimap<std::string, int> many{{"a", 1}, {"a", 2}};
    std::optional<std::map<std::string, int>> shelf = std::map<std::string, int>{{"saw", 1}};
    std::atomic<int> turns{5};
    char letter = 'a';
    auto color = shop::Color::green;
    bool ready = true;
    return names.size() + none.size() + stock.size() + seen.size() + three[0] + pair.first + ready + (int) color; // end
}
"""
RUST = """
use std::collections::HashMap;
struct Item { name: String, n: i32 }
#[derive(Debug)] enum Shape { Circle(f64), Rect { w: i32, h: i32 }, Nothing }

fn main() {
    let items = vec![Item { name: "egg".to_string(), n: 1 }];
    let (some, none): (Option<i32>, Option<i32>) = (Some(3), None);
    let result: Result<i32, String> = Ok(1);
    let mut stock = HashMap::new();
    stock.insert("b", 2);
    stock.insert("a", 1);
    let set = std::collections::HashSet::from([1, 2]);
    let (shape, circle, nothing) = (Shape::Rect { w: 1, h: 2 }, Shape::Circle(0.5), Shape::Nothing);
    let (unit, done): ((), Result<(), String>) = ((), Ok(()));
    let (letter, byte, zeros, tuple, ready, ten) = ('a', b'a', [0u8; 16], (1, "a"), true, 10);
    println!("{}{}{:?}{:?}{:?}{:?}{:?}", items[0].name, items[0].n, some, none, result, stock, set); // end
    println!("{:?}{:?}{:?}{}{}{:?}{:?}{}", shape, circle, nothing, letter, byte, zeros, tuple, ready);
    println!("{}{:?}{:?}", ten, unit, done);
}
"""
# The expressions, each with what is right (+) and what is wrong (-).
C_SPELLINGS = """
count
  + 64 | 0x40 | 0100 | 64UL | 1<<6 | 8*8 | SIZE | sizeof(int)*16 | (SIZE-1)+1 | 0b1000000
  - 63 | RED | true | NULL | 'a' | count | *&count
below
  + -3 | \u22123 | -7/2 | 0xfffffffd
  - 3 | 4294967293
top
  + 2147483648 | 1u<<31 | 0x80000000
  - 1<<31 | -2147483648
zeros
  + {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0} | {0 <repeats 16 times>}
  - {0} | 0
ready
  + true | 1 | 1==1
  - false | 0 | yes | 2
letter
  + 97 | 'a' | '\\x61' | 0x61 | 97 'a'
  - a | 'A' | "a"
buffer
  + ab | "ab"
  - a | abc | {97, 98}
third
  + 0.1 | 0.1f | 1e-1 | 1/10.0
  - 0.2 | 1/10
at
  + {1,2} | {x=1, y=2} | {.y = 2, .x = 1} | { 0b1 , 1+1 } | (struct point){1, 2}
  - {2,1} | {1} | {1,2,3} | {x=1}
first
  + {"alice", *, 1} | {name = "alice", next = *, id = RED+1}
  - {"mallo", *, 1} | {*, *, 1} | {"alice", NULL, 1}
last
  + {"bob", NULL, 2} | {bob, 0, 2}
  - {"bob", *, 2}
name
  + alice | "alice" | "ali" "ce"
  - 'alice' | NULL | bob | *
end
  + NULL | nullptr | null | 0 | 0x0 | (void *) 0 | (struct item *) 0
  - 1 | false | *
chosen
  + GREEN | 1 | (enum color) 1
  - RED | 0 | green
both
  + READ|WRITE | (READ|WRITE) | 3
  - READ | 1
"""
CPP_SPELLINGS = """
names
  + {"saw","axe"} | {saw, axe} | std::vector of length 2 = {"saw", "axe"}
  - {"axe","saw"} | {saw} | std::vector of length 3 = {saw, axe}
none
  + {} | std::vector of length 0
  - {0} | 0
stock
  + {["axe"] = 2, ["saw"] = 1} | {{"saw", 1}, {"axe", 2}} | {axe: 2, saw: 1} | {{axe, 1+1}, {saw, 0x1}}
  - {axe: 1, saw: 2} | {2, 1, 3} | {axe = 2, saw = 1} | {"axe" = 2, "saw" = 1} | {{"axe", 2}} | {{"axe", 2}, {"axe", 1}}
groups
  + {{2, {20, 21}}, {1, {10}}} | {[0x1] = {10}, [2] = {20, 21}} | {1: {10}, 2: {20, 21}}
  - {{1, {20, 21}}, {2, {10}}} | {{10}, {20, 21}} | {1 = {10}, 2 = {20, 21}}
many
  + {{"a", 1}, {"a", 2}} | {{a, 2}, {a, 1}}
  - {{"a", 1}, {"a", 1}} | {{"a", 1}}
seen
  + {1, 2} | {2, 1}
  - {1} | {1, 1} | {1, 3}
found
  + 5 | {5} | std::optional = {5}
  - 4 | {} | nullopt
missing
  + {} | nullopt | std::nullopt
  - 0 | 5
owner
  + {1, 2} | {x = 1, y = 2} | * {1, 2}
  - {2, 1} | * | nullptr
nobody
  + nullptr | NULL | 0x0
  - {1, 2} | *
shared
  + hey | "hey" | * "hey"
  - he | * | nullptr
place
  + {1, 2} | {x = 1, y = 2} | {{1, 2}} | {{.x = 1, .y = 2}} | std::optional = {{x = 1, y = 2}}
  - {2, 1} | {1} | {} | nullopt | {1, 2, 3}
kept
  + {1, 2} | {x = 1, y = 2} | * {1, 2} | {{1, 2}} | {* {1, 2}}
  - {2, 1} | nullptr | nullopt
either
  + {1, 2} | {x = 1, y = 2} | {{1, 2}}
  - {2, 1} | 1
some
  + {5} | {{5}}
  - 5 | {} | {6} | {5, 5}
word
  + hey | "hey" | {hey}
  - he | {} | “hey”
shelf
  + {{"saw", 1}} | {{{"saw", 1}}} | {{["saw"] = 1}} | {saw: 1}
  - {{"saw", 2}} | {saw = 1} | {} | {{saw = 1}}
turns
  + 5 | {5}
  - 4 | ٥
letter
  + 'a' | 97
  - a | ‘a’ | b | ٩٧ 'a'
three
  + {1,2,3}
  - {1,2} | {3,2,1}
pair
  + {1, true} | {first = 1, second = true}
  - {1, false}
nested
  + {{1}, {2, 3}}
  - {{1}, {2}} | {1, 2, 3}
color
  + green | Color::green | shop::Color::green | 1
  - red | shop::Color::red | 0 | Other::green
ready
  + true | 1
  - false | True
"""
RUST_SPELLINGS = """
items
  + [Item { name: "egg", n: 1 }] | [Item{n:1,name:egg}]
  - [Item { name: "ham", n: 1 }] | []
some
  + Some(3) | Some(0b11) | Some( 3i32 )
  - 3 | None | Some(4) | Ok(3)
none
  + None
  - Some(0) | 0
result
  + Ok(1)
  - Err(1) | 1
stock
  + {"a": 1, "b": 2} | {"b":2,"a":1} | {b: 2, a: 1}
  - {"a": 2, "b": 1} | {a = 1, b = 2} | {1, 2} | {"a": 1}
set
  + {1, 2} | {2, 1}
  - {1} | {1, 3} | [1, 2]
shape
  + Rect { w: 1, h: 2 } | Shape::Rect{w:1,h:2}
  - Rect { w: 2, h: 1 } | Circle(1)
circle
  + Circle(0.5) | Shape::Circle(5e-1)
  - Circle(1.5)
nothing
  + Nothing | Shape::Nothing
  - None
letter
  + 'a' | '\\x61'
  - 97 | a | b'a'
byte
  + 97 | b'a' | 0x61 | 97u8
  - 'a'
zeros
  + [0; 16] | [0u8; 16]
  - [0; 15] | [0]
tuple
  + (1, "a") | (1,a)
  - (2, "a") | 1
ready
  + true | 1<2
  - 1 | false
unit
  + () | ( )
  - 0 | None | (1, 2)
done
  + Ok(())
  - Ok(1) | Err(()) | ()
ten
  + 10 | 010 | 1_0 | 10i32 | 0xA
  - 0o10 | 10UL
"""
CASES: dict[str, tuple[Language, str, str, str]] = {
    "main.c": ("c", "$(CC) -g3 -O0 -o $@ main.c", C, C_SPELLINGS),
    "main.cpp": ("c++", "$(CXX) -std=c++17 -g -O0 -o $@ main.cpp", CPP, CPP_SPELLINGS),
    "main.rs": ("rust", "{rustc} -g -o $@ main.rs", RUST, RUST_SPELLINGS),
}

READ_AS = {
    ("chosen", "1"): "GREEN",
    ("chosen", "0"): "RED",
    ("chosen", "RED"): "RED",
    ("both", "3"): "(READ | WRITE)",
    ("both", "1"): "READ",
    ("color", "0"): "shop::Color::red",
    ("color", "red"): "shop::Color::red",
}
"""An enumerator has one reading, however it was typed: so it is one misconception."""


def spellings(table: str) -> Iterator[tuple[str, str, bool]]:
    """Each ``(expression, text, is right)`` of a table."""
    expression = ""
    for line in table.strip().splitlines():
        if line.startswith("  "):
            yield from ((expression, text, line[2] == "+") for text in line[4:].split(" | "))
        else:
            expression = line


def constants(session: ProgramSession, names: set[str]) -> dict[str, Constant]:
    """The values that the session's gdb gives these texts."""
    read = session.ask("read_constants", texts=sorted(names))["values"] if names else {}
    return {name: Constant(**each) for name, each in read.items()}


@pytest.mark.parametrize("file", CASES)
def test_spellings_are_judged_by_what_they_mean_and_what_is_right_was_read_before(file: str) -> None:
    language, build, source, table = CASES[file]
    if language == "rust":
        build = build.format(rustc=need_rustc())
    need_program("g++")
    asked = tuple(dict.fromkeys(expression for expression, _, _ in spellings(table)))
    found: list[tuple[str | None, ...]] = []
    with program_session(f"prog: {file}\n\t{build}\n", {file: source}) as session:
        end = session.card.at("// end", file)
        values = session.replay(end, *asked)["values"]
        expected = tuple(Expectation(each, values[each]["value"]) for each in asked)
        snapshot = Snapshot("s", "s", Stop(file, 1, "x", None, 1), expected, (), ask=asked)
        for wanted, (expression, text, is_right) in ((expected_at(snapshot, row[0]), row) for row in spellings(table)):
            said = {expression: text}
            known = constants(session, names_in(said, snapshot, values, language))
            verdict = judged(1, said, snapshot, values, language, known)["right"][expression]
            known = constants(session, names_in(said, snapshot, None, language))
            reads, reason = judge(text, wanted, None, language, known).reading
            assert READ_AS.get((expression, text), reads) == reads
            if verdict is not is_right or (verdict and reads is None):
                found.append((expression, text, wanted.value, str(verdict), reads, reason))
    assert found == []
