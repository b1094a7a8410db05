"""``cardapp check`` with real sessions: what it finds in replays, what it repairs, and how it watches."""

from __future__ import annotations

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

from cardapp.authoring.proving import Proof, TemporarySession
from cardapp.card.model import Snapshot
from cardapp.cli import main
from tests.functional.counting_card import CountingCard
from tests.functional.session_process import eventually

pytestmark = pytest.mark.functional

SECOND, END = "t1/b1/p1/s1/second", "t1/b1/p1/s1/end"


@pytest.fixture
def card(tmp_path: Path) -> CountingCard:
    return CountingCard(tmp_path / "card")


def checked(card: CountingCard, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, Any]]:
    """The exit code of ``check --replay --format json`` and the card in its output."""
    code = main(["check", "--replay", "--format", "json", str(card.folder), *options])
    (found,) = json.loads(capsys.readouterr().out)["cards"]
    assert found["ok"] is (code == 0)
    return code, found


def test_every_wrong_value_and_every_unreadable_expression_is_a_fault(
    card: CountingCard, capsys: pytest.CaptureFixture[str]
) -> None:
    undefined = {"undefined": True}
    card.second["expect"] = {"total": 4, "n": 2, "nothing": 1, "n + 1": undefined, "nil": undefined}
    card.second["watch"] = ["calls", "nowhere"]
    card.second["ask"] = ["total", "calls", "nobody"]
    card.write()
    code, found = checked(card, capsys)
    assert code == 1
    states = {each["key"]: each["state"] for each in found["snapshots"]}
    assert states == {SECOND: "failed", END: "ready"}
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
    assert all('"total": 4' in card.source.read_text().splitlines()[each["line"] - 1] for each in found["faults"][:1])


def test_the_values_that_differ_are_shown_as_a_table(card: CountingCard, capsys: pytest.CaptureFixture[str]) -> None:
    card.second["expect"] = {"total": 4, "n": 5}
    card.write()
    assert main(["check", "--replay", "--only", SECOND, str(card.folder)]) == 1
    said = capsys.readouterr().out
    assert f"{SECOND}: snapshot_drift: 2 values differ from the card\n" in said
    assert "    expression  expected  seen\n    total       4         3\n    n           5         2\n" in said
    assert "2 faults; 0 of 1 snapshot match the card, 1 failed" in said


@pytest.mark.full
def test_a_snapshot_with_a_static_fault_is_skipped_and_the_others_are_replayed(
    card: CountingCard, capsys: pytest.CaptureFixture[str]
) -> None:
    card.second["stop"]["text"] = "/* subtracted */"
    card.write()
    code, found = checked(card, capsys)
    assert code == 1
    assert {each["key"]: each["state"] for each in found["snapshots"]} == {END: "ready", SECOND: "skipped"}
    assert [each["code"] for each in found["faults"]] == ["source_drift"]


@pytest.mark.full
def test_a_missing_file_skips_its_own_stops_only(card: CountingCard, capsys: pytest.CaptureFixture[str]) -> None:
    card.document["target"]["sources"].append("other.c")
    card.second["stop"] = {"file": "other.c", "line": 1, "text": "x"}
    card.write()
    code, found = checked(card, capsys)
    assert code == 1
    assert [(each["code"], each["pointer"]) for each in found["faults"]] == [("source_missing", "/target/sources/1")]
    assert {each["key"]: each["state"] for each in found["snapshots"]} == {END: "ready", SECOND: "skipped"}


@pytest.mark.full
def test_a_mistyped_function_is_a_fault_that_names_a_similar_one(
    card: CountingCard, capsys: pytest.CaptureFixture[str]
) -> None:
    card.second["stop"] = {"function": "addd"}
    card.write()
    code, found = checked(card, capsys, "--only", SECOND)
    assert code == 1
    (fault,) = found["faults"]
    assert fault["code"] == "stop_not_reached"
    assert "; did you mean add?" in fault["detail"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("stop", "event"),
    [
        ({"function": "add", "if": "n == 9"}, "n == 9"),
        ({"signal": "SIGSEGV"}, "SIGSEGV"),
    ],
)
def test_a_program_that_ends_before_the_stop_says_what_it_waits_for(
    card: CountingCard, capsys: pytest.CaptureFixture[str], stop: dict[str, Any], event: str
) -> None:
    card.second["stop"] = stop
    card.write()
    code, found = checked(card, capsys, "--only", SECOND)
    assert code == 1
    (fault,) = found["faults"]
    assert fault["code"] == "target_exited"
    assert f"; the stop waits for {event}" in fault["detail"]


def test_a_build_that_fails_is_one_fault_with_the_text_of_the_compiler(
    card: CountingCard, capsys: pytest.CaptureFixture[str]
) -> None:
    card.edit_code("int main(", "innt main(")
    code, found = checked(card, capsys)
    assert code == 1
    (fault,) = found["faults"]
    assert (fault["code"], fault["pointer"]) == ("build_failed", "/target/build")
    assert "unknown type name" in fault["detail"]
    assert str(card.code.parent) in fault["detail"]
    assert [each["state"] for each in found["snapshots"]] == ["skipped", "skipped"]


@pytest.mark.full
def test_the_time_limit_of_a_replay_holds(
    card: CountingCard, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    card.document["target"]["args"] = ["wait"]
    card.write()
    monkeypatch.setenv("CARD_REPLAY_TIMEOUT", "2")
    code, found = checked(card, capsys, "--only", END)
    assert code == 1
    (fault,) = found["faults"]
    assert fault["code"] == "replay_timeout"
    assert "within 2 s" in fault["detail"]
    assert fault["detail"].endswith("raise timeout_s of its run, or CARD_REPLAY_TIMEOUT")


@pytest.mark.full
def test_the_time_limit_of_a_build_holds(card: CountingCard, capsys: pytest.CaptureFixture[str]) -> None:
    card.document["target"] |= {"build": ["sleep", "60"], "build_timeout_s": 1}
    card.write()
    code, found = checked(card, capsys)
    assert code == 1
    (fault,) = found["faults"]
    assert (fault["code"], fault["pointer"]) == ("build_failed", "/target/build")
    assert "longer than 1 s (target.build_timeout_s)" in fault["detail"]


@pytest.mark.full
def test_fix_renumbers_the_hits_after_a_call_was_added(card: CountingCard, capsys: pytest.CaptureFixture[str]) -> None:
    card.edit_code("    add(1);\n", "    add(0);\n    add(1);\n")
    before = card.source.read_text()
    code, found = checked(card, capsys, "--fix")
    assert code == 0
    assert [(each["key"], each["new"]) for each in found["repairs"]] == [(END, {"line": 21}), (SECOND, {"hits": 3})]
    assert card.source.read_text() == before.replace('"hits": 2', '"hits": 3').replace('"line": 20', '"line": 21')


def test_fix_moves_a_stop_to_the_line_at_which_its_values_hold(
    card: CountingCard, capsys: pytest.CaptureFixture[str]
) -> None:
    card.second["stop"] = {"file": "main.c", "line": 14, "text": "    add("}
    card.second["expect"] = {"total": "3"}
    card.write()
    before = card.source.read_text()
    code, found = checked(card, capsys, "--fix")
    assert code == 0
    assert [(each["old"], each["new"]) for each in found["repairs"]] == [({"line": 14}, {"line": 17})]
    assert card.source.read_text() == before.replace('"line": 14', '"line": 17')


@pytest.mark.full
def test_fix_searches_no_further_hits_of_a_program_that_waits(
    card: CountingCard, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    card.document["target"]["args"] = ["wait"]
    card.second["expect"] = {"total": 99}
    card.write()
    tried = []
    prove = TemporarySession.prove

    def noted(session: TemporarySession, key: str, snapshot: Snapshot | None = None) -> Proof:
        tried.append(snapshot.stop.hits if snapshot is not None else None)
        return prove(session, key, snapshot)

    monkeypatch.setattr(TemporarySession, "prove", noted)
    monkeypatch.setenv("CARD_REPLAY_TIMEOUT", "2")
    code, found = checked(card, capsys, "--fix", "--only", SECOND)
    assert (code, [each["code"] for each in found["faults"]]) == (1, ["snapshot_drift"])
    assert tried == [None, 3, 4]  # the program waits before a fourth call


@pytest.mark.full
def test_fix_accepts_no_changed_value(card: CountingCard, capsys: pytest.CaptureFixture[str]) -> None:
    card.edit_code("add(2);", "add(20);")
    before = card.source.read_text()
    code, found = checked(card, capsys, "--fix")
    assert code == 1
    assert (found["repairs"], card.source.read_text()) == ([], before)
    assert {each["key"] for each in found["faults"]} == {SECOND, END}


@pytest.mark.full
def test_repeated_replays_find_a_program_that_is_not_always_the_same(
    card: CountingCard, capsys: pytest.CaptureFixture[str], tmp_path: Path
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


@pytest.mark.full
def test_fail_fast_stops_after_the_first_snapshot_that_fails(
    card: CountingCard, capsys: pytest.CaptureFixture[str]
) -> None:
    card.second["expect"] = {"total": 4}
    card.write()
    assert main(["check", "--replay", "--fail-fast", "--repeat", "2", "--format", "junit", str(card.folder)]) == 1
    (suite,) = ElementTree.fromstring(capsys.readouterr().out)
    assert suite.attrib | {"time": "?"} == {
        "name": "counting",
        "tests": "3",
        "failures": "1",
        "errors": "0",
        "skipped": "1",
        "time": "?",
    }
    cases = {case.get("name"): [child.tag for child in case] for case in suite}
    assert cases == {"static": [], SECOND: ["failure"], END: ["skipped"]}


@pytest.mark.full
def test_fail_fast_also_leaves_out_the_cards_behind_it(card: CountingCard, capsys: pytest.CaptureFixture[str]) -> None:
    card.second["expect"] = {"total": 4}
    card.write()
    folder = str(card.folder)
    assert main(["check", "--replay", "--fail-fast", "--format", "json", folder, folder]) == 1
    assert len(json.loads(capsys.readouterr().out)["cards"]) == 1


@pytest.mark.full
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP])
def test_an_ended_check_leaves_no_process_and_no_folder(card: CountingCard, tmp_path: Path, ending: int) -> None:
    begun = tmp_path / "begun"
    card.document["target"]["build"] = [
        "sh",
        "-c",
        f"(pwd; echo $CARD_STATE_DIR) > {begun}.new; mv {begun}.new {begun}; sleep 600",
    ]
    card.write()
    check = subprocess.Popen([sys.executable, "-P", "-m", "cardapp", "check", "--replay", str(card.folder)])
    try:
        eventually(begun.exists)
        check.send_signal(ending)
        assert check.wait(20) == 130
    finally:
        check.kill()
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


def test_watch_checks_again_when_a_source_changes_and_ends_with_ctrl_c(card: CountingCard) -> None:
    with _watching(card) as watching:
        assert "every stop and code range matches" in _until_waiting(watching.stdout)
        card.edit_code("/* the end */", "/* the beginning */")
        assert f"{END}: source_drift" in _until_waiting(watching.stdout)
        watching.send_signal(signal.SIGINT)
        assert watching.wait(20) == 130


@pytest.mark.full
def test_watch_with_replays_also_sees_files_that_only_the_build_reads(card: CountingCard) -> None:
    header = card.code.with_name("start.h")
    header.write_text("#define START 0\n")
    card.edit_code("static int total,", '#include "start.h"\nstatic int total = START,')
    assert main(["check", "--fix", str(card.folder)]) == 0
    with _watching(card, "--replay") as watching:
        assert "all 2 snapshots were replayed" in _until_waiting(watching.stdout)
        header.write_text("#define START 9\n")
        assert "2 faults; 0 of 2 snapshots match the card" in _until_waiting(watching.stdout)


@contextmanager
def _watching(card: CountingCard, *options: str) -> Iterator[subprocess.Popen[str]]:
    watching = subprocess.Popen(
        [sys.executable, "-P", "-m", "cardapp", "check", "--watch", *options, str(card.folder)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    with watching:
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
