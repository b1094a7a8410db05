"""The table has the shortcuts of the contract, binds no key twice and uses no reserved key."""

from __future__ import annotations

import json
import re

from cardapp.card.keyboard import SHORTCUTS, Shortcut, as_json
from cardapp.card.model import LEVELS

KEYS = [(shortcut, key) for shortcut in SHORTCUTS for key in shortcut.keys]
# A browser handles these itself. The keys from ArrowUp on scroll the page.
OF_THE_BROWSER = {
    "F3", "F5", "F6", "F7", "F10", "F11", "F12", "Tab", "Shift+Tab", "Alt+ArrowLeft", "Alt+ArrowRight", "Alt+F4",
    "Alt+Home", "ArrowUp", "ArrowDown", "PageUp", "PageDown", "Space", "Home", "End",
}  # fmt: skip
# Neovim's modes use plain keys and Ctrl with a letter.
OF_NEOVIM = re.compile(
    r"(Shift\+)?[^+]|Ctrl\+[A-Za-z\[\]\\^_@]|Escape|Enter|Tab|Backspace|Arrow\w+|Home|End|Page\w+|Space"
)


def test_the_keys_of_the_contract_are_bound() -> None:
    for scope, keys, action in (
        ("page", "F1", "reset"),
        ("editor", "F1", "reset"),
        ("page", "F2", "sync"),
        ("editor", "F2", "sync"),
        ("page", "Enter", "sync"),
        ("page", "Ctrl+Backtick", "redraw"),
        ("editor", "Ctrl+Backtick", "redraw"),
        ("page", "Alt+6", "allocator"),
    ):
        bound = [shortcut.action for shortcut, key in KEYS if (shortcut.scope, key) == (scope, keys)]
        assert bound == [action], (scope, keys)
    assert [shortcut.level for shortcut in SHORTCUTS if shortcut.action == "focus"] == list(LEVELS)


def test_no_key_is_bound_and_no_action_is_listed_twice_in_a_scope() -> None:
    bound = [(shortcut.scope, key) for shortcut, key in KEYS]
    assert len(bound) == len(set(bound))
    listed = [(shortcut.scope, shortcut.action, shortcut.level) for shortcut in SHORTCUTS]
    assert len(listed) == len(set(listed))


def test_keys_are_written_in_one_way_and_none_is_of_the_browser_or_of_neovim() -> None:
    form = re.compile(
        r"(Ctrl\+)?(Alt\+)?(Shift\+)?(F[1-9]|F1[0-2]|[A-Z0-9/?]|Backtick|Enter|Escape|Arrow(Left|Right|Up|Down))"
    )
    assert [key for _, key in KEYS if not form.fullmatch(key)] == []
    on_page = [key for shortcut, key in KEYS if shortcut.scope == "page"]
    assert [key for key in on_page if key in OF_THE_BROWSER or re.fullmatch(r"Ctrl\+[A-Za-z0-9]", key)] == []
    assert [key for shortcut, key in KEYS if shortcut.scope == "editor" and OF_NEOVIM.fullmatch(key)] == []


def test_a_shortcut_without_a_level_has_no_level_in_json() -> None:
    shown = json.loads(json.dumps(as_json()))
    assert (shown["levels"], len(shown["shortcuts"])) == (list(LEVELS), len(SHORTCUTS))
    bare = {"action": "a", "keys": ["F9"], "scope": "page", "description": "d"}
    assert Shortcut("a", ("F9",), "page", "d").as_json() == bare
    assert Shortcut("a", ("F9",), "page", "d", "step").as_json() == {**bare, "level": "step"}
