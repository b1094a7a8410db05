"""Every operation of the editor on a real Neovim: free, at a prompt, awaiting a key, busy, killed, started again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cardapp.errors import EditorBlocked, EditorUnavailable, InvalidValue, TooSlow
from cardapp.neovim import NeovimConnection
from cardapp.session_client.editor import Editor
from tests.functional.neovim_process import NeovimProcess, neovim_with_ui
from tests.functional.session_process import eventually

pytestmark = pytest.mark.functional

LINES = ["first", "zweite Zeile: größer", ""]
RESET = {"stop_id": "7", "debugger_restarted": False, "editor_restarted": False}
SIZES = {"host": {"cols": 80, "rows": 24}, "grid": {"cols": 80, "rows": 23}}
SCRIPT = ":while 1<Bar>endwhile<CR>"
PROMPT = ':echo "a\\nb\\nc"<CR>'
PATIENCE = 20.0


class Session:
    """The part of a session that the editor uses: Neovim's socket, and two tools that record their calls."""

    def __init__(self, neovim: NeovimProcess) -> None:
        self.neovim = neovim
        self.calls: list[Any] = []

    def locate(self) -> str:
        return self.neovim.path

    def reset(self) -> dict[str, Any]:
        self.calls.append("reset")
        return RESET

    def fit(self, cols: int | None, rows: int | None) -> dict[str, Any]:
        self.calls.append((cols, rows))
        return {**SIZES, "unasked": True}


@pytest.fixture
def session(state_dir: Path) -> Iterator[Session]:
    (state_dir / "text.txt").write_text("\n".join(LINES) + "\n")
    with neovim_with_ui(state_dir / "n.sock", "text.txt") as neovim:
        yield Session(neovim)


@pytest.fixture
def editor(session: Session) -> Iterator[Editor]:
    """It waits for an answer for half a second, as the service does."""
    editor = Editor(session.locate, session.reset, session.fit)
    yield editor
    editor.close()


@pytest.fixture
def patient(session: Session) -> Iterator[Editor]:
    """An editor for calls that are answered, also on a busy machine."""
    editor = Editor(session.locate, session.reset, session.fit, timeout=PATIENCE)
    yield editor
    editor.close()


@pytest.fixture
def nvim(session: Session) -> Iterator[NeovimConnection]:
    """A separate connection of the test to the same Neovim."""
    connection = NeovimConnection(session.neovim.path)
    yield connection
    connection.close()


def ask(nvim: NeovimConnection, expression: str) -> Any:
    return nvim.call("nvim_eval", expression, timeout=PATIENCE)


def bring_to(editor: Editor, keys: str, mode: str) -> None:
    """Type ``keys`` and wait until Neovim awaits a key in ``mode``."""
    editor.input(keys)
    eventually(lambda: (state := editor.state())["blocking"] and state["mode"] == mode)


def test_state_shows_buffer_window_cursor_mode_and_grid(
    session: Session, patient: Editor, nvim: NeovimConnection
) -> None:
    eventually(lambda: patient.state()["buffer"])  # null while Neovim is starting
    state = patient.state()
    assert state["buffer"].pop("name").endswith("/text.txt")
    window = state["window"].pop("id")
    assert window >= 1000
    assert state == {
        "available": True,
        "reason": None,
        "blocking": False,
        "buffer": {"number": 1, "line_count": 3, "modified": False, "filetype": ""},
        "window": {"width": 80, "height": 22},
        "cursor": {"row": 1, "column": 0},
        "mode": "n",
        "grid": {"cols": 80, "rows": 24},
        "terminal_attached": False,
    }
    assert patient.availability() == {"available": True, "reason": None}
    patient.input("ix")
    state = eventually(lambda: (seen := patient.state())["mode"] == "i" and seen)
    assert state["buffer"]["modified"] is True
    assert state["cursor"] == {"row": 1, "column": 1}
    nvim.call("nvim_command", 'execute "file a" .. "\\xff"', timeout=PATIENCE)
    assert patient.state()["buffer"]["name"].encode().endswith("/a\ufffd".encode())


def test_the_cursor_moves_within_the_buffer_only(patient: Editor, nvim: NeovimConnection) -> None:
    assert patient.set_cursor(2, 7)["cursor"] == {"row": 2, "column": 7}
    assert ask(nvim, "[line('.'), col('.')]") == [2, 8]
    # The last byte, the second byte of a character, and the column after the end, as Neovim shows them.
    length = len(LINES[1].encode())
    assert patient.set_cursor(2, length - 1)["cursor"]["column"] == length - 1
    inside = LINES[1].encode().index("ö".encode()) + 1
    assert patient.set_cursor(2, inside)["cursor"]["column"] == inside - 1
    assert patient.set_cursor(2, length)["cursor"]["column"] == length - 1
    assert patient.set_cursor(3, 0)["cursor"] == {"row": 3, "column": 0}
    before = patient.set_cursor(2, 3)
    for arguments, pointer, reason in [
        ((4, 0), "/row", "last row is 3"),
        ((1, 6), "/column", "5 bytes long"),
        ((3, 1), "/column", "0 bytes long"),
        ((1, 0, 999999), "/window", "no window 999999"),
    ]:
        with pytest.raises(InvalidValue, match=reason) as refused:
            patient.set_cursor(*arguments)
        assert [error.pointer for error in refused.value.errors] == [pointer]
    assert patient.state() == before


def test_another_windows_cursor_moves_without_the_focus(patient: Editor, nvim: NeovimConnection) -> None:
    other = patient.state()["window"]["id"]
    nvim.call("nvim_command", "new", timeout=PATIENCE)
    current = patient.state()
    answer = patient.set_cursor(2, 1, other)
    assert answer["window"]["id"] == other
    assert answer["buffer"]["name"].endswith("/text.txt")
    assert answer["cursor"] == {"row": 2, "column": 1}
    assert patient.state() == current
    assert current["window"]["id"] != other


def test_a_cursor_in_another_file_opens_it_beside_the_terminal(
    patient: Editor, nvim: NeovimConnection, state_dir: Path
) -> None:
    (state_dir / "other.txt").write_text("1\n2\n3\n4\n")
    nvim.call("nvim_command", "botright new | terminal", timeout=PATIENCE)
    terminal = ask(nvim, "win_getid()")
    for name, row in (("other.txt", 4), (str(state_dir / "text.txt"), 2), ("other.txt", 3)):
        answer = patient.set_cursor(row, 0, file=name)
        assert answer["buffer"]["name"] == str(state_dir / Path(name).name)
        assert (answer["cursor"]["row"], answer["buffer"]["line_count"]) == (row, 4 if "other" in name else 3)
        assert ask(nvim, "win_getid()") == terminal
    with pytest.raises(InvalidValue, match="no file 'none") as refused:
        patient.set_cursor(1, 0, file="none.txt")
    assert [error.pointer for error in refused.value.errors] == ["/file"]
    nvim.call("nvim_command", "only", timeout=PATIENCE)  # the terminal is the only window
    assert patient.set_cursor(1, 0, file="text.txt")["buffer"]["name"].endswith("/text.txt")
    assert ask(nvim, "win_getid()") == terminal


def test_input_types_keys_in_neovims_notation(patient: Editor, nvim: NeovimConnection) -> None:
    assert patient.input("ccö<LT>b>") == {"accepted": len("ccö<LT>b>".encode())}
    assert patient.input("<Esc>") == {"accepted": 5}
    assert eventually(lambda: ask(nvim, "mode()") == "n" and ask(nvim, "getline(1)")) == "ö<b>"
    assert patient.input("A" + "x" * 255) == {"accepted": 256}
    assert patient.input("\x00") == {"accepted": 1}


def test_input_reports_how_many_bytes_neovim_accepted(patient: Editor) -> None:
    patient.input(SCRIPT)  # keys stay in the queue, and none is read
    sent = [patient.input("€" * 256)["accepted"] for _ in range(40)]
    assert sent[0] == 768
    assert sent[-1] == 0
    assert 0 < sum(sent) < 40 * 768
    patient.input("<C-c>")


def test_a_neovim_that_awaits_a_key_refuses_the_cursor_and_takes_input(patient: Editor) -> None:
    for keys, mode in (("r", "R"), (PROMPT, "r"), (':call confirm("?")<CR>', "r?")):
        bring_to(patient, keys, mode)
        state = patient.state()
        assert state["available"] is True, mode
        assert "<C" in state["reason"], mode
        assert (state["buffer"], state["window"], state["cursor"], state["grid"]) == (None, None, None, None), mode
        assert patient.availability() == {"available": True, "reason": None}
        with pytest.raises(EditorBlocked):
            patient.set_cursor(1, 0)
        patient.input("<C-c>")
        assert eventually(lambda: patient.state()["cursor"]) == {"row": 1, "column": 0}, mode


def test_a_busy_script_is_seen_bounded_and_interrupted_by_input(editor: Editor, patient: Editor) -> None:
    patient.input(SCRIPT)
    state = editor.state()
    assert (state["available"], state["blocking"], state["mode"], state["buffer"]) == (True, True, None, None)
    assert "<C-c>" in state["reason"]
    assert patient.availability() == {"available": True, "reason": None}
    assert editor.free_prompt() is False
    with pytest.raises(TooSlow):
        editor.set_cursor(2, 0)
    assert editor.redraw() == SIZES
    assert patient.input("<C-c>") == {"accepted": 5}
    assert eventually(lambda: patient.state()["cursor"]) == {"row": 1, "column": 0}


class BlockedAfterMode(NeovimConnection):
    """Neovim begins to wait for a key after its mode was read, so the next call stays in its queue."""

    def mode(self, timeout: float) -> Any:
        answer = super().mode(timeout)
        with closing(NeovimConnection(self.socket_path)) as other:
            other.call("nvim_input", "r", timeout=PATIENCE)
            eventually(lambda: other.mode(PATIENCE).blocking)
        return answer


def test_a_late_cursor_request_moves_nothing(session: Session, nvim: NeovimConnection) -> None:
    with (
        closing(Editor(session.locate, session.reset, session.fit, connect=BlockedAfterMode)) as editor,
        pytest.raises(TooSlow),
    ):
        editor.set_cursor(2, 0)
    nvim.call("nvim_input", "<Esc>", timeout=PATIENCE)
    assert ask(nvim, "line('.')") == 1


def test_a_loop_in_lua_makes_everything_too_slow_and_nothing_hang(editor: Editor, patient: Editor) -> None:
    patient.input(":lua while true do end<CR>")
    eventually(lambda: not editor.availability()["available"])
    assert editor.state()["available"] is False
    for operation in (lambda: editor.set_cursor(1, 0), lambda: editor.input("x"), editor.redraw):
        with pytest.raises(TooSlow, match="bin/card-session reset"):
            operation()
    assert editor.reset() == RESET


def test_input_that_was_refused_is_never_typed(
    editor: Editor, patient: Editor, nvim: NeovimConnection, state_dir: Path
) -> None:
    patient.input(":lua while not vim.loop.fs_stat('go') do end<CR>")
    eventually(lambda: not editor.availability()["available"])
    with pytest.raises(TooSlow):
        editor.input("ix<Esc>")
    (state_dir / "go").touch()
    eventually(lambda: patient.availability()["available"])
    assert patient.input("A!<Esc>") == {"accepted": 7}
    assert eventually(lambda: ask(nvim, "mode()") == "n" and ask(nvim, "&modified")) == 1
    assert ask(nvim, "getline(1)") == "first!"


def test_a_hit_enter_prompt_is_freed(patient: Editor, nvim: NeovimConnection) -> None:
    assert patient.free_prompt() is False
    bring_to(patient, PROMPT, "r")
    assert patient.free_prompt() is True
    assert patient.state()["cursor"] == {"row": 1, "column": 0}  # the key went to the prompt and nowhere else
    assert patient.free_prompt() is False
    # A prompt behind the prompt is freed, too.
    nvim.call("nvim_command", 'autocmd ModeChanged *:n ++once let g:second = 1 | echo "x\\ny\\nz"', timeout=PATIENCE)
    bring_to(patient, PROMPT, "r")
    assert patient.free_prompt() is True
    assert ask(nvim, "g:second") == 1


def test_a_prompt_that_needs_a_decision_is_kept(patient: Editor) -> None:
    bring_to(patient, ':call confirm("delete?", "&yes\\n&no")<CR>', "r?")
    assert patient.free_prompt() is False
    assert patient.state()["mode"] == "r?"
    patient.input("<Esc>")
    eventually(lambda: patient.state()["mode"] == "n")
    patient.input(":abc")
    eventually(lambda: patient.state()["mode"] == "c")
    assert patient.free_prompt() is False
    assert patient.state()["mode"] == "c"


def test_reset_calls_the_session_after_freeing_a_prompt(session: Session, patient: Editor) -> None:
    bring_to(patient, PROMPT, "r")
    assert patient.reset() == RESET
    assert session.calls == ["reset"]
    assert patient.state()["blocking"] is False


def test_redraw_fits_then_draws_every_row(session: Session, patient: Editor) -> None:
    clears = threading.Event()

    def note_clear(_name: str, arguments: list[Any]) -> None:
        if any(update[0] == "grid_clear" for update in arguments):
            clears.set()

    screen = NeovimConnection(session.neovim.path, note_clear)
    screen.call("nvim_ui_attach", 80, 24, {"ext_linegrid": True}, timeout=PATIENCE)
    eventually(clears.is_set)
    clears.clear()
    assert patient.redraw(100, 30) == SIZES
    assert session.calls == [(100, 30)]
    assert clears.wait(10)
    screen.close()


def test_redraw_works_while_a_key_is_awaited(session: Session, editor: Editor, patient: Editor) -> None:
    for keys, mode, free in ((PROMPT, "r", True), ("r", "R", False)):
        bring_to(patient, keys, mode)
        assert editor.redraw() == SIZES
        assert session.calls.pop() == (None, None)
        assert patient.state()["blocking"] is not free, mode
    patient.input("<Esc>")


def test_a_killed_neovim_is_unavailable_until_it_is_started_again_at_the_same_path(
    session: Session, patient: Editor
) -> None:
    assert patient.state()["available"] is True
    for _ in range(3):
        session.neovim.kill()
        # The answer is the same in both orders: the connection ends first, or a new connection is refused first.
        assert patient.state()["available"] is False
        assert "bin/card-session reset" in patient.availability()["reason"]
        for operation in (lambda: patient.set_cursor(1, 0), lambda: patient.input("x"), patient.redraw):
            with pytest.raises(EditorUnavailable, match="bin/card-session reset"):
                operation()
        session.neovim.start()
        assert patient.state()["available"] is True
        assert patient.set_cursor(2, 1)["cursor"] == {"row": 2, "column": 1}
