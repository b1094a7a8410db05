"""The choice file, and where the program stands relative to the position."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cardapp.card.catalog import Catalog
from cardapp.card.navigation import at_item
from cardapp.card.source import load_card
from cardapp.errors import SessionUnavailable
from cardapp.session_client.choice import Choice, read_choice
from cardapp.session_client.sync_state import stands_at
from cardapp.state.publication import Publication
from tests.functional.serving import make_card


def test_a_choice_is_read(tmp_path: Path) -> None:
    path = tmp_path / "choice.json"
    path.write_text(json.dumps({"name": "s", "socket": "/tmp/s/mcp.sock"}))
    assert read_choice(path) == Choice("s", "/tmp/s/mcp.sock")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"name": "s"}',
        '{"name": 1, "socket": "x"}',
        "\x00",
        r'{"name": "s", "socket": "a\u0000b"}',
        r'{"name": "s", "socket": "\udc80"}',
        "[" * 2000,
    ],
)
def test_an_invalid_choice_is_refused_with_the_remedy(tmp_path: Path, text: str) -> None:
    path = tmp_path / "choice.json"
    path.write_text(text)
    with pytest.raises(SessionUnavailable, match="card-session start") as caught:
        read_choice(path)
    assert caught.value.code == "bad_choice"


def test_no_choice_is_no_session(tmp_path: Path) -> None:
    with pytest.raises(SessionUnavailable, match="card-session start") as caught:
        read_choice(tmp_path / "none")
    assert caught.value.code == "no_session"


def publication(key: str, sync: str = "on") -> Publication:
    return Publication(
        sync=sync,  # type: ignore[arg-type]
        key=key,
        page_index=0,
        operation_id="",
        generation=1,
        stop_id="",
        binding={},
        instance="",
        socket="",
        source_sha256="",
        observed={},
        previous_key=None,
        previous_observed=None,
        reason=None,
        updated_at="",
        revision=1,
    )


@pytest.mark.parametrize(
    ("at", "published", "stands"),
    [
        ("t1/b1/p1/quick", "t1/b1/p1/quick/first", True),
        ("t1/b1/p1/quick", "t1/b1/p1/quick/second", True),
        ("t1/b1/p1/quick/first", "t1/b1/p1/quick/second", False),
        ("t1/b1/p1/quick/second", "t1/b1/p1/quick/second", True),
        ("t1/b1/p1/slow", "t1/b1/p1/quick/first", False),
        ("t1/b1", "t1/b1/p1/quick/first", True),
        ("t1/b1", "t1/b1/p1/quick/second", False),
        ("t1", "t1/b1/p1/quick/first", False),
        ("", "t1/b1/p1/quick/first", False),
    ],
)
def test_whether_the_program_is_at_the_position(tmp_path: Path, at: str, published: str, stands: bool) -> None:
    catalog = Catalog(load_card(make_card(tmp_path / "card")).card)
    position = at_item(catalog.item(at))
    assert stands_at(catalog, position, publication(published)) is stands
    assert stands_at(catalog, position, publication(published, "off")) is False
