from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cardapp.card.model import Identity
from cardapp.errors import InvalidValue, NotFound, StateError
from cardapp.state import events, evidence
from cardapp.state.database import Database
from tests.functional.serving import picture

Add = Callable[..., dict[str, Any]]
AT = "2025-03-01T10:00:00.000Z"
CARD = Identity("arena", "u-1", "1.0.0", "ab" * 32)


def png(shade: int = 0) -> bytes:
    return picture(shade)


@pytest.fixture
def root(state_dir: Path) -> Path:
    return state_dir / "evidence"


def pin(db: Database, stored: evidence.Stored, event_seq: int | None, caption: str = "") -> dict[str, Any]:
    with db.write() as conn:
        return events.pin(conn, stored, event_seq=event_seq, caption=caption, actor="me", key="t1", card=CARD, at=AT)


# -- files ---------------------------------------------------------------------------------------------------------


def test_an_image_is_named_by_its_hash_and_private(root: Path) -> None:
    stored = evidence.store(root, png())
    digest = hashlib.sha256(png()).hexdigest()
    assert stored == evidence.Stored(f"{digest}.png", "image/png", len(png()), 1, 1)
    assert stored.sha256 == digest
    assert evidence.media_type(stored.name) == "image/png"
    assert evidence.load(root, stored.name) == png() == evidence.path(root, stored.name).read_bytes()
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    assert stat.S_IMODE((root / stored.name).stat().st_mode) == 0o600


def test_the_same_image_is_stored_once_and_replaces_a_damaged_file(root: Path) -> None:
    stored = evidence.store(root, png())
    before = (root / stored.name).stat().st_ino
    assert evidence.store(root, png()) == stored
    assert (root / stored.name).stat().st_ino == before
    (root / stored.name).write_bytes(b"half")
    evidence.store(root, png())
    assert evidence.load(root, stored.name) == png()
    assert [file.name for file in root.iterdir()] == [stored.name]


def test_a_name_that_is_no_stored_image_is_not_found(root: Path) -> None:
    evidence.store(root, png())
    digest = "ab" * 32
    for name in (
        "", ".", "..", "../card-state", "/etc/passwd", "a.png", digest, f"{digest}.svg", f"{digest}.png/",
        f"{digest}.png\n", f"{digest.upper()}.png", f"../evidence/{digest}.png", f"{digest[2:]}..png", "x\0y",
        f"{digest}.png",
    ):  # fmt: skip
        for ask in (evidence.path, evidence.load):
            with pytest.raises(NotFound):
                pytest.fail(f"{name!r} is {ask(root, name)!r}")


def test_symlinks_are_not_followed(root: Path, state_dir: Path) -> None:
    name = evidence.store(root, png()).name
    secret = state_dir / "secret"
    secret.write_bytes(b"secret")
    (root / name).unlink()
    (root / name).symlink_to(secret)
    with pytest.raises(NotFound):
        evidence.load(root, name)
    evidence.store(root, png())
    assert secret.read_bytes() == b"secret"
    assert evidence.load(root, name) == png()

    linked = state_dir / "linked"
    linked.symlink_to(root)
    with pytest.raises(NotFound):
        evidence.path(linked, name)
    with pytest.raises(StateError) as refused:
        evidence.store(linked, png(1))
    assert refused.value.code == "state_symlink"


def test_a_failed_write_leaves_no_partial_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    root.mkdir()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StateError) as refused:
        evidence.store(root, png())
    assert refused.value.code == "state_disk_full"
    assert list(root.iterdir()) == []


def test_the_file_is_synced_before_it_gets_its_name_and_the_directory_after(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def watched_fsync(descriptor: int) -> None:
        done.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def watched_replace(source: Path, target: Path) -> None:
        done.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    evidence.store(root, png())
    assert done == ["directory", "file", "rename", "directory"]
    evidence.store(root, png(1))
    assert done[4:] == ["file", "rename", "directory"]


def test_a_sweep_removes_only_temporary_files(root: Path, db: Database) -> None:
    pinned, unpinned, lost = (evidence.store(root, png(shade)) for shade in (1, 2, 3))
    for stored in (pinned, lost):
        pin(db, stored, None)
    (root / lost.name).unlink()
    (root / ".0123456789abcdef.part").write_bytes(b"half a pic")
    (root / "notes.txt").write_text("mine")
    with db.read() as conn:
        assert evidence.sweep(root, conn) == [lost.name]
    assert {file.name for file in root.iterdir()} == {pinned.name, unpinned.name, "notes.txt"}


# -- rows ----------------------------------------------------------------------------------------------------------


def test_a_pinned_image_is_shown_with_its_event_and_does_not_change_the_hash(
    root: Path, db: Database, add: Add
) -> None:
    event = add()
    added = pin(db, evidence.store(root, png()), event["seq"], "the arena, full")
    assert added["kind"] == "evidence.added"
    assert added["evidence"] == []
    assert added["data"] == {
        "name": evidence.store(root, png()).name,
        "sha256": hashlib.sha256(png()).hexdigest(),
        "event_seq": event["seq"],
        "caption": "the arena, full",
    }
    with db.read() as conn:
        shown, _ = events.page(conn)
    assert shown["hash"] == event["hash"]
    assert shown["evidence"] == [
        {
            "seq": added["seq"], "withdrawn": False, "name": added["data"]["name"], "media_type": "image/png",
            "size": len(png()), "width": 1, "height": 1, "caption": "the arena, full", "at": AT,
        }
    ]  # fmt: skip


def test_without_event_seq_an_image_is_pinned_to_its_own_event(root: Path, db: Database, add: Add) -> None:
    add()
    added = pin(db, evidence.store(root, png()), None, "here")
    assert added["data"]["event_seq"] is None
    assert [picture["caption"] for picture in added["evidence"]] == ["here"]
    with db.read() as conn:
        assert events.page(conn, after=1) == [added]


def test_an_image_cannot_be_pinned_to_a_missing_event(root: Path, db: Database, add: Add) -> None:
    add()
    for seq in (0, -1, 2, 99):
        with pytest.raises(InvalidValue) as refused:
            pin(db, evidence.store(root, png()), seq)
        assert refused.value.errors[0].pointer == "/event_seq", seq
    with db.read() as conn:
        assert events.head(conn).seq == 1


def test_verifying_finds_a_changed_row(root: Path, db: Database, add: Add) -> None:
    add()
    for shade in (1, 2):
        pin(db, evidence.store(root, png(shade)), 1, str(shade))
    assert events.verify_file(db.path, evidence_root=root).intact
    for change, seq in (
        ("UPDATE evidence SET caption = 'something else' WHERE seq = 2", 2),
        ("UPDATE evidence SET event_seq = 3 WHERE seq = 2", 2),
        ("UPDATE evidence SET name = (SELECT name FROM evidence WHERE seq = 3) WHERE seq = 2", 2),
        ("DELETE FROM evidence WHERE seq = 2", 2),
        ("INSERT INTO evidence SELECT 1, 1, name, media_type, 1, 1, 1, 'x', at FROM evidence WHERE seq = 2", 1),
    ):
        with db.write() as conn:
            conn.execute("SAVEPOINT change")
            conn.execute(change)
            assert events.verify(conn).broken_seq == seq, change
            conn.execute("ROLLBACK TO change")
    assert events.verify_file(db.path).intact


def test_verifying_finds_a_changed_or_missing_image(root: Path, db: Database) -> None:
    name = evidence.store(root, png()).name
    pin(db, evidence.store(root, png()), None)
    (root / name).write_bytes(png(1))
    assert events.verify_file(db.path).intact
    changed = events.verify_file(db.path, evidence_root=root)
    assert changed.broken_seq == 1
    assert name in str(changed.reason)
    (root / name).unlink()
    assert events.verify_file(db.path, evidence_root=root).broken_seq == 1
