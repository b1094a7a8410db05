"""The commands of the editor's plugin in a session's own Neovim, with the real service and the real program."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cardapp.neovim import NeovimConnection
from tests.functional.neovim_process import neovim_with_ui
from tests.functional.serving import RELEASE, Stage, make_card, position, running_stage, until
from tests.functional.test_keys import LOAD, ask, lua, press, screen

pytestmark = [pytest.mark.functional]

SLOW = "t1/b1/p1/slow/only"
TEXT = f"{'A paragraph with many words. ' * 10}\n\n- the *first*\n- the `second`"
NUMBERED = ["Probe", "1 Task", "1.1 Block", "1.1.1 Phase", "1.1.1.2 Step slow"]
FLOATING = """
for _, window in ipairs(vim.api.nvim_list_wins()) do
  if vim.api.nvim_win_get_config(window).relative ~= '' then
    return vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, false)
  end
end
return {}
"""


def card(folder: Path) -> Path:
    """The program sleeps before its slow step, until ``Stage.release``."""
    source = make_card(folder, slow=6000) / "card_source.json"
    document = json.loads(source.read_text())
    document["tasks"][0]["blocks"][0]["phases"][0]["steps"][1] |= {"text": TEXT, "question": "What is *n*?"}
    source.write_text(json.dumps(document))
    return folder


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with running_stage(card, CARD_REPLAY_TIMEOUT="55") as stage:
        yield stage


@pytest.fixture
def nvim(stage: Stage) -> Iterator[NeovimConnection]:
    """The session's Neovim, with the position at the slow step and no list open."""
    stage.tcp.put("/api/navigation/current", position("slow"))
    connection = NeovimConnection(str(stage.state / "sessions" / "s" / "run" / "nvim.sock"))
    try:
        until(lambda: lua(connection, "return #require('card.keys').status() > 0"))
        press(connection, "<C-\\><C-n>")
        yield connection
        assert connection.mode(20).blocking is False
        assert "Error" not in ask(connection, "execute('messages')")
    finally:
        connection.close()


def says(nvim: NeovimConnection, text: str) -> None:
    until(lambda: text in screen(nvim))


def listed(nvim: NeovimConnection) -> list[str]:
    """Wait for a list, close it and return its lines."""
    lines: list[str] = until(lambda: lua(nvim, FLOATING))
    press(nvim, "q")
    until(lambda: not lua(nvim, FLOATING))
    return lines


def key_of(stage: Stage) -> str:
    key: str = stage.tcp.get("/api/navigation/current")["key"]
    return key


def test_f2_leaves_the_editor_free_and_a_second_one_supersedes(stage: Stage, nvim: NeovimConnection) -> None:
    press(nvim, "<F2>")
    says(nvim, "sync: replaying … (:CardCancel ends it)")
    press(nvim, ":let g:typed = 'while it replays'<CR>")
    until(lambda: ask(nvim, "get(g:, 'typed', '')") == "while it replays")
    first = stage.tcp.get("/api/checkpoint/status")["active"]
    assert first["state"] == "running"
    press(nvim, "<F2>")
    until(lambda: stage.tcp.get("/api/checkpoint/status")["generation"] > first["generation"])
    stage.running(SLOW)
    stage.release()
    says(nvim, "sync: ready at main.c:")
    cancelled = stage.tcp.get("/api/events?kind=checkpoint.cancelled&limit=1000")["events"][-1]
    assert (cancelled["data"]["operation_id"], cancelled["data"]["code"]) == (first["operation_id"], "superseded")
    control = stage.tcp.get("/api/control/state")
    assert (control["sync"], control["key"], control["at_position"]) == ("on", SLOW, True)


def test_the_cancel_command_ends_the_replay(stage: Stage, nvim: NeovimConnection) -> None:
    stage.tcp.post("/api/editor/reset")
    (stage.sessions.session().work / "probe" / RELEASE).unlink(missing_ok=True)
    press(nvim, ":CardCancel<CR>")
    says(nvim, "cancel: no replay runs")
    press(nvim, ":CardSync<CR>")
    says(nvim, "sync: replaying")
    press(nvim, ":CardCancel<CR>")
    until(lambda: stage.tcp.get("/api/checkpoint/status")["active"] is None)
    last = stage.tcp.get("/api/checkpoint/status")["last"]
    assert (last["state"], last["code"]) == ("cancelled", "cancelled_by_request")
    until(lambda: "cancel: done" in screen(nvim) or "sync: the replay was cancelled" in screen(nvim))


def test_the_position_is_shown_with_numbers_and_sync(stage: Stage, nvim: NeovimConnection) -> None:
    stage.tcp.put("/api/navigation/current", position("quick", "second"))
    assert stage.tcp.post("/api/navigation/sync").status == 200
    press(nvim, ":CardPosition<CR>")
    head, blank, *titles = listed(nvim)
    assert (head, blank) == ("t1/b1/p1/quick/second: SYNC ON, at this position", "")
    assert titles == [*NUMBERED[:4], "1.1.1.1 Step quick", "1.1.1.1.2 At /* again */"]
    stage.tcp.put("/api/navigation/current", position("slow"))
    press(nvim, ":CardPosition<CR>")
    assert listed(nvim) == ["t1/b1/p1/slow: SYNC ON, at t1/b1/p1/quick/second", "", *NUMBERED]
    stage.tcp.post("/api/editor/reset")
    stage.tcp.put("/api/navigation/current", {"focus_level": "card"})
    press(nvim, ":CardPosition<CR>")
    assert listed(nvim) == ["the whole card: SYNC OFF, target reset", "", "Probe"]


def test_the_move_command_changes_the_position(stage: Stage, nvim: NeovimConnection) -> None:
    generation = stage.tcp.get("/api/checkpoint/status")["generation"]
    for typed, key, answer in (
        ("CardGo t1/b1/p1/quick", "t1/b1/p1/quick", "go: t1/b1/p1/quick"),
        ("CardGo t1/b1/p1/quick/second", "t1/b1/p1/quick/second", "go: t1/b1/p1/quick/second"),
        ("CardGo t1/b<Tab>", "t1/b1", "go: t1/b1"),
        ("CardGo", "", "go: the whole card"),
        ("CardMove -1", "t1/b1/p1/quick", "move: t1/b1/p1/quick"),
        ("CardMove snapshot +1", SLOW, f"move: {SLOW}"),
        ("CardMove step -9", "t1/b1/p1/quick", "move: t1/b1/p1/quick (the first)"),
    ):
        if typed.startswith("CardMove"):
            stage.tcp.put("/api/navigation/current", position("slow"))
        press(nvim, f":{typed}<CR>")
        until(lambda key=key: key_of(stage) == key)
        says(nvim, f"card: {answer}")
    assert stage.tcp.get("/api/checkpoint/status")["generation"] == generation  # moving starts no replay


def test_a_refusal_is_one_sentence(stage: Stage, nvim: NeovimConnection) -> None:
    for typed, answer in (
        ("CardGo t1/none", "go: /block_id"),
        ("CardGo a/b/c/d/e/f", "go: a/b/c/d/e/f has too many parts"),
        ("CardMove", "E471"),
        ("CardMove chapter 1", "move: the body, /level"),
        ("CardMove step", "move: give a level"),
        ("CardMove 99999", "move: the body, /delta"),
    ):
        lua(nvim, "vim.cmd('redraw | echo')")  # the answer to the command before is gone
        press(nvim, f":{typed}<CR>")
        says(nvim, answer)
        assert key_of(stage) == "t1/b1/p1/slow", typed
    lua(nvim, "vim.cmd('messages clear')")


def test_the_progress_is_listed_and_set(stage: Stage, nvim: NeovimConnection) -> None:
    assert stage.tcp.post("/api/checkpoint/activate", stage.activation("t1/b1/p1/drifted/only")).status == 409
    stage.tcp.put("/api/navigation/current", position("quick"))
    assert stage.tcp.post("/api/navigation/sync").status == 200
    press(nvim, ":CardApprove seen <lt>b>and<lt>/b> | understood<CR>")
    says(nvim, "approve: t1/b1/p1/quick is approved")
    item = stage.tcp.get("/api/progress")["items"][0]
    assert (item["status"], item["note"], item["actor"]) == ("approved", "seen <b>and</b> | understood", "editor")
    press(nvim, ":CardProgress<CR>")
    lines = until(lambda: lua(nvim, FLOATING))
    assert lines[0].startswith("1 of 4 steps approved; ")
    assert lines[1] == "✓ 1.1.1.1 Step quick: seen <b>and</b> | understood"
    assert lines[3:] == ["· 1.1.1.3 Step drifted (last replay: failed)", "· 1.1.1.4 Step beyond"]
    assert ask(nvim, "line('.')") == 2
    says(nvim, "q closes the list, <CR> goes to the step")
    press(nvim, "j<CR>")
    says(nvim, "go: t1/b1/p1/slow")
    assert (key_of(stage), lua(nvim, FLOATING)) == ("t1/b1/p1/slow", [])
    stage.tcp.put("/api/navigation/current", position("quick", "first"))
    press(nvim, ":CardPending<CR>")
    says(nvim, "pending: t1/b1/p1/quick is pending")
    item = stage.tcp.get("/api/progress")["items"][0]
    assert (item["status"], item["note"]) == ("pending", "seen <b>and</b> | understood")
    stage.tcp.put("/api/navigation/current", {"focus_level": "card"})
    press(nvim, ":CardApprove<CR>")
    says(nvim, "approve: the position is not at a step")


def test_the_text_and_the_question_of_the_step_are_shown_and_wrapped(stage: Stage, nvim: NeovimConnection) -> None:
    window = "vim.api.nvim_get_current_win()"
    before = lua(nvim, f"return {window}")
    press(nvim, ":CardText<CR>")
    until(lambda: lua(nvim, FLOATING))
    terminal = stage.sessions.session().screen  # Neovim 0.7 cannot report the screen content of such a window
    until(lambda: "A paragraph" in terminal() and "What is *n*?" in terminal())
    options = lua(nvim, f"return {{ vim.wo[{window}].wrap, vim.wo[{window}].linebreak, vim.bo.modifiable }}")
    assert options == [True, True, False]
    assert listed(nvim) == ["# 1.1.1.2 Step slow", "", *TEXT.splitlines(), "", "## Question", "", "What is *n*?"]
    assert lua(nvim, f"return {window}") == before
    stage.tcp.put("/api/navigation/current", position("quick", "second"))
    press(nvim, ":CardText<CR>")
    assert listed(nvim) == ["# 1.1.1.1 Step quick"]
    stage.tcp.put("/api/navigation/current", {"focus_level": "card"})
    press(nvim, ":CardText<CR>")
    says(nvim, "text: the position is not at a step")


def test_a_strategy_is_listed_and_run_at_its_stop(stage: Stage, nvim: NeovimConnection) -> None:
    press(nvim, ":CardStrategy<CR>")
    says(nvim, "this card has no strategies; :CardStrategy add")
    body = {
        "key": "t1/b1/p1/quick/second",
        "label": "Look\u00e9",
        "commands": ["print n", "next"],
        "expected_observations": ["3", None],
    }
    identifier = stage.tcp.post("/api/strategies", body).json["id"]
    press(nvim, ":CardStrategy<CR>")
    assert until(lambda: lua(nvim, FLOATING)) == [f"{identifier} Look\u00e9, at 1.1.1.1 Step quick: print n · next"]
    press(nvim, "<CR>")
    until(lambda: lua(nvim, FLOATING)[:1] == [f"The strategy {identifier}"], 30)
    lines = listed(nvim)
    assert lines[2] == "✗ print n"
    assert lines[3].endswith("= 2")
    assert lines[4:6] == ["    expected: 3", "  next"]
    assert lines[6].startswith("    #0  main () at main.c:")
    assert stage.tcp.get("/api/control/state")["reason"] == "target_ran_on"
    press(nvim, f":CardStrategy remove {identifier}<CR>")
    says(nvim, f"strategy: {identifier} is removed")
    press(nvim, ":CardStrategy s999<CR>")
    says(nvim, "strategy: this card has no strategy s999")
    press(nvim, ":CardStrategy ../x<CR>")
    says(nvim, "../x is no id of a strategy")
    press(nvim, ":CardStrategy add Who calls | backtrace | print n<CR>")
    says(nvim, "is added at 1.1.1")
    added = stage.tcp.get("/api/strategies")["strategies"][-1]
    assert (added["label"], added["commands"]) == ("Who calls", ["backtrace", "print n"])
    press(nvim, ":CardStrategy add Who calls<CR>")
    says(nvim, "give a label and gdb commands")


def test_annotations_are_listed_shown_and_hidden(stage: Stage, nvim: NeovimConnection) -> None:
    body = {
        "key": SLOW,
        "target": {"part": "t1/b1/p1/slow:step_title", "x": 0, "y": 0, "w": 1, "h": 1},
        "geometry": {"points": [[0, 0], [1, 1]]},
        "style": {"kind": "box"},
    }
    first, second = (stage.tcp.post("/api/annotations", body | {"text": text}).json["id"] for text in ("one", ""))

    def visible() -> list[bool]:
        return [each["visible"] for each in stage.tcp.get("/api/annotations")["annotations"]]

    press(nvim, f":CardAnnotations hide {first}<CR>")
    says(nvim, "annotations: 0 of 1 shown")
    press(nvim, ":CardAnnotations<CR>")
    assert until(lambda: lua(nvim, FLOATING)) == [
        f"· {first} box, at 1.1.1.2 Step slow: one",
        f"✓ {second} box, at 1.1.1.2 Step slow",
    ]
    press(nvim, "<CR>")  # toggles the first annotation
    until(lambda: visible() == [True, True])
    press(nvim, ":CardAnnotations toggle<CR>")
    says(nvim, "annotations: 0 of 2 shown")
    assert visible() == [False, False]
    press(nvim, f":CardAnnotations remove {second}<CR>")
    says(nvim, f"annotations: {second} is removed")
    press(nvim, ":CardAnnotations add Look at n<CR>")
    says(nvim, "is added at 1.1.1")
    texts = [each["text"] for each in stage.tcp.get("/api/annotations")["annotations"]]
    assert texts == ["one", "Look at n"]
    press(nvim, ":CardAnnotations away<CR>")
    says(nvim, "annotations: give show, hide, toggle")
    assert ask(nvim, "getcompletion('CardAnnotations h', 'cmdline')") == ["hide"]


def test_every_command_is_in_the_list(nvim: NeovimConnection) -> None:
    press(nvim, ":CardHelp<CR>")
    named = {line.split()[0].lstrip(":") for line in listed(nvim)[2:]}
    assert named == set(ask(nvim, "getcompletion('Card', 'command')"))


def test_without_the_service_every_command_says_what_to_do(state_dir: Path) -> None:
    environment = {"CARD_API_SOCKET": str(state_dir / "api.sock")}
    with neovim_with_ui(state_dir / "n", *LOAD, environment=environment) as neovim:
        nvim = NeovimConnection(neovim.path)
        answer = "request failed (ENOENT): start bin/cardapp serve"
        for name in ("Position", "Text", "Go t1", "Move 1", "Sync", "Cancel", "Progress", "Approve", "Pending",
                     "Strategy s1", "Annotations hide a1"):  # fmt: skip
            press(nvim, f":Card{name}<CR>")
            says(nvim, f"card: {name.split()[0].lower()}: {answer}")
        assert ask(nvim, "getcompletion('CardGo t', 'cmdline')") == []
        assert ask(nvim, "execute('messages')").strip() == ""
        nvim.close()
