"""Secret files: a file is trusted only if nobody but its owner may write to it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from marketdata import secretfile
from marketdata.errors import MissingRequirement, StateError, UsageError

TOKEN = {"token": "md_secret", "scope": "read", "name": "me"}


def test_a_written_file_is_private_and_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "read.json"
    secretfile.write(path, {"old": True})
    secretfile.write(path, TOKEN)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    warnings: list[str] = []
    found = secretfile.read_token(path, scope="read", warn=warnings.append)
    assert (found.token, found.scope, found.name, warnings) == ("md_secret", "read", "me", [])
    assert "md_secret" not in repr(found)
    assert list(tmp_path.iterdir()) == [path]


def test_one_that_others_may_write_is_refused_and_read_is_warned_about(tmp_path: Path) -> None:
    path = tmp_path / "read.json"
    secretfile.write(path, TOKEN)
    for mode in (0o620, 0o602, 0o666):
        path.chmod(mode)
        with pytest.raises(StateError, match=f"mode {mode:04o}") as caught:
            secretfile.read(path)
        assert caught.value.code == "secret_writable"
    for mode in (0o640, 0o444):
        path.chmod(mode)
        warnings: list[str] = []
        assert secretfile.read(path, warn=warnings.append) == TOKEN
        assert warnings == [f"{path} is readable by group or others (mode {mode:04o}): chmod 600 {path}"]


def test_a_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    """They could replace a file whose mode is right."""
    folder = tmp_path / "secrets"
    folder.mkdir()
    secretfile.write(folder / "read.json", TOKEN)
    for mode in (0o770, 0o707, 0o1777):
        folder.chmod(mode)
        with pytest.raises(StateError, match=f"{folder} is writable by group or others .mode {mode:04o}.") as caught:
            secretfile.read(folder / "read.json")
        assert caught.value.code == "secret_writable"
    folder.chmod(0o755)
    assert secretfile.read(folder / "read.json") == TOKEN


def test_a_named_pipe_is_refused_without_waiting_for_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "read.json"
    os.mkfifo(path, 0o600)
    with pytest.raises(StateError, match=f"{path} is not a regular file"):
        secretfile.read(path)


def test_one_of_another_form_is_refused_without_its_content(tmp_path: Path) -> None:
    for content in ("md_secret", '["md_secret"]', '{"token": "md_secret"', "\xff"):
        path = tmp_path / "read.json"
        secretfile.write(path, {})
        path.write_bytes(content.encode("latin-1"))
        with pytest.raises(StateError) as caught:
            secretfile.read(path)
        assert "md_secret" not in caught.value.detail


def test_a_token_file_must_hold_a_token_of_the_scope_that_a_header_can_hold(tmp_path: Path) -> None:
    path = tmp_path / "read.json"
    unfit = [{"token": text} for text in ("md_secret\n", "md_secret ", "md_secreté", "md_secret\u20ac")]
    for change in ({"scope": "write"}, {"token": ""}, {"name": None}, {"token": 5}, *unfit):
        secretfile.write(path, TOKEN | change)
        words = r"read\.json: the token has characters" if change in unfit else r"read\.json"
        with pytest.raises(StateError, match=words) as caught:
            secretfile.read_token(path, scope="read")
        assert "md_secret" not in caught.value.detail


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingRequirement, match=r"rpc\.json does not exist"):
        secretfile.read(tmp_path / "rpc.json")
    with pytest.raises(StateError, match="cannot be read"):
        secretfile.read(tmp_path)


def test_a_file_is_renewed_only_when_the_block_ends_well(tmp_path: Path) -> None:
    path = tmp_path / "read.json"
    secretfile.write(path, {"old": True})
    with pytest.raises(ZeroDivisionError), secretfile.replaced(path, secretfile.encoded(TOKEN)):
        raise ZeroDivisionError
    assert secretfile.read(path) == {"old": True}
    with secretfile.replaced(path, secretfile.encoded(TOKEN)):
        assert secretfile.read(path) == {"old": True}
    assert secretfile.read(path) == TOKEN
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_stops_the_block_before_it_begins(tmp_path: Path) -> None:
    begun = secretfile.replaced(tmp_path / "none" / "read.json", "{}")
    with pytest.raises(StateError, match=r"read\.json cannot be written"):
        begun.__enter__()


def test_a_reserved_file_is_private_and_goes_when_it_stays_empty(tmp_path: Path) -> None:
    path = tmp_path / "read.json"
    with secretfile.reserved(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.exists()
    with secretfile.reserved(path):
        secretfile.write(path, TOKEN)
    assert secretfile.read(path) == TOKEN
    with pytest.raises(UsageError, match=r"read\.json cannot be created: No such file"):
        secretfile.reserved(tmp_path / "none" / "read.json").__enter__()


def test_a_changed_file_is_read_again_within_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(secretfile, "monotonic", lambda: now[0])
    looks: list[Path] = []

    def load(path: Path) -> dict[str, object]:
        looks.append(path)
        return secretfile.read(path)

    path = tmp_path / "read.json"
    secretfile.write(path, {"n": 1})
    file = secretfile.ReloadingFile(path, load)
    assert [file(), file()] == [{"n": 1}] * 2
    secretfile.write(path, {"n": 2})
    now[0] += 2 * secretfile.CHECK_SECONDS
    assert [file(), file()] == [{"n": 2}] * 2
    assert len(looks) == 2
    path.unlink()
    now[0] += 2 * secretfile.CHECK_SECONDS
    for _ in range(2):
        with pytest.raises(MissingRequirement):
            file()
