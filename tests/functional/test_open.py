"""The real ``bin/cardapp open`` shows the page of a card in any folder. Whatever ends it, nothing remains."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.functional.command_line import cardapp
from tests.functional.program_cards import ProgramCard
from tests.functional.serving import Api
from tests.functional.session_process import SessionTool, eventually

ROOT = Path(__file__).resolve().parents[2]
EVIL = "<img src=x onerror=alert(1)>"
COMMAND = str(ROOT / "bin" / "cardapp")
READY = "Ctrl-C here ends what was started.\n"

pytestmark = pytest.mark.functional


def make_card(folder: Path, identifier: str, value: int) -> ProgramCard:
    """A card on a program that stops where ``n`` is ``value``."""
    source = f"int main(void)\n{{\n    int n = {value};\n    return n != {value}; /* here */\n}}\n"
    card = ProgramCard(folder, "prog: a.c\n\tgcc -g -O0 -o $@ a.c\n", {"a.c": source})
    card.document.update(id=identifier, title=f"The card {identifier}")
    snapshot = card.document["tasks"][0]["blocks"][0]["phases"][0]["steps"][0]["snapshots"][0]
    snapshot.update(stop=card.at("/* here */", "a.c"), expect={"n": value})
    card.write()
    return card


@pytest.fixture
def card(tmp_path: Path) -> ProgramCard:
    return make_card(tmp_path / "one", "one", 1)


@contextmanager
def opened(environment: dict[str, str], *cards: ProgramCard) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command in a separate process group, as in a terminal, and its output until it was ready."""
    command = [COMMAND, "open", *(str(card.folder) for card in cards)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    try:
        printed = ""
        while not printed.endswith(READY) and (line := process.stdout.readline()):
            printed += line
        yield process, printed
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=60)


def address_of(printed: str) -> str:
    return f"http://127.0.0.1:{printed.partition('Open in a browser: http://127.0.0.1:')[2].split()[0]}"


def choose_in_the_menu(page: Page, title: str) -> None:
    page.locator("#menu").click()
    page.locator("#cards").get_by_role("button", name=title, exact=True).click()


def api_of(printed: str) -> Api:
    return Api.tcp(int(printed.partition("Open in a browser: http://127.0.0.1:")[2].split()[0]))


def prove(api: Api) -> Any:
    """Bring the program to the first step, and return the observed values."""
    assert api.post("/api/navigation/move", {"level": "step", "delta": 1}).status == 200
    synced = api.post("/api/navigation/sync", {})
    assert synced.status == 200, synced.json
    (value,) = [each["actual"] for each in api.get("/api/checkpoint/status")["last"]["observed"]["checks"]
                if each["name"] == "n"]  # fmt: skip
    return value


def left_over(environment: dict[str, str]) -> dict[int, str]:
    """The command lines of all processes that were started with this state directory, or run a program below it."""
    state = environment["CARD_STATE_DIR"]
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            marked = f"CARD_STATE_DIR={state}".encode() in (place / "environ").read_bytes().split(b"\0")
            if marked or os.readlink(place / "exe").startswith(f"{state}/"):
                found[int(place.name)] = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # it ended meanwhile, or belongs to another account
    return {pid: command for pid, command in found.items() if command}  # a zombie has no command line


def assert_nothing_left(environment: dict[str, str]) -> None:
    assert left_over(environment) == {}
    assert list(Path(environment["CARD_STATE_DIR"]).rglob("*.sock")) == []


def test_a_card_anywhere_has_a_page_and_a_session_until_a_signal(
    card: ProgramCard, card_environment: dict[str, str]
) -> None:
    with opened(card_environment, card) as (process, printed):
        api = api_of(printed)
        assert api.get("/api/identity")["id"] == "one"
        assert prove(api) == "1"
        running = " ".join(left_over(card_environment).values())
        assert "cardapp.session_host.mcp_server" in running
        assert "postgres" not in running
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert_nothing_left(card_environment)


def test_several_cards_have_a_session_each_and_one_that_ran_before_stays(
    card: ProgramCard, card_environment: dict[str, str], tmp_path: Path, browser: Browser
) -> None:
    other = make_card(tmp_path / "two", "two", 2)
    other.document.update(title=f"The card two {EVIL}")
    other.write()
    twin = make_card(tmp_path / "three", "one", 3)  # its session needs another name
    twin.document.update(title="The twin")
    twin.write()
    tool = SessionTool(Path(card_environment["CARD_STATE_DIR"]))
    tool.must("start", "--name", "one", str(card.folder))
    with opened(card_environment, card, other, twin) as (process, printed):
        assert "select one-2    # The twin\n" in printed
        api = api_of(printed)
        assert prove(api) == "1"
        (select,) = [line for line in printed.splitlines() if "# The card two" in line]
        subprocess.run(["bash", "-euc", select], check=True, capture_output=True, timeout=60)
        assert api.get("/api/identity")["id"] == "two"
        assert prove(api) == "2"
        listed = [(each["card"], each["running"], each["current"]) for each in api.get("/api/cards")["cards"]]
        assert {("one", True, False), ("two", True, True)} <= set(listed)
        chosen = api.request("PUT", "/api/cards/current", {"card": "one"})
        assert (chosen.status, chosen.json["current"]) == (200, "one")
        assert api.get("/api/identity")["id"] == "one"
        with closing(browser.new_page()) as page:
            page.goto(f"{address_of(printed)}/")
            expect(page.locator("#title")).to_have_text("The card one")  # the page has started
            choose_in_the_menu(page, f"The card two {EVIL}")
            expect(page.locator("#title")).to_have_text(f"The card two {EVIL}")
            expect(page.locator("#result")).to_be_hidden()  # the fragment with a position of the other card is removed
            choose_in_the_menu(page, "The card one")
            expect(page.locator("#title")).to_have_text("The card one")
            tool.must("stop", "two")
            page.locator("#menu").click()
            expect(page.locator("#cards .command")).to_contain_text("bin/card-session start --name two ")
        refused = api.request("PUT", "/api/cards/current", {"card": "two"})
        assert (refused.status, refused.json["code"]) == (409, "no_session")
        process.kill()
        process.wait(timeout=60)
    eventually(lambda: "cardapp serve" not in (left := str(left_over(card_environment))) and "one-2" not in left, 60)
    assert ("running" in (listed := tool.must("list")), "one-2" in listed) == (True, False), listed
    tool.must("stop", "one")
    eventually(lambda: not left_over(card_environment), 60)


def test_a_signal_during_the_start_or_the_end_of_the_service_ends_everything(
    card: ProgramCard, card_environment: dict[str, str]
) -> None:
    with opened(card_environment, card) as (process, _printed):
        running = left_over(card_environment)
        (service,) = [pid for pid, command in running.items() if command.endswith(" -m cardapp serve ")]
        os.kill(service, signal.SIGKILL)
        assert process.wait(timeout=60) == 1
    assert left_over(card_environment) == {}
    (card.sources / "Makefile").write_text(".PHONY: prog\nprog:\n\tsleep 600\n")
    command = [COMMAND, "open", str(card.folder)]
    with subprocess.Popen(command, env=card_environment, stdout=subprocess.PIPE, start_new_session=True) as process:
        eventually(lambda: any(each.startswith("sleep 600") for each in left_over(card_environment).values()), 60)
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert left_over(card_environment) == {}


def test_what_cannot_be_opened_is_refused_with_its_reason(
    card: ProgramCard, card_environment: dict[str, str], tmp_path: Path
) -> None:
    twice = (card.folder, card.folder / "card_source.json")
    for cards, words in (((tmp_path / "absent",), "there is no card at"), (twice, "is given twice")):
        refused = cardapp("open", *cards, **card_environment)
        assert (refused.returncode, words in refused.stderr) == (2, True), refused.stderr
    (card.sources / "a.c").write_text("int main(void) { return wrong; }\n")
    command = [COMMAND, "open", str(card.folder)]
    ended = subprocess.run(command, env=card_environment, capture_output=True, text=True, timeout=60, check=False)
    assert left_over(card_environment) == {}
    assert (ended.returncode, "undeclared" in ended.stderr) == (1, True)
    assert "the session one ended with status 1; everything else is ended, too" in ended.stderr
