"""Settings are parsed strictly, and an unknown name is reported with the most similar known one."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from cardapp.errors import UsageError
from cardapp.settings import ROOT, declared, load, unknown_names


def test_defaults_follow_the_state_directory() -> None:
    settings = load({"CARD_STATE_DIR": "/tmp/s"})
    assert settings.api_socket == Path("/tmp/s/card-api.sock")
    assert settings.state_database == Path("/tmp/s/card-state")
    assert settings.mcp_choice == Path("/tmp/s/mcp-choice.json")
    assert (settings.api_host, settings.api_port, settings.replay_timeout) == ("127.0.0.1", 8080, 30.0)
    assert settings.evidence_max_bytes == 10 * 1024 * 1024
    assert settings.api_peers == "owner"


def test_an_empty_value_means_the_default() -> None:
    assert load({"CARD_API_PORT": ""}) == load({})


def test_a_bad_value_names_its_variable() -> None:
    for name, value in (
        ("CARD_API_HOST", "192.168.0.1"),
        ("CARD_API_HOST", "example.org"),
        ("CARD_API_PORT", "65536"),
        ("CARD_REPLAY_TIMEOUT", "0.01"),
        ("CARD_REPLAY_TIMEOUT", "nan"),
        ("CARD_EVIDENCE_MAX_BYTES", "1"),
        ("CARD_API_SOCKET", "/tmp/" + "s" * 110),
    ):
        with pytest.raises(UsageError, match=name):
            load({name: value})
    for name in ("CARD_API_HOST", "CARD_API_PORT", "CARD_REPLAY_TIMEOUT", "CARD_EVIDENCE_MAX_BYTES"):
        for value in ("x", "1" * 5000):
            with pytest.raises(UsageError, match=f"{name}='{value}': must be "):
                load({name: value})


def test_an_unknown_setting_is_reported_with_the_nearest_name() -> None:
    known = {setting.name: "x" for setting in declared().values()}
    assert unknown_names({**known, "PATH": "/bin"}) == []
    assert "did you mean CARD_STATE_DIR?" in unknown_names({"CARD_STATEDIR": "x"})[0]
    assert "known: CARD_API_HOST" in unknown_names({"CARD_XYZZY": "x"})[0]


def test_the_settings_file_names_every_setting_below_a_comment() -> None:
    lines = (ROOT / "etc" / "cardapp.env").read_text(encoding="utf-8").splitlines()
    found = {match[1]: match[2] for line in lines if (match := re.fullmatch(r"#(CARD_[A-Z_]+)=(.*)", line))}
    assert set(found) == {each.name for each in declared().values()}
    load(found)  # each value can be used
    for before, line in pairwise(lines):
        if line.removeprefix("#").partition("=")[0] in found:
            assert before.startswith("# "), f"{line} has no comment"
