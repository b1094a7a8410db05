"""``emit`` says on the sheets whether the card was proved; ``emit --proved`` proves it first, in a real session."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cardapp.card import anchors
from cardapp.card.source import load_card
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


class EmittedCard(ProgramCard):
    """A card with one excerpt and one stop in that excerpt. Its commands use the state directory of ``environment``."""

    __test__ = False

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        super().__init__(folder, "prog: a.c\n\tgcc -g -O0 -o $@ a.c\n", {"a.c": SOURCE})
        self.environment = environment
        self.output = folder.parent / "sheets.html"
        self.snapshot.update(stop=self.at("/* doubled */", "a.c"), expect={"n": 21})
        self.step["code"] = {"file": "a.c", "from": 1, "to": 4}
        self.write()
        code = load_card(folder).card.tasks[0].blocks[0].phases[0].steps[0].code
        assert code is not None
        anchored = anchors.anchored(code, SOURCE.splitlines())
        self.step["code"].update(text=anchored.text, digest=anchored.digest)
        self.write()

    @property
    def step(self) -> dict[str, Any]:
        step: dict[str, Any] = self.document["tasks"][0]["blocks"][0]["phases"][0]["steps"][0]
        return step

    @property
    def snapshot(self) -> dict[str, Any]:
        snapshot: dict[str, Any] = self.step["snapshots"][0]
        return snapshot

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-P", "-m", "cardapp", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def emit(self, *options: str) -> subprocess.CompletedProcess[str]:
        return self.run("emit", str(self.folder), "--format", "html", "-o", str(self.output), *options)

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        command = ["git", "-C", str(self.folder), *identity, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self) -> str:
        """Commit the card in a separate repository. Returns the short hash."""
        self.git("init", "-q")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "A card")
        return self.git("rev-parse", "--short", "HEAD")


@pytest.fixture
def card(tmp_path: Path, card_environment: dict[str, str]) -> EmittedCard:
    return EmittedCard(tmp_path / "card", card_environment)


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def test_the_sheets_say_what_a_green_replay_proved_until_something_changes(card: EmittedCard) -> None:
    commit = card.commit()
    assert card.emit().returncode == 0
    assert "<span>Not proved</span>" in card.output.read_text()

    assert card.run("check", str(card.folder)).returncode == 0  # without replays nothing is proved
    card.emit()
    assert "<span>Not proved</span>" in card.output.read_text()

    assert card.run("check", "--replay", str(card.folder)).returncode == 0
    emitted = card.emit()
    assert (emitted.returncode, emitted.stderr) == (0, "")
    assert f"<span>Proved {today()} at {commit}</span>" in card.output.read_text()

    (card.sources / "a.c").write_text(SOURCE + "/* more */\n")
    card.emit()
    assert "<span>Not proved</span>" in card.output.read_text()
    assert card.run("check", "--replay", str(card.folder)).returncode == 0
    card.emit()
    assert f"<span>Proved {today()} at {commit}+</span>" in card.output.read_text()

    (card.sources / "a.c").write_text(SOURCE)
    card.emit()
    assert f"<span>Proved {today()} at {commit}</span>" in card.output.read_text()


@pytest.mark.full
def test_a_red_replay_proves_nothing(card: EmittedCard) -> None:
    card.snapshot["expect"] = {"n": 22}
    card.write()
    assert card.run("check", "--replay", str(card.folder)).returncode == 1
    card.emit()
    assert "<span>Not proved</span>" in card.output.read_text()


@pytest.mark.full
def test_proved_replays_first(card: EmittedCard) -> None:
    assert card.emit("--proved").returncode == 0
    first = card.output.read_text()
    assert f"<span>Proved {today()} at " in first
    card.emit()
    assert card.output.read_text() == first


@pytest.mark.full
def test_proved_writes_nothing_for_a_card_with_a_fault(card: EmittedCard) -> None:
    card.snapshot["expect"] = {"n": 22}
    card.write()
    emitted = card.emit("--proved")
    assert emitted.returncode == 1
    assert f"{KEY}/x1: snapshot_drift: 1 value differs from the card" in emitted.stderr
    assert re.search("^ +n +22 +21$", emitted.stderr, re.MULTILINE)
    assert "is not proved: it has 1 fault\n" in emitted.stderr
    assert not card.output.exists()


@pytest.mark.full
def test_proved_refuses_an_excerpt_without_an_anchor(card: EmittedCard) -> None:
    del card.step["code"]["digest"]
    card.write()
    emitted = card.emit("--proved")
    assert emitted.returncode == 1
    assert f"{KEY}: no_anchor" in emitted.stderr
    assert "bin/cardapp record" in emitted.stderr
    assert not card.output.exists()


@pytest.mark.full
def test_an_excerpt_that_moved_is_named_and_leaves_the_card_unproved(card: EmittedCard) -> None:
    assert card.run("check", "--replay", str(card.folder)).returncode == 0
    (card.sources / "a.c").write_text("\n" * 10 + SOURCE)
    emitted = card.emit()
    assert emitted.returncode == 0
    assert f"cardapp: {KEY}: the excerpt of a.c, lines 1–4: " in emitted.stderr
    assert "its excerpt is now in lines 11–14" in emitted.stderr
    page = card.output.read_text()
    assert "<span>Not proved</span>" in page
    assert "its excerpt is now in lines 11–14" in page
    assert card.emit("--proved").returncode == 1


@pytest.mark.full
def test_a_proof_that_cannot_be_recorded_is_still_a_proof(card: EmittedCard, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    card.environment = card.environment | {"CARD_STATE_DATABASE": str(tmp_path / "file" / "card-state")}
    checked = card.run("check", "--replay", str(card.folder))
    assert checked.returncode == 0
    assert "the proof is not recorded" in checked.stderr
    assert card.emit("--proved").returncode == 0
    assert f"<span>Proved {today()} at " in card.output.read_text()


@pytest.mark.full
def test_sheets_are_made_also_where_the_records_cannot_be_read(card: EmittedCard) -> None:
    card.environment = card.environment | {"CARD_API_SOCKET": f"/tmp/{'s' * 110}"}
    emitted = card.emit()
    assert emitted.returncode == 0
    assert "it is not known whether the card was proved: " in emitted.stderr
    assert "<span>Not proved</span>" in card.output.read_text()


@pytest.mark.full
def test_the_launcher_prepares_a_session_for_proved(card: EmittedCard) -> None:
    launcher = Path(__file__).resolve().parents[2] / "bin" / "cardapp"
    command = [str(launcher), "emit", str(card.folder), "--format", "latex", "--proved"]
    emitted = subprocess.run(command, env=card.environment, capture_output=True, text=True, check=False)
    assert emitted.returncode == 0, emitted.stderr
    assert f"Proved {today()} at " in emitted.stdout
    assert os.listdir(card.environment["CARD_STATE_DIR"])
