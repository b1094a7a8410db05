"""``emit`` says on the sheets whether the card was proved; ``emit --proved`` proves it first, in a real session."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from subprocess import CompletedProcess
from xml.etree import ElementTree

import pytest

from cardapp.card import anchors
from cardapp.card.source import load_card
from tests.cardapp.card.conftest import first_step
from tests.functional.command_line import cardapp
from tests.functional.program_cards import ProgramCard

pytestmark = pytest.mark.functional

SOURCE = """int doubled(int n)
{
    return 2 * n; /* doubled */
}

int main(void)
{
    return doubled(21) != 42;
}
"""
KEY = "t1/b1/p1/s1"
NOT_PROVED = "<span>Not proved</span>"


class EmittedCard(ProgramCard):
    """A card with one excerpt and one stop in that excerpt. Its commands use the state directory of ``environment``."""

    __test__ = False

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        super().__init__(folder, "prog: a.c\n\tgcc -g -O0 -o $@ a.c\n", {"a.c": SOURCE})
        self.environment = environment
        self.output = folder.parent / "sheets.html"
        self.step = first_step(self.document)
        self.snapshot.update(stop=self.at("/* doubled */", "a.c"), expect={"n": 21})
        self.step["code"] = {"file": "a.c", "from": 1, "to": 4}
        self.write()
        code = load_card(folder).card.tasks[0].blocks[0].phases[0].steps[0].code
        assert code is not None
        anchored = anchors.anchored(code, SOURCE.splitlines())
        self.step["code"].update(text=anchored.text, digest=anchored.digest)
        self.write()

    def check(self, *options: str) -> CompletedProcess[str]:
        return cardapp("check", self.folder, *options, **self.environment)

    def emit(self, *options: str) -> CompletedProcess[str]:
        return cardapp("emit", self.folder, "--format", "html", "-o", self.output, *options, **self.environment)

    @property
    def said(self) -> str:
        """What newly emitted sheets say about the proof."""
        emitted = self.emit()
        assert (emitted.returncode, emitted.stderr) == (0, "")
        (said,) = set(re.findall("<span>(?:Not p|P)roved.*?</span>", self.output.read_text()))
        return said


@pytest.fixture
def card(tmp_path: Path, card_environment: dict[str, str]) -> EmittedCard:
    return EmittedCard(tmp_path / "card", card_environment)


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def test_the_sheets_say_what_a_green_replay_proved_until_something_changes(card: EmittedCard) -> None:
    assert card.said == NOT_PROVED
    assert card.check().returncode == 0  # without replays nothing is proved
    assert card.said == NOT_PROVED
    before = today()
    assert card.check("--replay").returncode == 0
    proved = card.said
    assert proved.partition(" at ")[0] in {f"<span>Proved {day}" for day in (before, today())}
    assert proved.endswith(", 1 value</span>")
    (card.sources / "a.c").write_text(SOURCE + "/* more */\n")
    assert card.said == NOT_PROVED
    (card.sources / "a.c").write_text(SOURCE)
    assert card.said == proved


def test_what_an_asterisk_hides_is_named_and_counted(card: EmittedCard) -> None:
    user = 'struct { const char *name; int id; } u = {"alice", 7}; char left[] = "ab\\0cd";'
    (card.sources / "a.c").write_text(SOURCE.replace("    return doubled", f"    {user}\n    return doubled"))
    hidden = {"u": "{name = *, id = 7}", "u.id": 7, "u.name": {"undefined": True}, "left": "ab"}
    card.snapshot.update(stop=card.at("return doubled", "a.c"), expect=hidden)
    card.write()
    checked = card.check("--replay")
    assert checked.returncode == 0, checked.stdout
    assert checked.stdout.splitlines()[-1] == "1 snapshot, 3 values compared, 1 partly"
    assert f'{KEY}/x1: hidden_text: a * of u hides a part of {{name = * "alice", id = 7}}' in checked.stdout
    assert card.said.endswith(", 3 values, 1 partly</span>")
    assert card.emit("--proved").returncode == 0
    (found,) = json.loads(card.check("--replay", "--format", "json").stdout)["cards"]
    (warning,) = found["warnings"]
    assert warning | {"detail": "", "line": 0} == {
        "key": f"{KEY}/x1", "code": "hidden_text", "expression": "u", "expected": "{name = *, id = 7}", "line": 0,
        "pointer": "/tasks/0/blocks/0/phases/0/steps/0/snapshots/0/expect/u", "detail": "",
        "seen": '{name = * "alice", id = 7}',
    }  # fmt: skip
    assert (found["ok"], found["compared"], found["partly"]) == (True, 3, 1)
    suite = ElementTree.fromstring(card.check("--replay", "--format", "junit").stdout)[0]
    assert suite.get("failures") == "0"
    assert ["hidden_text" in (each.text or "") for each in suite.iter("system-out")] == [True]
    (strict,) = json.loads(card.check("--replay", "--strict", "--format", "json").stdout)["cards"]
    assert (strict["ok"], strict["warnings"]) == (False, [])
    assert [each["code"] for each in strict["faults"]] == ["hidden_text"]
    assert strict["snapshots"][0]["state"] == "failed"
    said = card.check("--replay", "--strict").stdout
    assert f"hides a part of {warning['seen']}: run bin/cardapp record, which writes it\n" in said
    recorded = cardapp("record", "--yes", card.folder, **card.environment)
    assert (recorded.returncode, f"! {KEY}/x1  u     {{name = *, id = 7}}" in recorded.stdout) == (0, True)
    assert card.check("--replay", "--strict").returncode == 0


def test_a_red_replay_proves_nothing_and_proved_then_writes_nothing(card: EmittedCard) -> None:
    card.snapshot["expect"] = {"n": 22}
    card.write()
    assert card.check("--replay").returncode == 1
    assert card.said == NOT_PROVED
    card.output.unlink()
    emitted = card.emit("--proved")
    assert emitted.returncode == 1
    assert f"{KEY}/x1: snapshot_drift: 1 value differs from the card" in emitted.stderr
    assert re.search("^ +n +22 +21$", emitted.stderr, re.MULTILINE)
    assert "is not proved: it has 1 fault\n" in emitted.stderr
    del card.step["code"]["digest"]
    card.write()
    emitted = card.emit("--proved")
    assert emitted.returncode == 1
    assert f"{KEY}: no_anchor" in emitted.stderr
    assert "bin/cardapp record" in emitted.stderr
    assert not card.output.exists()


def test_sheets_are_made_also_where_proofs_cannot_be_recorded_or_read(card: EmittedCard, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    environment = card.environment
    card.environment = environment | {"CARD_STATE_DATABASE": str(tmp_path / "file" / "card-state")}
    emitted = card.emit("--proved")
    assert emitted.returncode == 0
    assert "the proof is not recorded" in emitted.stderr
    assert "<span>Proved " in card.output.read_text()
    card.environment = environment | {"CARD_API_SOCKET": f"/tmp/{'s' * 110}"}
    emitted = card.emit()
    assert emitted.returncode == 0
    assert "it is not known whether the card was proved: " in emitted.stderr
    assert NOT_PROVED in card.output.read_text()
