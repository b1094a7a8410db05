"""``cardapp check`` with real sessions: what it finds in replays, what it repairs, and how it watches."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from cardapp.authoring.program_functions import function_faults
from cardapp.card.source import load_card
from cardapp.cli import main
from tests.capabilities import need_program, need_rustc
from tests.functional.counting_card import CountingCard
from tests.functional.program_cards import ProgramCard
from tests.functional.session_process import eventually

pytestmark = pytest.mark.functional

SECOND, END = "t1/b1/p1/s1/second", "t1/b1/p1/s1/end"
CHECK = [sys.executable, "-P", "-m", "cardapp", "check"]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def card(tmp_path: Path) -> CountingCard:
    return CountingCard(tmp_path / "card")


def checked(card: CountingCard, capsys: Capture, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit code of ``check --replay --format json`` and the card in its output."""
    code = main(["check", "--replay", "--format", "json", str(card.folder), *options])
    (found,) = json.loads(capsys.readouterr().out)["cards"]
    assert found["ok"] is (code == 0)
    return code, found


def only_fault(card: CountingCard, capsys: Capture, *options: str) -> dict[str, Any]:
    code, found = checked(card, capsys, *options)
    assert code == 1
    (fault,) = found["faults"]
    return dict(fault)


def states(found: dict[str, Any]) -> dict[str, str]:
    return {each["key"].rpartition("/")[2]: each["state"] for each in found["snapshots"]}


def add_stop(card: CountingCard, name: str, **stop: Any) -> None:
    card.step["snapshots"].append(copy.deepcopy(card.second) | {"id": name, "stop": stop})


def test_every_wrong_value_and_every_unreadable_expression_is_a_fault(card: CountingCard, capsys: Capture) -> None:
    undefined = {"undefined": True}
    card.second["expect"] = {"total": 4, "n": 2, "nothing": 1, "n + 1": undefined, "nil": undefined}
    card.second["watch"] = ["calls", "nowhere"]
    card.second["ask"] = ["total", "calls", "nobody"]
    card.write()
    code, found = checked(card, capsys)
    assert code == 1
    assert states(found) == {"second": "failed", "end": "ready"}
    faults = [(each["code"], each["expression"], each.get("expected")) for each in found["faults"]]
    assert faults == [
        ("snapshot_drift", "total", "4"),
        ("snapshot_drift", "nothing", "1"),
        ("unreadable_value", "nil", None),
        ("unreadable_watch", "nowhere", None),
        ("unreadable_value", "nobody", None),
    ]
    assert found["faults"][0]["seen"] == "3"
    assert 'No symbol "nothing"' in found["faults"][1]["seen"]
    assert '"total": 4' in card.source.read_text().splitlines()[found["faults"][0]["line"] - 1]


def test_a_stop_that_cannot_be_reached_says_why_and_others_are_replayed(card: CountingCard, capsys: Capture) -> None:
    card.document["target"]["sources"].append("other.c")
    card.second["stop"]["text"] = "/* subtracted */"
    add_stop(card, "missing", file="other.c", line=1, text="x")
    add_stop(card, "mistyped", function="addd")
    add_stop(card, "condition", function="add", **{"if": "n == 9"})
    add_stop(card, "signal", signal="SIGSEGV")
    add_stop(card, "variable", function="add", **{"if": "nobody == 9"})
    card.write()
    code, found = checked(card, capsys)
    assert code == 1
    failed = dict.fromkeys(("mistyped", "condition", "signal", "variable"), "failed")
    assert states(found) == {"end": "ready", "second": "skipped", "missing": "skipped", **failed}
    for fault, (kind, place, said) in zip(
        found["faults"],
        (
            ("source_missing", "/target/sources/1", ""),
            ("source_drift", "/snapshots/0/stop", ""),
            ("stop_not_reached", "/snapshots/3/stop", "; did you mean add?"),
            ("target_exited", "/snapshots/4/stop", "; the stop waits for n == 9"),
            ("target_exited", "/snapshots/5/stop", "; the stop waits for SIGSEGV"),
            ("bad_condition", "/snapshots/6/stop", "cannot be evaluated"),
        ),
        strict=True,
    ):
        assert (fault["code"], fault["pointer"][-len(place) :]) == (kind, place)
        assert said in fault["detail"]


def test_a_build_that_fails_or_takes_too_long_is_one_fault(card: CountingCard, capsys: Capture) -> None:
    card.edit_code("int main(", "innt main(")
    code, found = checked(card, capsys)
    (fault,) = found["faults"]
    assert (code, fault["code"], fault["pointer"]) == (1, "build_failed", "/target/build")
    assert "unknown type name" in fault["detail"]
    assert str(card.code.parent) in fault["detail"]
    assert states(found) == {"second": "skipped", "end": "skipped"}


def test_the_time_limit_of_a_replay_holds(card: CountingCard, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    card.document["target"]["args"] = ["wait"]
    card.write()
    monkeypatch.setenv("CARD_REPLAY_TIMEOUT", "1")
    fault = only_fault(card, capsys, "--only", END)
    assert fault["code"] == "replay_timeout"
    assert "within 1 s" in fault["detail"]
    assert fault["detail"].endswith("raise timeout_s of its run, or CARD_REPLAY_TIMEOUT")


def test_fix_renumbers_hits_and_moves_stops_but_accepts_no_changed_value(card: CountingCard, capsys: Capture) -> None:
    card.edit_code("    add(1);\n", "    add(0);\n    add(1);\n")
    before = card.source.read_text()
    code, found = checked(card, capsys, "--fix")
    assert code == 0
    assert [(each["key"], each["new"]) for each in found["repairs"]] == [(END, {"line": 21}), (SECOND, {"hits": 3})]
    fixed = before.replace('"hits": 2', '"hits": 3').replace('"line": 20', '"line": 21')
    assert card.source.read_text() == fixed
    card.edit_code("add(2);", "add(20);")
    code, found = checked(card, capsys, "--fix")
    assert (code, found["repairs"], card.source.read_text()) == (1, [], fixed)
    assert {each["key"] for each in found["faults"]} == {SECOND, END}


def test_a_stop_without_a_line_is_found_by_its_text(card: CountingCard, capsys: Capture) -> None:
    before = json.loads(card.source.read_text())
    line = card.second["stop"].pop("line")
    end = card.step["snapshots"][1]["stop"]
    end["line"] = "?"
    card.write()
    code, found = checked(card, capsys)
    assert (code, {each["code"] for each in found["faults"]}) == (1, {"not_recorded"})
    assert found["faults"][0]["fix"] == {"line": line}
    assert f"it is line {line}" in found["faults"][0]["detail"]
    code, found = checked(card, capsys, "--fix")
    assert (code, json.loads(card.source.read_text())) == (0, before), found
    card.second["stop"]["text"] = "add"
    card.write()
    fault = only_fault(card, capsys, "--only", SECOND)
    assert fault["code"] == "ambiguous_text"


def test_a_renamed_function_is_found_by_its_body_and_taken_on_request(card: CountingCard, capsys: Capture) -> None:
    lines = card.code.read_text().splitlines()
    first = lines.index("static int add(int n)") + 1
    begin = lines.index("int main(int argc, char **argv)") + 1
    card.step["code"] = {"file": "main.c", "function": "add"}
    add_stop(card, "entered", function="add", hits=2)
    card.step["snapshots"][-1]["expect"] = {"n": 2}
    called = {"file": "main.c", "line": lines.index("    add(4);") + 1, "text": "add(4);"}
    caller = {"id": "s2", "title": "Main", "code": {"file": "main.c", "from": begin, "to": len(lines)}}
    caller["snapshots"] = [{"id": "called", "title": "Called", "stop": called}]
    card.document["tasks"][0]["blocks"][0]["phases"][0]["steps"].append(caller)
    card.write()
    assert main(["record", "--yes", str(card.folder)]) == 0
    card.code.write_text(card.code.read_text().replace("add(", "plus(").replace("#include", "\n#include", 1))
    capsys.readouterr()
    code, found = checked(card, capsys, "--fix")
    assert code == 1
    faults = {each["key"].rpartition("/")[2]: each for each in found["faults"]}
    assert faults.keys() == {"s1", "entered", "s2", "called"}
    assert {each["code"] for each in faults.values()} == {"function_renamed"}
    assert faults["s1"]["detail"].startswith("add is now called plus; ")
    assert (faults["entered"]["expected"], faults["entered"]["seen"]) == ("add", "plus")
    assert main(["check", str(card.folder)]) == 1
    assert "check --fix --accept-rename takes plus" in capsys.readouterr().out
    assert main(["record", str(card.folder)]) == 1
    assert "function_renamed: add is now called plus: check --fix --accept-rename takes" in capsys.readouterr().out
    code, found = checked(card, capsys, "--fix", "--accept-rename")
    assert code == 0, found["faults"]
    step = json.loads(card.source.read_text())["tasks"][0]["blocks"][0]["phases"][0]["steps"][0]
    assert (step["code"]["function"], step["code"]["from"]) == ("plus", first + 1)
    assert [each["stop"].get("function") for each in step["snapshots"]] == [None, None, "plus"]
    card.edit_code("calls++;", "calls += 1;")
    card.code.write_text(card.code.read_text().replace("plus(", "more("))
    code, found = checked(card, capsys, "--fix", "--accept-rename")
    assert (code, found["repairs"]) == (1, [])  # another body is another function


def test_check_looks_functions_up_in_the_program_if_it_is_built(card: CountingCard, capsys: Capture) -> None:
    add_stop(card, "known", function="add")
    add_stop(card, "mistyped", function="addd")
    add_stop(card, "library", function="pause")
    card.write()

    def faults() -> list[tuple[str, str, str]]:
        main(["check", "--format", "json", str(card.folder)])
        (found,) = json.loads(capsys.readouterr().out)["cards"]
        return [(each["key"].rpartition("/")[2], each["code"], each["detail"]) for each in found["faults"]]

    def build(*options: str) -> None:
        subprocess.run([*card.document["target"]["build"], *options], cwd=card.code.parent, check=True)

    assert faults() == []  # nothing is built
    wrong = [("mistyped", "no_function", "counting has no function addd; did you mean add?")]
    build()
    assert faults() == wrong
    subprocess.run(["gcc", "-shared", "-o", card.code.with_name("libmore.so"), "-x", "c", "/dev/null"], check=True)
    build("-Wl,--no-as-needed", "libmore.so")
    assert faults() == []  # the library may have it
    build()
    os.utime(card.code)
    assert faults() == []  # the source is newer
    checked(card, capsys)
    assert faults() == wrong  # the copy of the last replays was built of the same sources


CPP = """
namespace shop {
struct Item { int price; int twice() const { return 2 * price; } };
int total(const Item &item, int n) { return item.twice() * n; }
template <typename T> T larger(T a, T b) { return a > b ? a : b; }
}
int main() { return shop::total({1}, 2) + shop::larger(1, 2); }
"""
RUST = """
mod shop {
    pub struct Item { pub price: u32 }
    impl Item { pub fn twice(&self) -> u32 { self.price * 2 } }
    pub fn total(item: &Item) -> u32 { item.twice() }
}
fn main() { println!("{}", shop::total(&shop::Item { price: 1 })); }
"""


def test_check_knows_the_names_of_functions_in_cpp_and_rust(tmp_path: Path) -> None:
    need_program("g++")
    cpp = ["total", "shop::total", "shop::total(shop::Item const&, int)", "twice", "shop::larger<int>", "shop::larger"]
    for name, source, build, known in (
        ("main.cpp", CPP, "$(CXX) -g -O0 -o $@ $<", cpp),
        ("main.rs", RUST, f"{need_rustc()} -g -o $@ $<", ["total", "shop::total", "main::shop::total", "twice"]),
    ):
        card = ProgramCard(tmp_path / name, f"prog: {name}\n\t{build}\n", {name: source})
        subprocess.run(["make", "-s"], cwd=card.sources, check=True)
        for function in (*known, "shop::missing", "shap::total"):
            card.snapshot["stop"] = {"function": function}
            card.write()
            found = [fault.code for fault in function_faults(load_card(card.folder))]
            assert found == ([] if function in known else ["no_function"]), (name, function)


def test_repeated_replays_find_a_program_that_is_not_always_the_same(
    card: CountingCard, capsys: Capture, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    card.edit_code("    add(1);", f'    add(access("{runs}.3", 0) == 0 ? 9 : 1);')
    # Each run creates the next file: runs.1, runs.2, runs.3.
    made = " || ".join(f'mkdir("{runs}.{number}", 0700) == 0' for number in (1, 2, 3))
    card.edit_code("    (void)argv;", f"    (void)({made});")
    card.edit_code("#include <unistd.h>", "#include <unistd.h>\n#include <sys/stat.h>")
    main(["check", "--fix", str(card.folder)])
    capsys.readouterr()
    assert main(["check", "--replay", "--only", SECOND, "--repeat", "5", str(card.folder)]) == 1
    assert f"{SECOND} matched the card 2 times before it failed" in capsys.readouterr().out


def test_fail_fast_stops_after_the_first_snapshot_that_fails(card: CountingCard, capsys: Capture) -> None:
    card.second["expect"] = {"total": 4}
    card.write()
    folder = str(card.folder)
    options = ("--replay", "--fail-fast", "--repeat", "2", "--format", "junit")
    assert main(["check", *options, folder, folder]) == 1
    (suite,) = ElementTree.fromstring(capsys.readouterr().out)  # the second card is left out
    counts = {"tests": "3", "failures": "1", "errors": "0", "skipped": "1"}
    assert suite.attrib | {"time": "?"} == {"name": "counting", "time": "?", **counts}
    cases = {case.get("name"): [child.tag for child in case] for case in suite}
    assert cases == {"static": [], SECOND: ["failure"], END: ["skipped"]}


def test_an_ended_check_leaves_no_process_and_no_folder(card: CountingCard, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    script = f"(pwd; echo $CARD_STATE_DIR) > {begun}.new; mv {begun}.new {begun}; sleep 600"
    card.document["target"]["build"] = ["sh", "-c", script]
    card.write()
    check = subprocess.Popen([*CHECK, "--replay", str(card.folder)])
    try:
        eventually(begun.exists, 60)
        check.send_signal(signal.SIGHUP)
        assert check.wait(60) == 130
    finally:
        check.kill()
        check.wait()
    sources, session = map(Path, begun.read_text().splitlines())
    assert session.name.startswith("card-check-")
    assert not session.exists()
    working = [each for each in Path("/proc").iterdir() if each.name.isdecimal()]
    assert not [each for each in working if _works_in(each, sources) or _works_in(each, session)]


def _works_in(process: Path, folder: Path) -> bool:
    try:
        return os.readlink(process / "cwd").startswith(str(folder))
    except OSError:
        return False


def test_watch_checks_again_when_a_file_changes_and_ends_with_ctrl_c(card: CountingCard) -> None:
    """With replays it also sees a file that only the build reads."""
    header = card.code.with_name("start.h")
    header.write_text("#define START 0\n#define SECOND 2\n")
    card.edit_code("static int total,", '#include "start.h"\nstatic int total = START,')
    card.edit_code("add(2);", "add(SECOND);")
    assert main(["check", "--fix", str(card.folder)]) == 0
    with _watching(card, "--replay") as watching:
        assert "all 2 snapshots were replayed" in _until_waiting(watching.stdout)
        header.write_text("#define START 9\n#define SECOND 5\n")
        said = _until_waiting(watching.stdout)
        assert f"{SECOND}: snapshot_drift: 2 values differ from the card\n" in said
        assert "    expression  expected  seen\n    total       3         15\n    n           2         5\n" in said
        assert "3 faults; 0 of 2 snapshots match the card, 2 failed" in said
        watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == 130


@contextmanager
def _watching(card: CountingCard, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [*CHECK, "--watch", *options, str(card.folder)]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as watching:
        try:
            yield watching
        finally:
            watching.terminate()


def _until_waiting(output: Any) -> str:
    lines = []
    for line in output:
        lines.append(line)
        if line.startswith("waiting for a change"):
            return "".join(lines)
    raise AssertionError("".join(lines))
