"""Values of a Rust program in gdb, compared to what the program itself writes with ``{:?}``."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.capabilities import need_program, need_rustc

pytestmark = [pytest.mark.functional]

ROOT = Path(__file__).parents[2]

SAME = """
minus: i32 = -5
byte: u8 = 200
large: u128 = u128::MAX
small: i128 = i128::MIN
whole = 1.0f64
half = 1.5f32
tenth = 0.1f32
far = 1e300
near = -2.5e-7
bound = 1e16
nan = f64::NAN
infinite = f32::NEG_INFINITY
yes = true
letter = 'x'
quote = '\\''
accent = 'é'
unit = ()
pair = (1, "a")
single = (1,)
numbers = [1, 2, 3]
options = [Some(1), None, Some(3)]
matrix = [[Some(1), None], [None, Some(2)]]
nothing: [i32; 0] = []
zeros = [0u8; 3]
literal = "egg\\n\\"quoted\\" \\\\ 'é' \\u{1} \\u{301} \\u{200b} 😀"
owned = String::from("egg")
empty = String::new()
item = Item { name: "egg".to_string(), n: 1 }
point = Point(1, 2)
marker = Marker
color = Color::Green
circle = Shape::Circle { r: 1.0 }
rect = Shape::Rect(1.0, 2.5)
blank = Shape::Nothing
only = Only::One(3)
tree = Tree::Node(Box::new(Tree::Leaf), 3, Box::new(Tree::Node(Box::new(Tree::Leaf), 4, Box::new(Tree::Leaf))))
held = Niche::Text("x".to_string())
free = Niche::Free
generic = Generic { v: Some(3u8), w: (1, [2u16]) }
some = Some(3)
none: Option<i32> = None
some_text = Some("a".to_string())
no_text: Option<String> = None
some_box = Some(Box::new(3))
no_box: Option<Box<i32>> = None
some_flag = Some(true)
nested = Some(Some(None::<bool>))
fine: Result<i32, String> = Ok(3)
failed: Result<i32, String> = Err("bad".to_string())
less = std::cmp::Ordering::Less
boxed = Box::new(7)
boxed_slice: Box<[i32]> = vec![1, 2].into_boxed_slice()
boxed_text: Box<str> = "q".into()
reference = &item
shared = Rc::new(Item { name: "r".to_string(), n: 3 })
shared_text: Rc<str> = "rc".into()
shared_slice: Rc<[Niche]> = vec![Niche::Free, Niche::Text("z".to_string())].into()
atomic = Arc::new(5)
weak = Rc::downgrade(&shared)
cell = Cell::new(3)
ref_cell = RefCell::new(vec![1])
mutex = Mutex::new(vec![3])
borrowed = ref_cell.borrow()
vector = vec![1, 2]
names = vec!["egg".to_string(), "ham".to_string()]
lists = vec![vec![1], vec![]]
items = vec![Item { name: "egg".to_string(), n: 1 }, Item { name: "ham".to_string(), n: 2 }]
units = vec![(), ()]
mixed = vec![(Niche::Free, 1u8), (Niche::Text("p".to_string()), 2)]
slice = &vector[..]
rest = &items[1..]
bytes = &b"ab"[..]
ring: VecDeque<i32> = { let mut ring = VecDeque::with_capacity(4); ring.push_back(1); ring.push_front(0); ring }
linked: LinkedList<String> = vec!["a".to_string(), "b".to_string()].into_iter().collect()
heap: BinaryHeap<i32> = vec![1, 5, 2].into_iter().collect()
by_number: BTreeMap<i32, &str> = (0..150).map(|key| (key, "x")).collect()
by_letter: BTreeSet<char> = vec!['b', 'a'].into_iter().collect()
no_tree: BTreeMap<i32, i32> = BTreeMap::new()
one_entry: HashMap<&str, Option<Item>> = vec![("a", Some(items[0].clone()))].into_iter().collect()
one_element: HashSet<u8> = vec![7].into_iter().collect()
path = std::path::PathBuf::from("/tmp")
part = std::path::Path::new("/tmp/x")
system = std::ffi::OsString::from("os")
cow: std::borrow::Cow<str> = "x".into()
counter = std::sync::atomic::AtomicU32::new(4)
flag = std::sync::atomic::AtomicBool::new(true)
positive = std::num::NonZeroU8::new(3)
wrapping = std::num::Wrapping(3u8)
range = 0..3
into_rest = { let mut rest = names.clone().into_iter(); rest.next(); rest }
into_end = { let mut rest = vec![1].into_iter(); rest.next(); rest }
into_units = units.clone().into_iter()
walk = { let mut walk = items.iter(); walk.next(); walk }
walk_end = [0u8; 0].iter()
walk_units = units.iter()
peekable = { let mut rest = names.clone().into_iter().peekable(); rest.peek(); rest }
chars = { let mut chars = "aé'".chars(); chars.next(); chars }
enumerated = numbers.iter().enumerate()
pinned = Box::pin(3)
""".strip().splitlines()
"""``NAME [: TYPE] = EXPRESSION``: locals whose text in gdb is the same as the program's."""

DIFFERENT = {
    # an address
    "function: fn(i32) -> i32 = next": "* <main::next>",
    # what is behind a vtable
    "speaker: Box<dyn Speak> = Box::new(Point(3, 4))": "Point(3, 4)",
    "by_reference: &dyn Speak = &item": 'Item { name: "egg", n: 1 }',
    "counted: Rc<dyn Speak> = Rc::new(Point(5, 6))": "Point(5, 6)",
    "speakers: Vec<Arc<dyn Speak>> = vec![Arc::new(Wide(7))]": "[Wide(7)]",
    "null: *const i32 = std::ptr::null()": "0x0",
    "null_object: *const dyn Speak = std::ptr::null::<Point>()": "0x0",
    "raw: *const Item = &item": 'Item { name: "egg", n: 1 }',
    "tagged = std::marker::PhantomData::<u8>": "PhantomData<u8>",
    # what is locked is not written
    "locked = Mutex::new(vec![3])": "Mutex { data: [3], poisoned: false, .. }",
    "guard = locked.lock().unwrap()": "[3]",
    # random order
    'prices: HashMap<String, i32> = [("saw", 2), ("axe", 1)].iter().map(|(k, v)| (k.to_string(), *v)).collect()': (
        '{"axe": 1, "saw": 2}'
    ),
    "primes: HashSet<i32> = vec![11, -3, 2].into_iter().collect()": "{-3, 2, 11}",
    # bounds
    'thousand: HashMap<u32, String> = (0..1000).map(|key| (key, format!("v{}", key))).collect()': (
        "{" + ", ".join(f'{key}: "v{key}"' for key in range(200)) + ", …}"
    ),
    "million: HashSet<u32> = (0..1_000_000).collect()": "{…}",
    "long = vec![7; 201]": f"[{'7, ' * 200}…]",
    'word = "é".repeat(201)': f'"{"é" * 200}"…',
    "chain = (0..30).fold(None, |next, n| Some(Box::new(Link { n, next })))": (
        "".join(f"Some(Link {{ n: {29 - n}, next: " for n in range(10)) + "Some({…})" + " })" * 10
    ),
    "cycle = Rc::new(Ring { next: RefCell::new(None) })": "Ring { next: RefCell { value: Some({…}) } }",
}
"""Locals whose text differs from the program's, and their text."""

SOURCE = """
#![allow(dead_code, unused_variables, unused_mut, non_camel_case_types)]
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

#[derive(Debug, Clone)] struct Item { name: String, n: i32 }
#[derive(Debug)] struct Point(i32, i32);
#[derive(Debug)] struct Marker;
#[derive(Debug)] struct Generic<T, U> { v: Option<T>, w: U }
#[derive(Debug)] enum Color { Red, Green }
#[derive(Debug)] enum Shape { Circle { r: f64 }, Rect(f64, f64), Nothing }
#[derive(Debug)] enum Only { One(i32) }
#[derive(Debug)] enum Tree { Leaf, Node(Box<Tree>, i32, Box<Tree>) }
#[derive(Debug)] enum Niche { Text(String), Free, Other }
#[derive(Debug)] struct Link { n: i32, next: Option<Box<Link>> }
struct Ring { next: RefCell<Option<Rc<Ring>>> }
trait Speak { fn speak(&self) -> i32; }
impl Speak for Point { fn speak(&self) -> i32 { self.0 } }
impl Speak for Item { fn speak(&self) -> i32 { self.n } }
#[repr(align(32))] struct Wide(i32);
impl Speak for Wide { fn speak(&self) -> i32 { self.0 } }
fn next(n: i32) -> i32 { n + 1 }

fn dirty() {
    let mut bytes = [0xa5u8; 4096];
    for (index, byte) in bytes.iter_mut().enumerate().step_by(3) { *byte = index as u8; }
    println!("{:?}", &bytes[..4]);
}

fn late(now: bool) {
    let text: String; let list: Vec<Item>; let link: Box<Link>; let count: Rc<Item>; let words: &[&str]; let sign: char;
    let table: HashMap<String, i32>; let tree: BTreeMap<i32, i32>; let shape: Shape; let row: VecDeque<String>;
    let grid: [Option<String>; 4]; let set: HashSet<u64>; let sure: bool; let color: Color; let part: &str;
    println!("late"); // nothing is initialised
    if now {
        text = String::new(); list = vec![]; link = Box::new(Link { n: 1, next: None }); words = &[]; sign = 'x';
        count = Rc::new(Item { name: String::new(), n: 1 }); table = HashMap::new(); tree = BTreeMap::new();
        shape = Shape::Nothing; row = VecDeque::new(); grid = [None, None, None, None]; set = HashSet::new();
        sure = true; color = Color::Red; part = "";
    }
}

fn main() {
    dirty();
    late(true);
LOCALS
    *cycle.next.borrow_mut() = Some(cycle.clone());
    let by_box = Box::new(names.clone());
    let mut changing = items.clone();
    let wide = vec![Some(1u128), None];
    let wide_behind = vec![&wide[0]];
SHOWN
    changing[1].name = "ram".to_string(); // all is initialised
    println!("end"); // one name is changed
}
"""

SCRIPT = """
import itertools, json, sys, time
import gdb
sys.path.insert(0, ROOT)
from cardapp.session_host.gdb_plugin import rust_values

def texts(place, names):
    gdb.execute(f"tbreak {place}", to_string=True)
    gdb.execute("run" if place == PLACES[0] else "continue", to_string=True)
    assert rust_values.in_rust()
    return {name: text(name) for name in names}

def text(name):
    try:
        value = gdb.parse_and_eval(name)
    except gdb.MemoryError as error:  # gdb 16 follows an invalid pointer
        return f"<cannot be read: {error}>"
    return rust_values.text(value)

def held(name):
    content = rust_values.contents(gdb.parse_and_eval(name))
    if content is None:
        return None
    items = itertools.islice(content.items, 3)
    text = rust_values.text
    return [content.kind, content.size, [[None if key is None else text(key), text(item)] for key, item in items]]

gdb.execute("set may-call-functions off")
answer = {"texts": [texts(*each) for each in zip(PLACES, [LATE, NAMES, NAMES])]}
answer["held"] = {name: held(name) for name in HELD}
table = gdb.parse_and_eval("thousand")
answer["seconds"] = []
for _ in range(5):
    begin = time.monotonic()
    rust_values.text(table)
    answer["seconds"].append(time.monotonic() - begin)
open(ANSWER, "w").write(json.dumps(answer))
"""

LATE = (
    "text",
    "list",
    "link",
    "count",
    "words",
    "sign",
    "table",
    "tree",
    "shape",
    "row",
    "grid",
    "set",
    "sure",
    "color",
)
"""Locals that are declared, and have no value yet."""

HELD = {
    "names": ["sequence", 2, [[None, '"egg"'], [None, '"ham"']]],
    "rest": ["sequence", 1, [[None, 'Item { name: "ham", n: 2 }']]],
    "options": ["sequence", 3, [[None, "Some(1)"], [None, "None"], [None, "Some(3)"]]],
    "ring": ["sequence", 2, [[None, "0"], [None, "1"]]],
    "shared_slice": ["sequence", 2, [[None, "Free"], [None, 'Text("z")']]],
    "owned": ["sequence", 3, [[None, "101"], [None, "103"], [None, "103"]]],
    "prices": ["map", 2, [['"axe"', "1"], ['"saw"', "2"]]],
    "by_number": ["map", 150, [["0", '"x"'], ["1", '"x"'], ["2", '"x"']]],
    "primes": ["sequence", 3, [[None, "-3"], [None, "2"], [None, "11"]]],
    "some_text": ["holder", 1, [[None, '"a"']]],
    "no_text": ["holder", 0, []],
    "by_box": ["holder", 1, [[None, '["egg", "ham"]']]],
    "shared": ["holder", 1, [[None, 'Item { name: "r", n: 3 }']]],
    "reference": ["holder", 1, [[None, 'Item { name: "egg", n: 1 }']]],
    "null": ["holder", 0, []],
    "item": None,
    "speaker": ["holder", 1, [[None, "Point(3, 4)"]]],
    "function": None,
}


PLACES = ("nothing is initialised", "all is initialised", "one name is changed")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the source ``main.rs`` and the program ``prog``."""
    folder = tmp_path_factory.mktemp("rust_values")
    declared = "\n".join(f"    let {local};" for local in [*SAME, *DIFFERENT])
    shown = "\n".join(f'    println!("{name}\\t{{:?}}", {name});' for name in map(name_of, SAME))
    (folder / "main.rs").write_text(SOURCE.replace("LOCALS", declared).replace("SHOWN", shown))
    compiler = [need_rustc(), "--edition", "2021", "-g", "-A", "warnings"]
    subprocess.run([*compiler, "-o", "prog", "main.rs"], cwd=folder, check=True)
    return folder


def name_of(local: str) -> str:
    return local.split("=")[0].split(":")[0].strip()


@pytest.fixture(scope="module")
def seen(program: Path) -> dict[str, Any]:
    """``{texts: [{local: text} of each place], held: {local: contents}, seconds}``, all read by one gdb."""
    need_program("gdb")
    source = (program / "main.rs").read_text().splitlines()
    given = {
        "ROOT": str(ROOT),
        "PLACES": [
            next(f"main.rs:{n}" for n, line in enumerate(source, 1) if f"// {place}" in line) for place in PLACES
        ],
        "LATE": LATE,
        "NAMES": [*map(name_of, [*SAME, *DIFFERENT]), "changing", "wide", "wide_behind", "next"],
        "HELD": [*HELD],
        "ANSWER": str(program / "answer"),
    }
    script = program / "script.py"
    script.write_text("".join(f"{name} = {value!r}\n" for name, value in given.items()) + SCRIPT)
    gdb = ["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-x", str(script), str(program / "prog")]
    run = subprocess.run(gdb, check=False, capture_output=True, text=True, timeout=120)
    assert (program / "answer").exists(), run.stdout + run.stderr
    return dict(json.loads((program / "answer").read_text()))


def test_values_are_written_as_the_program_writes_them(program: Path, seen: dict[str, Any]) -> None:
    output = subprocess.run([program / "prog"], capture_output=True, text=True, check=True).stdout
    expected = dict(line.split("\t", 1) for line in output.splitlines() if "\t" in line)
    assert len(expected) == len(SAME)
    expected |= {name_of(local): text for local, text in DIFFERENT.items()} | {"next": "*"}
    assert {name: seen["texts"][1][name] for name in expected} == expected


def test_what_a_value_holds_is_found_by_number_and_key(seen: dict[str, Any]) -> None:
    assert seen["held"] == HELD


def test_another_text_of_the_same_length_is_seen(seen: dict[str, Any]) -> None:
    before, after = (texts["changing"] for texts in seen["texts"][1:])
    assert before == '[Item { name: "egg", n: 1 }, Item { name: "ham", n: 2 }]'
    assert after == before.replace("ham", "ram")


def test_values_that_are_not_initialised_have_a_bounded_text(seen: dict[str, Any]) -> None:
    texts = seen["texts"][0]
    assert all(0 < len(text) < 100_000 for text in texts.values())
    assert sum("<cannot be read: " in text for text in texts.values()) > len(LATE) / 2, texts


def test_an_enum_that_gdb_cannot_read_is_named(seen: dict[str, Any]) -> None:
    # rustc 1.63 gives the enum a tag of 64 bits, later ones of 128, at which gdb 16 aborts
    refused = "<cannot be read: gdb cannot read an enum whose tag has 128 bits>"
    assert seen["texts"][1]["wide"] in ("[Some(1), None]", refused)
    assert seen["texts"][1]["wide_behind"] in ("[Some(1)]", refused)


def test_a_large_map_is_quick(seen: dict[str, Any]) -> None:
    assert min(seen["seconds"]) < 0.05
