"""Values of a C++ program: their canonical text, the names of their elements, and that each content is compared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cardapp.authoring import proving
from cardapp.card.catalog import Catalog
from cardapp.card.source import load_card
from tests.capabilities import need_program
from tests.functional.program_cards import ProgramCard, ProgramSession, program_session

pytestmark = [pytest.mark.functional]

BUILD = """
prog: main.cpp
	{compiler} -g3 -O0 -std=c++17 {options} -o $@ main.cpp
"""
MAIN = """
#include <any>
#include <array>
#include <cstdint>
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#define SECOND(container) container[1]
#define RAISED(n) (n += 1)

struct Node { int id; const char *name; Node *next; };
struct Record { uint8_t bytes[4]; int8_t signs[2][2]; unsigned char printed[6]; char tag[8]; };
struct Counted { static int count; int n; };
int Counted::count = 3;
struct Flexible { int count; int data[]; };
struct Shape { virtual ~Shape() {} };
struct Stack : std::vector<Node *> { int top = 2; };
struct Circle : Shape { double radius = 1.5; std::string colour = "red"; };
using Step = int (*)(int);

int up(int n) { return n + 1; }

int main()
{
    static Node last = {2, "zoe", nullptr};
    Node node = {1, "alice", &last};
    Step step = up;
    const char *words[] = {"one", "two", nullptr};
    const char *codes[] = {"0x1f"};
    char box[8] = "box", cleared[8] = "old", *end = cleared;
    *end = 0;
    Record record = {{0, 1, 2, 3}, {{-1, 2}}, "abc", "ab"};
    unsigned char zeros[20] = {};
    std::string cut("a\\0b", 3), ended("a\\0b\\0\\0\\0", 6);
    std::string_view cut_view("a\\0b", 3);
    std::vector<std::string> cuts = {cut, ended};
    Counted counted = {4};
    std::unique_ptr<int[]> several(new int[2]{1, 2});
    std::string text = "text";
    std::string_view view = "view";
    std::variant<int, std::string> choice = std::string("beta");
    std::map<std::string, int> prices = {{"saw", 3}, {"axe", 1}};
    std::map<int, std::string> names_by_number = {{7, "seven"}, {2, "two"}};
    std::unordered_map<std::string, int> stock = {{"saw", 3}, {"axe", 1}, {"zip", 9}};
    std::unordered_set<int> numbers = {5, 3, 10};
    std::set<char> letters = {'b', 'a'};
    std::optional<int> some = 5, none;
    std::optional<std::vector<int>> many = std::vector<int>{1, 2};
    std::unique_ptr<Node> owner(new Node{7, "seven", nullptr}), nobody;
    std::shared_ptr<Shape> shape = std::make_shared<Circle>();
    std::vector<std::vector<std::string>> nested = {{"a", "b"}, {"c"}};
    std::vector<Node> nodes = {node, last};
    std::vector<int> long_one(300, 7);
    std::array<int, 3> array = {4, 5, 6};
    std::list<int> list = {1, 2};
    std::tuple<int, std::string> both = {1, "t"};
    std::pair<int, std::string> pair = {1, "p"};
    std::any anything = 42;
    const std::string &same = text;
    Stack stack;
    stack.assign({&node, &last});
    std::deque<Node> queue = {node, last};
    std::forward_list<std::string> chain = {"x", "y"};
    auto in_nodes = nodes.cbegin() + 1;
    auto in_prices = prices.begin();
    auto in_stock = stock.find("zip");
    auto in_letters = letters.begin();
    auto in_list = ++list.begin();
    auto in_chain = ++chain.begin();
    auto in_queue = queue.begin() + 1;
    std::vector<int>::iterator nowhere{};
    auto no_price = prices.find("hammer");
    auto no_stock = stock.find("hammer");
    std::set<int> empty;
    auto in_empty = empty.begin();
    std::unordered_map<int, int> thousands;
    for (int n = 0; n <= 10000; n++) thousands[n] = n;
    size_t node_of_ring[5], header[6] = {};
    for (size_t &each : node_of_ring) each = header[3] = (size_t)node_of_ring;
    header[5] = 3;
    std::map<int, std::string> &ring = *(std::map<int, std::string> *)header;
    Flexible &flexible = *new (::operator new(64)) Flexible{1};
    int sum = 0;
    return sum; // the end
}
"""
TEXTS = {
    "node": '{id = 1, name = * "alice", next = * <main::last>}',
    "&node": "*",
    "step": "* <up(int)>",
    "words": '{* "one", * "two", 0x0}',
    "codes": '{* "0x1f"}',
    "up": "{int (int)} * <up(int)>",
    "flexible": "{count = 1, data = *}",
    "box": '"box"',
    "cleared": '""',
    "record": '{bytes = {0, 1, 2, 3}, signs = {{-1, 2}, {0, 0}}, printed = "abc", tag = "ab"}',
    "zeros": "{0 <repeats 20 times>}",
    "cut": '"a\\000b"',
    "ended": '"a\\000b\\000\\000\\000"',
    "cut_view": '"a\\000b"',
    "cuts": 'std::vector of length 2 = {"a\\000b", "a\\000b\\000\\000\\000"}',
    "counted": "{n = 4}",
    "several": "* {…}",
    "text": '"text"',
    "same": '"text"',
    "view": '"view"',
    "choice": 'std::variant [index 1] = {"beta"}',
    "prices": 'std::map with 2 elements = {["axe"] = 1, ["saw"] = 3}',
    "names_by_number": 'std::map with 2 elements = {[2] = "two", [7] = "seven"}',
    "stock": 'std::unordered_map with 3 elements = {["axe"] = 1, ["saw"] = 3, ["zip"] = 9}',
    "numbers": "std::unordered_set with 3 elements = {[0] = 10, [1] = 3, [2] = 5}",
    "letters": "std::set with 2 elements = {[0] = 97 'a', [1] = 98 'b'}",
    "some": "std::optional = {5}",
    "none": "std::optional [no contained value]",
    "many": "std::optional = {std::vector of length 2 = {1, 2}}",
    "owner": '* {id = 7, name = * "seven", next = 0x0}',
    "nobody": "0x0",
    "shape": '* {<Shape> = {_vptr.Shape = * <vtable for Circle+16>}, radius = 1.5, colour = "red"}',
    "nested": 'std::vector of length 2 = {std::vector of length 2 = {"a", "b"}, std::vector of length 1 = {"c"}}',
    "long_one": "std::vector of length 300 = {" + ", ".join(["7"] * 200) + "…}",
    "array": "{_M_elems = {4, 5, 6}}",
    "both": 'std::tuple containing = {[0] = 1, [1] = "t"}',
    "pair": '{first = 1, second = "p"}',
    "anything": "std::any = {42}",
    "stack": "{<std::vector> = std::vector of length 2 = {*, * <main::last>}, top = 2}",
    "in_nodes": '{id = 2, name = * "zoe", next = 0x0}',
    "in_prices": '{first = "axe", second = 1}',
    "in_stock": '{first = "zip", second = 9}',
    "in_letters": "97 'a'",
    "in_list": "2",
    "in_chain": '"y"',
    "in_queue": '{id = 2, name = * "zoe", next = 0x0}',
    "nowhere": "non-dereferenceable iterator",
    "no_price": "non-dereferenceable iterator",
    "no_stock": "non-dereferenceable iterator",
    "in_empty": "non-dereferenceable iterator",
}
ELEMENTS = {
    "nested[0][1]": '"b"',
    "SECOND(nested)[0]": '"c"',
    'prices["saw"] + 1': "4",
    "names_by_number[7]": '"seven"',
    'stock["zip"] == 9': "true",
    "numbers[1]": "3",
    "*some": "5",
    "(*many)[1]": "2",
    "*owner": '{id = 7, name = * "seven", next = 0x0}',
    "owner->name": '"seven"',
    "nodes[1].name": '"zoe"',
    "nodes[0].next->id": "2",
    "*choice": '"beta"',
    "shape->colour": '"red"',
    "stack[1]->name": '"zoe"',
    "size(stack) + stack.top": "4",
    "in_nodes->name": '"zoe"',
    "in_prices->second + 1": "2",
    "(*in_prices).first": '"axe"',
    "in_stock->first": '"zip"',
    "*in_letters == 'a'": "true",
    "*in_list": "2",
    "size(*in_chain)": "1",
    "in_queue->next": "0x0",
    "array[2] * 2": "12",
    "words[1]": '"two"',
    "text[1]": "101 'e'",
    "*nodes[0].next": '{id = 2, name = * "zoe", next = 0x0}',
    "nodes._M_impl._M_start->id": "1",
    "size(prices)": "2",
    "size(words)": "3",
    "size(text) + size(nested[0])": "6",
    "sizeof(node)": "24",
}
FAILING = {
    "dynamic_cast<Circle *>(&*shape)->radius": "gdb does not read a dynamic_cast right",
    'prices["hammer"]': "has no key",
    "nested[2]": "has no element 2: its size is 2",
    "*none": "is empty",
    "nested[0][7]": "nested[0] has no element 7: its size is 2",
    'size(prices["saw"])': 'size(prices["saw"]): prices["saw"] is neither',
    "size(*owner)": "size(*owner): *owner is neither",
    "noname": 'No symbol "noname" in current context',
    "no_price->second": "is empty",
    "size(sum)": "neither a container nor an array",
    "size(flexible.data)": "does not say how many",
}
# Each change keeps the length of the text.
CHANGED = {
    "node": ('"alice"', '"maria"'),
    "words": ('"two", nullptr', '"six", nullptr'),
    "codes": ('"0x1f"', '"0x2f"'),
    "text": ('"text"', '"test"'),
    "record": ("{0, 1, 2, 3}, {{", "{0, 1, 2, 4}, {{"),
    "cut": ('cut("a\\0b"', 'cut("a\\0c"'),
    "view": ('"view"', '"vied"'),
    "choice": ('"beta"', '"zeta"'),
    "prices": ('{"saw", 3}, {"axe", 1}};', '{"saw", 4}, {"axe", 1}};'),
    "stock": ('{"axe", 1}, {"zip"', '{"ace", 1}, {"zip"'),
    "some": ("some = 5", "some = 6"),
    "many": ("vector<int>{1, 2};", "vector<int>{1, 3};"),
    "owner": ('{7, "seven", nullptr}', '{7, "Seven", nullptr}'),
    "shape": ('"red"', '"rot"'),
    "nested": ('{"a", "b"}', '{"a", "d"}'),
    "step": ("step = up", "step = up2"),
}


@contextmanager
def stopped(compiler: str, options: str = "") -> Iterator[ProgramSession]:
    with program_session(BUILD.format(compiler=compiler, options=options), {"main.cpp": MAIN}) as session:
        yield session


@pytest.fixture(scope="module")
def cpp() -> Iterator[ProgramSession]:
    need_program("g++")
    with stopped("g++") as session:
        yield session


def values(session: ProgramSession, *expressions: str) -> dict[str, Any]:
    found = session.replay(session.card.at("// the end", "main.cpp"), *expressions)["values"]
    return {each: reading["value"] or reading["error"] for each, reading in found.items()}


def test_containers_have_a_canonical_text(cpp: ProgramSession) -> None:
    assert values(cpp, *TEXTS) == TEXTS
    shown = {each["name"]: each["value"] for each in cpp.ask("locals")["locals"]}
    assert {name: shown[name] for name in TEXTS if name in shown and name != "long_one"}.items() <= TEXTS.items()


def test_containers_of_any_size_and_in_any_memory_are_read_in_time(cpp: ProgramSession) -> None:
    assert values(cpp, "ring", "ring[7]", "size(ring)", "thousands", "thousands[10001]") == {
        "ring": "<cannot be read: the memory holds no tree>",
        "ring[7]": "the memory holds no tree",
        "size(ring)": "3",
        "thousands": "std::unordered_map with 10001 elements = {…}",
        "thousands[10001]": "thousands has no key 10001",
    }
    assert cpp.ask("locals")["locals"]


def test_elements_have_names(cpp: ProgramSession) -> None:
    assert values(cpp, *ELEMENTS) == ELEMENTS
    assert [each for each, error in values(cpp, *FAILING).items() if FAILING[each] not in error] == []


def test_a_condition_names_elements(cpp: ProgramSession) -> None:
    end = cpp.card.at("// the end", "main.cpp")
    assert cpp.refusal(end | {"if": 'prices["hammer"] == 3'})["code"] == "bad_condition"
    found = cpp.replay(end | {"if": 'prices["saw"] == 3 && size(nested) == 2'}, "sum")
    assert found["values"]["sum"]["value"] == "0"


def test_a_macro_is_expanded_and_hides_no_assignment(cpp: ProgramSession) -> None:
    assert "assigns (+=)" in values(cpp, "RAISED(sum)", "sum")["RAISED(sum)"]
    assert values(cpp, "sum") == {"sum": "0"}
    assert cpp.refusal(cpp.card.at("// the end", "main.cpp"), "up(sum)")["code"] == "bad_expression"


def test_a_program_with_its_own_libstdcxx_has_the_same_texts() -> None:
    need_program("g++")
    with stopped("g++", "-static-libstdc++") as session:
        assert values(session, *TEXTS) == TEXTS


@pytest.mark.parametrize("compiler", ["g++", "clang++ -fstandalone-debug"])
def test_a_change_of_equal_length_is_found(compiler: str, tmp_path: Path) -> None:
    need_program(compiler.split()[0])
    card = ProgramCard(tmp_path / "card", BUILD.format(compiler=compiler, options=""), {"main.cpp": MAIN})
    card.snapshot["stop"] = card.at("// the end", "main.cpp")
    card.snapshot["expect"] = {each: TEXTS[each] for each in CHANGED}
    card.write()
    text = MAIN.replace("int main()", "int up2(int n) { return n + 2; }\n\nint main()")
    for old, new in CHANGED.values():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    for source, faulty in ((MAIN, []), (text, list(CHANGED))):
        (card.sources / "main.cpp").write_text(source)
        card.snapshot["stop"] = card.at("// the end", "main.cpp")
        card.write()
        loaded = load_card(card.folder)
        with proving.temporary_session(loaded) as session:
            (key, snapshot), *_ = Catalog(loaded.card).snapshots.items()
            assert [each.expression for each in session.prove(key, snapshot).faults] == faulty
