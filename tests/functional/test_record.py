"""``cardapp record`` on a real program: what it fills in, what it asks for, and what it leaves unchanged."""

from __future__ import annotations

import json
import os
import pty
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import pytest

from cardapp.authoring import record_cli
from cardapp.card.anchors import digest
from cardapp.card.source import load_card
from cardapp.cli import main
from tests.capabilities import need_program, need_rustc
from tests.functional.command_line import cardapp
from tests.functional.program_cards import ProgramCard
from tests.functional.session_process import TestCard, line_of

pytestmark = pytest.mark.functional

KEY = "t1/b1/p1/s1/x1"
SOURCE = """{
  "schema": "card-source.v1", "id": "probe", "uuid": "22eaec13-8764-4aa4-8dd9-8c3dc2d626bd",
  "version": "1.0.0", "title": "Probe", "language": "en",   "layout": "karta-classic",
  "target": {"name": "probe", "directory": "src", "build": ["make", "-s"], "program": "build/target",
             "args": ["run"], "sources": ["target.c"]},
  "tasks": [{"id": "t1", "title": "t", "blocks": [{"id": "b1", "title": "b", "phases": [
    {"id": "p1", "title": "p", "steps": [
      {"id": "s1", "title": "s",
       "code": {"file": "target.c",
                "function": "mark"},
       "snapshots": [{"id": "x1", "title": "x", "stop": {"function": "mark", "hits": 2},
                      "expect": { "n":"?", "n + 1" : "?"} }]}
    ]}]}]}]
}
"""


@pytest.fixture
def draft(tmp_path: Path) -> Path:
    """The source file of a card without values and without the lines of its excerpt."""
    path = TestCard(tmp_path / "card").folder / "card_source.json"
    path.write_text(SOURCE)
    return path


def answered(answer: str, draft: Path) -> tuple[int, str]:
    """The exit code and the output of ``record``, whose question is answered on a terminal."""
    master, slave = pty.openpty()
    with open(slave) as typed, open(os.dup(slave), "w") as shown:
        os.write(master, f"{answer}\n".encode())
        with patch("sys.stdin", typed), patch("sys.stdout", shown):
            code = main(["record", str(draft)])
    output = b""
    with suppress(OSError):  # the other end of the terminal is closed
        while True:
            output += os.read(master, 4096)
    os.close(master)
    return code, output.decode()


def test_record_makes_a_draft_green_and_keeps_its_formatting(draft: Path) -> None:
    first = line_of("mark(int n)")
    lines = (draft.parent / "src" / "target.c").read_text().split("\n")
    last = first + lines[first - 1 :].index("}")
    done = cardapp("record", draft)
    assert done.returncode == 0, done.stdout + done.stderr
    added = f',\n                "from": {first},\n                "to": {last},\n                "text": '
    anchor = f'"{lines[first - 1]}",\n                "digest": "{digest(lines[first - 1 : last])}"'
    expected = SOURCE.replace('"function": "mark"}', f'"function": "mark"{added}{anchor}}}')
    assert draft.read_text() == expected.replace('"n":"?", "n + 1" : "?"', '"n":"10", "n + 1" : "11"')
    again = cardapp("record", draft)
    assert again.returncode == 0
    assert again.stdout.endswith("nothing is missing, and all recorded values hold\n")


def test_what_was_there_is_replaced_on_request_only(draft: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draft.write_text(SOURCE.replace('"n":"?"', '"n":"7"'))
    without_terminal = cardapp("record", draft)
    assert without_terminal.returncode == 1
    assert f"! {KEY}  n            7    10" in without_terminal.stdout
    assert "1 value was kept; --yes replaces it" in without_terminal.stdout
    assert '"n":"7", "n + 1" : "11"' in draft.read_text()
    kept = draft.read_text()
    recording = record_cli.find(load_card(draft), {KEY}, None)
    monkeypatch.setattr(record_cli, "find", lambda *_: recording)  # the other answers need no further replay
    code, output = answered("n", draft)
    assert (code, draft.read_text()) == (1, kept)
    assert "Replace the value marked with '!'? [y/N]" in output
    replaced = kept.replace('"n":"7"', '"n":"10"')
    code, output = answered("y", draft)
    assert (code, draft.read_text()) == (0, replaced), output
    draft.write_text(kept)
    assert (cardapp("record", "--yes", draft).returncode, draft.read_text()) == (0, replaced)


UNSTEADY = {
    "main.cpp": r"""
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <string>
#include <thread>
#include <unistd.h>

static long racing;
static std::atomic<int> ready;

static void count()
{
    int never[4];
    ready++; /* in a thread */
    while (ready < 2)
        ;
    for (int i = 0; i < 40000000; i++)
        racing = racing + (i < 0 ? never[i] : 1);
}

__attribute__((noinline)) static int unset()
{
    int never[8];
    asm volatile("" : : "r"(never) : "memory"); /* never set */
    return never[3];
}

int main(int, char **arguments)
{
    int sum = 1, local;
    std::thread first(count), second(count);
    first.join();
    second.join();
    int *fresh = static_cast<int *>(malloc(16 * sizeof *fresh));
    std::uintptr_t address = reinterpret_cast<std::uintptr_t>(&sum);
    long now = time(nullptr), process = getpid(), parent = getppid();
    char folder[4096];
    const char *home = getenv("HOME"), *words[] = {getcwd(folder, sizeof folder), "ada"};
    timespec moment;
    clock_gettime(CLOCK_REALTIME, &moment);
    std::string word(reinterpret_cast<char *>(&moment), 15);
    word = "ab"; /* its buffer keeps the nanoseconds */
    struct { int id; int *next; } node = {7, &sum};
    sum += unset() & 0;
    if (fresh[1] == 0)
        sum++; /* by chance */
    if (!home || !words[0] || !parent)
        return 1;
    return fresh && address && now && process && node.id && local && word.empty(); /* the end */
}
"""
}
UNSTEADY_BUILD = """
prog: main.cpp
	$(CXX) -g -O0 -w -pthread -o $@ main.cpp
"""


def test_what_differs_from_run_to_run_is_named_and_never_recorded(tmp_path: Path) -> None:
    need_program("g++")
    card = ProgramCard(tmp_path / "card", UNSTEADY_BUILD, UNSTEADY)
    at_end = card.snapshot
    in_function = at_end | {"id": "x2", "stop": card.at("never set", "main.cpp"), "expect": {"never[3]": "?"}}
    unsteady = ("racing", "local", "fresh[1]", "sum", "address", "now", "process", "*(int *)(word._M_local_buf + 8)")
    unsteady += ("parent", "home", "folder", "words", "arguments[0]")
    at_end |= {
        "stop": card.at("/* the end */", "main.cpp"),
        "expect": dict.fromkeys((*unsteady, "node"), "?") | {"process + 0": "17", "words[0]": "*"},
    }
    by_chance = at_end | {"id": "x3", "stop": card.at("by chance", "main.cpp"), "expect": {"sum": "?"}}
    in_thread = at_end | {"id": "x4", "stop": card.at("in a thread", "main.cpp"), "expect": {"never[2]": "?"}}
    card.document["tasks"][0]["blocks"][0]["phases"][0]["steps"][0]["snapshots"] += [in_function, by_chance, in_thread]
    card.write()
    done = cardapp("record", "--yes", card.folder)
    assert done.returncode == 1, done.stdout + done.stderr
    named = [line.split(":")[0].strip() for line in done.stdout.splitlines() if line.startswith("  unstable ")]
    wanted = [f"unstable {KEY} {name}" for name in (*unsteady, "process + 0")]
    others = (("x2", "never[3]"), ("x3", "stop"), ("x4", "never[2]"))
    assert named == [*wanted, *(f"unstable t1/b1/p1/s1/{key} {name}" for key, name in others)], done.stdout
    written = json.loads((card.folder / "card_source.json").read_text())
    snapshots = written["tasks"][0]["blocks"][0]["phases"][0]["steps"][0]["snapshots"]
    kept = {"node": "{id = 7, next = *}", "process + 0": "17", "words[0]": "*"}
    assert snapshots[0]["expect"] == dict.fromkeys(unsteady, "?") | kept
    assert [each["expect"] for each in snapshots[1:]] == [{"never[3]": "?"}, {"sum": "?"}, {"never[2]": "?"}]


MISTAKEN = """
#define LIMIT 7
#define TWICE(n) (2 * (n))

int main(void)
{
    int total = TWICE(LIMIT), unset[2];
    return total - 14; /* the end */
}
"""


def test_what_is_advised_about_a_value_that_cannot_be_recorded_makes_the_card_green(tmp_path: Path) -> None:
    card = ProgramCard(tmp_path / "card", "prog: main.c\n\tgcc $(DEBUG) -g -O0 -w -o $@ $<\n", {"main.c": MISTAKEN})
    card.snapshot["stop"] = card.at("the end", "main.c")
    card.snapshot["expect"] = dict.fromkeys(("total", "totl", "LIMIT", "TWICE(2)", "unset[1]", "unset[0]"), "?")
    card.write()
    recorded = cardapp("record", card.folder)
    assert recorded.returncode == 1
    assert 'totl cannot be read: No symbol "totl" in current context' in recorded.stdout
    for name in ("LIMIT", "TWICE"):
        hint = f"if {name} is a macro, build with -g3; correct the expression, or take it out of expect\n"
        assert hint in recorded.stdout, recorded.stdout
    assert f"unstable {KEY} unset[1]: " in recorded.stdout
    assert 'write {"undefined": true} for a value, or move its expression to watch' in recorded.stdout
    checked = cardapp("check", "--replay", card.folder)
    assert checked.stdout.count('run bin/cardapp record; if it cannot, correct the expression, write {"undef') == 5
    card.document["target"]["build"] += ["DEBUG=-g3"]
    card.snapshot["expect"] = dict.fromkeys(("total", "LIMIT", "TWICE(2)"), "?") | {"unset[1]": {"undefined": True}}
    card.snapshot["watch"] = ["unset[0]"]
    card.write()
    assert cardapp("record", card.folder).returncode == 0
    checked = cardapp("check", "--replay", "--strict", card.folder)
    assert (checked.returncode, checked.stdout.splitlines()[-1]) == (0, "1 snapshot, 3 values compared")


RACE = """
#include <pthread.h>
#include <unistd.h>

static volatile int ready, seen;

static void *take(void *nothing)
{
    while (!ready)
        ;
    usleep(20000);
    seen = 1; /* nobody waits for this */
    return nothing;
}

int main(void)
{
    pthread_t taker;
    int given = 1;
    pthread_create(&taker, 0, take, 0);
    ready = given;
    given = 2; /* in a race */
    pthread_join(taker, 0);
    return seen - 1; /* after it */
}
"""


def test_what_another_thread_may_still_change_is_named(tmp_path: Path) -> None:
    card = ProgramCard(tmp_path / "card", "prog: main.c\n\tgcc -g -O0 -pthread -o $@ $<\n", {"main.c": RACE})
    card.snapshot.update(stop=card.at("in a race", "main.c"), expect=dict.fromkeys(("seen", "ready", "given"), "?"))
    after = card.snapshot | {"id": "x2", "stop": card.at("after it", "main.c")}
    card.document["tasks"][0]["blocks"][0]["phases"][0]["steps"][0]["snapshots"].append(after)
    card.write()
    done = cardapp("record", "--yes", card.folder)
    assert [line.strip() for line in done.stdout.splitlines() if "unstable" in line] == [f"unstable {KEY} seen: 0 | 1"]
    written = json.loads((card.folder / "card_source.json").read_text())
    snapshots = written["tasks"][0]["blocks"][0]["phases"][0]["steps"][0]["snapshots"]
    assert snapshots[0]["expect"] == {"seen": "?", "ready": "1", "given": "1"}
    assert snapshots[1]["expect"] == {"seen": "1", "ready": "1", "given": "2"}


RUST_MAP = """
use std::collections::HashMap;

fn main() {
    let prices: HashMap<u32, u32> = (0..16).map(|n| (n, n * n)).collect();
    let order: Vec<u32> = prices.keys().copied().collect();
    let seen = order.iter().enumerate().fold(0u64, |sum, (n, key)| sum + (n as u64) * (*key as u64));
    let sum: u32 = prices.values().sum();
    println!("{} {}", seen, sum); // the end
}
"""


def test_the_random_order_and_keys_of_a_map_of_rust_are_named(tmp_path: Path) -> None:
    card = ProgramCard(tmp_path / "card", f"prog: main.rs\n\t{need_rustc()} -g -o $@ $<\n", {"main.rs": RUST_MAP})
    card.snapshot["stop"] = card.at("// the end", "main.rs")
    card.snapshot["expect"] = dict.fromkeys(("prices.base.hash_builder.k0", "seen", "sum"), "?")
    card.write()
    done = cardapp("record", card.folder)
    assert done.returncode == 1, done.stdout + done.stderr
    named = [line for line in done.stdout.splitlines() if line.strip().startswith("unstable ")]
    assert len(named) == 2, done.stdout
    written = json.loads((card.folder / "card_source.json").read_text())
    expected = written["tasks"][0]["blocks"][0]["phases"][0]["steps"][0]["snapshots"][0]["expect"]
    assert list(expected.values()) == ["?", "?", "1240"]
