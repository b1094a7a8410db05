"""The learner's changes in the session's copy of the sources are reported with a diff, and can be undone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional.serving import Stage, position, until

pytestmark = [pytest.mark.functional]


@pytest.fixture
def copy(stage: Stage) -> Iterator[Path]:
    """The session's copy of the card's folder. Afterwards the copy equals the card's folder again."""
    found = stage.sessions.session().work / "probe"
    yield found
    stage.tcp.post("/api/session/restore")


def changes(stage: Stage) -> Any:
    found = stage.tcp.get("/api/session")["changes"]
    until(lambda: stage.tcp.get("/api/state")["session"]["changes"] == found)
    return found


def test_an_edit_is_told_with_its_difference_and_restored_with_a_backup(stage: Stage, copy: Path) -> None:
    assert changes(stage) == []
    source, original = copy / "main.c", (stage.card / "src" / "main.c").read_text()
    edited = original.replace("    n = 1;", "    n = 4;")
    source.write_text(edited)
    (change,) = changes(stage)
    assert (change["file"], change["kind"], change["truncated"]) == ("main.c", "changed", False)
    assert "--- card/main.c\n+++ session/main.c\n" in change["diff"]
    assert "\n-    n = 1;\n+    n = 4;\n" in change["diff"]
    stage.tcp.put("/api/navigation/current", position("quick"))
    assert stage.tcp.post("/api/navigation/sync").json["code"] == "snapshot_drift"
    answer = stage.tcp.post("/api/session/restore", {"actor": "ada"})
    assert (answer.status, answer.json["changes"]) == (200, [])
    ((name, backup),) = [(each["file"], each["backup"]) for each in answer.json["restored"]]
    assert name == "main.c"
    assert (source.read_text(), (copy / backup).read_text()) == (original, edited)
    event = stage.tcp.get("/api/events?kind=session.restored&limit=1000")["events"][-1]
    assert (event["actor"], event["data"]) == ("ada", {"session": "s", "restored": answer.json["restored"]})
    assert stage.tcp.post("/api/navigation/sync").json["state"] == "ready"


def test_the_editor_shows_the_restored_file(stage: Stage, copy: Path) -> None:
    session = stage.sessions.session()
    session.editor("nvim_command('edit main.c')")
    (copy / "main.c").write_text("int edited;\n")
    session.editor("nvim_command('checktime')")
    until(lambda: session.editor("getbufline('main.c', 1)[0]") == "int edited;")
    stage.tcp.post("/api/session/restore")
    until(lambda: session.editor("getbufline('main.c', 1)[0]") == "#include <stdio.h>")


def test_a_removed_and_an_added_file_are_told_and_restored(stage: Stage, copy: Path) -> None:
    (copy / "main.c").unlink()
    (copy / "GNUmakefile").write_text("all:\n\ttrue")
    removed, added = changes(stage)
    assert (removed["file"], removed["kind"]) == ("main.c", "removed")
    assert (added["file"], added["kind"]) == ("GNUmakefile", "added")
    assert added["diff"].endswith("+all:\n+\ttrue\n\\ No newline at end of file\n")
    restored = stage.tcp.post("/api/session/restore").json["restored"]
    assert restored == [{"file": "main.c", "backup": None}, {"file": "GNUmakefile", "backup": "GNUmakefile.orig"}]
    assert (copy / "main.c").read_text() == (stage.card / "src" / "main.c").read_text()
    assert not (copy / "GNUmakefile").exists()
    (copy / "GNUmakefile.orig").unlink()


def test_an_edit_of_the_cards_own_file_is_a_difference_too(stage: Stage, copy: Path) -> None:
    source = stage.card / "src" / "main.c"
    original = source.read_text()
    try:
        source.write_text(f"{original}\n/* the author's */\n")
        (change,) = changes(stage)
        assert "-/* the author's */\n" in change["diff"]
    finally:
        source.write_text(original)
    assert changes(stage) == []


def test_what_is_no_short_text_has_no_difference_and_a_long_one_is_cut(stage: Stage, copy: Path) -> None:
    for content in (b"\xff\xfe", b"x\n" * 6000, b"x" * (2 << 20)):
        (copy / "main.c").write_bytes(content)
        (change,) = changes(stage)
        assert (change["kind"], change["diff"]) == ("changed", None), content[:10]
    (copy / "main.c").write_text("".join(f"int number_{number};\n" for number in range(3000)))
    (change,) = changes(stage)
    assert (len(change["diff"]), change["truncated"]) == (20_000, True)


def test_a_link_in_the_place_of_a_source_leads_nowhere(stage: Stage, copy: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret\n")
    (copy / "main.c").unlink()
    os.symlink(secret, copy / "main.c")
    try:
        assert "secret" not in json.dumps(stage.tcp.get("/api/session"))
        assert stage.tcp.post("/api/session/restore").status != 200
        assert secret.read_text() == "a secret\n"
    finally:
        (copy / "main.c").unlink()
