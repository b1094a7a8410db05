"""The record of a proof belongs to one state of a card and its sources. It names the commit, if there is one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cardapp.authoring import proof_records
from cardapp.authoring.proof_records import NOT_PROVED, CardState
from cardapp.card.compared import Compared
from cardapp.card.source import load_card
from cardapp.state.proofs import CardProof
from tests.capabilities import need_program
from tests.cardapp.layout.hostile import ROOT

AT = "2026-11-25T10:00:00.000Z"


@pytest.fixture
def card(tmp_path: Path) -> Path:
    """A copy of the shipped calculator card, outside every git work tree."""
    return shutil.copytree(ROOT / "etc" / "cards" / "calc", tmp_path / "repository" / "card")


def present(card: Path) -> CardState:
    return proof_records.present(load_card(card))


def git(card: Path, *arguments: str) -> str:
    need_program("git")
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    command = ["git", "-C", str(card.parent), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def commit(card: Path) -> str:
    """The card's folder becomes part of a work tree with one commit."""
    git(card, "init", "-q")
    git(card, "add", ".")
    git(card, "commit", "-q", "-m", "A card")
    return git(card, "rev-parse", "--short", "HEAD")


def test_a_proof_is_found_again_until_card_or_source_changes(card: Path, state_dir: Path) -> None:
    database = state_dir / "card-state"

    def said() -> str:
        return proof_records.phrase(proof_records.last(load_card(card), database))

    assert said() == NOT_PROVED
    assert not database.exists()
    proof = CardProof(AT, present(card).revision, Compared(12, 2))
    proof_records.save(present(card), proof, database)
    phrase = f"Proved 2026-11-25 at {present(card).digest[:12]}, 12 values, 2 partly"
    assert said() == proof_records.phrase(proof) == phrase
    source = card / "src" / "token.c"
    before = source.read_text()
    source.write_text(f"{before}/* changed */\n")
    assert said() == NOT_PROVED
    source.write_text(before)
    assert said() == proof_records.phrase(proof)
    document = json.loads((card / "card_source.json").read_text())
    (card / "card_source.json").write_text(json.dumps(document | {"title": "Other"}))
    assert said() == NOT_PROVED


def test_a_change_of_card_or_sources_is_marked_and_no_other(card: Path, commit: str) -> None:
    unchanged = present(card)
    assert unchanged.revision == commit
    (card.parent / "report.xml").write_text("x")
    assert present(card) == unchanged
    for name in ("src/token.c", "card_source.json", "src/Makefile", "src/values.def", "src/lib/a.h"):
        file = card / name
        before = file.read_text() if file.exists() else None
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{before or ''}\n")
        changed = present(card)
        assert changed.revision == f"{commit}+", name
        assert changed.digest != unchanged.digest, name
        file.write_text(before) if before is not None else file.unlink()
        assert present(card) == unchanged
    (card / "src" / ".gitignore").write_text("*.o\n")
    before_object = present(card)
    (card / "src" / "token.o").write_text("x")
    assert present(card) == before_object, "what git ignores is no part of the state"


def test_links_and_pipes_are_not_followed(card: Path) -> None:
    os.mkfifo(card / "src" / "pipe")
    (card / "src" / "link").symlink_to("token.c")
    before = present(card).digest
    (card / "src" / "link").unlink()
    (card / "src" / "link").symlink_to("token.h")
    assert present(card).digest != before


def test_the_variables_of_a_git_hook_do_not_mislead(card: Path, commit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", str(ROOT / ".git"))
    assert present(card).revision == commit
