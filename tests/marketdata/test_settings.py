"""Settings: defaults, the two sources, and what is refused or warned about."""

from __future__ import annotations

import ipaddress
import os
import re
from itertools import pairwise
from pathlib import Path

import pytest

from marketdata.errors import UsageError
from marketdata.operations.setup import _settings_file as version_settings
from marketdata.settings import ENV_FILE, ROOT, declared, load, read_env_file
from marketdata.store.version import Version


def test_settings_have_their_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    settings = load({})
    assert settings.state_dir == Path("/var/lib/marketdata")
    assert settings.secrets_dir == Path("/var/lib/marketdata/secrets")
    assert (settings.prefix, settings.database_url, settings.database_read_url) == ("md", None, None)
    assert (settings.ticks_table, settings.candles_function) == (None, None)
    assert (settings.api_host, settings.api_port) == ("127.0.0.1", 8787)
    assert (settings.frontend_host, settings.frontend_port) == ("127.0.0.1", 8081)
    assert (settings.api_upstream, settings.basic_auth) == ("http://127.0.0.1:8787", True)
    assert settings.trusted_proxies == ()


def test_the_state_directory_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for environ, folder in (
        ({}, Path("~/.local/state/marketdata").expanduser()),
        ({"XDG_STATE_HOME": "/home/me/state"}, Path("/home/me/state/marketdata")),
        ({"XDG_STATE_HOME": "relative"}, Path("~/.local/state/marketdata").expanduser()),
        ({"XDG_STATE_HOME": "/home/{me}"}, Path("/home/{me}/marketdata")),
        ({"XDG_STATE_HOME": "/home/me/state", "MARKET_STATE_DIR": "/data"}, Path("/data")),
    ):
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        assert load(environ).state_dir == folder


def test_the_api_is_asked_where_it_listens() -> None:
    for host, port, upstream in (
        ("", "9000", "http://127.0.0.1:9000"),
        ("192.0.2.7", "", "http://192.0.2.7:8787"),
        ("localhost", "", "http://localhost:8787"),
        ("0.0.0.0", "", "http://127.0.0.1:8787"),
        ("::", "9000", "http://[::1]:9000"),
        ("2001:db8::1", "", "http://[2001:db8::1]:8787"),
    ):
        assert load({"MARKET_API_HOST": host, "MARKET_API_PORT": port}).api_upstream == upstream


def test_every_value_is_taken_and_an_empty_one_is_none() -> None:
    settings = load(
        {
            "MARKET_STATE_DIR": "/data/{x}",
            "TICKS_TABLE": "a_ticks_v2",
            "CANDLES_FUNCTION": "",
            "API_UPSTREAM": "http://api.example:8787/",
            "BASIC_AUTH_MODE": "off",
            "MARKET_TRUSTED_PROXIES": "10.0.0.0/8, ::1",
            "MARKET_READ_LAG_S": "0.5",
        }
    )
    assert settings.secrets_dir == Path("/data/{x}/secrets")
    assert (settings.ticks_table, settings.candles_function) == ("a_ticks_v2", None)
    assert settings.api_upstream == "http://api.example:8787"
    assert settings.basic_auth is False
    assert settings.read_lag_s == 0.5
    assert settings.trusted_proxies == (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("::1"))


def test_a_bad_value_names_the_setting() -> None:
    for name, value in (
        ("MARKET_PREFIX", "m" * 41),
        ("TICKS_TABLE", 'x"; DROP TABLE api_tokens; --'),
        ("TICKS_TABLE", "md_ticks_v1\n"),
        ("CANDLES_FUNCTION", "x" * 64),
        ("CANDLES_FUNCTION", "ticks-v1"),
        ("BASIC_AUTH_MODE", "yes"),
        ("MARKET_METRICS", "true"),
        ("MARKET_READ_LAG_S", "-1"),
        ("MARKET_READ_LAG_S", "5s"),
        ("MARKET_READ_LAG_S", "nan"),
    ):
        with pytest.raises(UsageError, match=f"^{name}={re.escape(repr(value))}: "):
            load({name: value})


def test_a_bad_value_is_refused_with_its_place_and_a_good_one(tmp_path: Path) -> None:
    port = "must be a port number from 0 to 65535, like 8787; 0 chooses a free port"
    for name, value, reason in (
        *(("MARKET_API_PORT", value, port) for value in ("abc", "-1", "80.0", "8_0", "٨٠", "65536", "0x50")),
        ("MARKET_API_HOST", "example.org", "must be an IP address of this machine, like 127.0.0.1"),
        ("MARKET_TRUSTED_PROXIES", "10.0.0.1/8", "must be IP networks separated by commas, like 10.0.0.0/8: "),
        ("MARKET_PREFIX", "Md", "must be a name of 1 to 63 characters a-z, 0-9 and _ that does not start with a digit"),
    ):
        file = tmp_path / "v1.env"
        file.write_text(f"{name}='{value}'\n")
        for place, environ, path in (("", {name: value}, None), (f"{file}: ", {}, file)):
            with pytest.raises(UsageError) as caught:
                load(environ, path)
            assert caught.value.detail.startswith(f"{place}{name}={value!r}: {reason}")


def test_a_bad_url_is_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        load({"API_UPSTREAM": "ftp://me:secret@host/"} | {"MARKET_STATE_DIR": "/data"})
    assert "must be the URL" in caught.value.detail


def test_a_password_is_not_in_the_representation() -> None:
    settings = load(
        {"DATABASE_URL": "postgresql://me:secret@host/", "DATABASE_READ_URL": "postgresql://me:secret@host/"}
    )
    assert "secret@" not in repr(settings)


def test_settings_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "v2.env"
    file.write_text(
        "# a comment\n\nMARKET_API_PORT = 9000\nMARKET_PREFIX='ab'\nDATABASE_URL=\"postgresql://h/d?a=b\"\n"
    )
    for settings in (load({}, file), load({ENV_FILE: str(file)})):
        assert (settings.api_port, settings.prefix, settings.database_url) == (9000, "ab", "postgresql://h/d?a=b")


def test_the_environment_wins_and_says_so_where_they_differ(tmp_path: Path) -> None:
    file = tmp_path / "v2.env"
    file.write_text("MARKET_API_PORT=9000\nMARKET_PREFIX=ab\n")
    warnings: list[str] = []
    settings = load({"MARKET_API_PORT": "9001", "MARKET_PREFIX": "ab"}, file, warn=warnings.append)
    assert settings.api_port == 9001
    assert warnings == [f"MARKET_API_PORT is taken from the environment; {file} has a different value"]


def test_a_bad_line_is_refused_with_its_place(tmp_path: Path) -> None:
    for line, reason in (
        ("MARKET_API_PROT=1", "line 2: MARKET_API_PROT is not a setting; did you mean MARKET_API_PORT?"),
        ("PATH=/bin", "line 2: PATH is not a setting"),
        ("MARKET_API_PORT", "line 2: must have the form NAME=value"),
        ("MARKET_PREFIX=b", "line 2: MARKET_PREFIX is set twice"),
        ("MARKET_API_PORT=x", "MARKET_API_PORT='x'"),
    ):
        file = tmp_path / "v2.env"
        file.write_text(f"MARKET_PREFIX=a\n{line}\n")
        with pytest.raises(UsageError) as caught:
            load({}, file)
        assert str(file) in caught.value.detail
        assert reason in caught.value.detail


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"v9\.env cannot be read"):
        load({}, tmp_path / "v9.env")


def test_an_unknown_name_of_ours_in_the_environment_is_warned_about() -> None:
    warnings: list[str] = []
    load({"MARKET_STATE_DRI": "/x", "MARKET_WATCH": "1", "TICKS": "1", ENV_FILE: ""}, warn=warnings.append)
    assert warnings[0] == "MARKET_STATE_DRI is not a setting of the market-data service; did you mean MARKET_STATE_DIR?"
    assert warnings[1].startswith("MARKET_WATCH is not a setting of the market-data service")
    assert len(warnings) == 2


def test_the_settings_file_names_every_setting_below_a_comment(tmp_path: Path) -> None:
    shipped = ROOT / "etc" / "marketdata.env"
    assert read_env_file(shipped) == {}
    text = shipped.read_text(encoding="utf-8")
    lines = text.splitlines()
    found = [match[1] for line in lines if (match := re.fullmatch(r"#([A-Z_]+)=.+", line))]
    assert sorted(found) == sorted(setting.name for setting in declared().values())
    for before, line in pairwise(lines):
        if line.removeprefix("#").partition("=")[0] in found:
            assert before.startswith("# "), f"{line} has no comment"
    for setting in declared().values():
        if setting.default and "{" not in setting.default:
            comment = text.partition(f"\n#{setting.name}=")[0].rpartition("=")[2]
            assert f"Default: {setting.default}." in comment, setting.name
    switched_on = tmp_path / "all.env"
    switched_on.write_text(re.sub(r"(?m)^#([A-Z_]+=)", r"\1", text))
    assert load({}, switched_on).database_url is not None


def test_the_example_of_a_settings_file_equals_the_written_one(tmp_path: Path) -> None:
    file = tmp_path / "v2.env"
    file.write_text(version_settings(file, Version.of("md", 2))[1])
    assert read_env_file(ROOT / "etc" / "vN.env.example") == read_env_file(file)


def test_the_readme_names_every_setting() -> None:
    page = (ROOT / "marketdata" / "README.md").read_text(encoding="utf-8")
    page = page.partition("\n## Settings\n")[2].partition("\n## ")[0]
    assert {setting.name for setting in declared().values()} == set(
        re.findall(r"`([A-Z_]+)`", "".join(line.split("|")[1] for line in page.splitlines() if line.startswith("| `")))
    )


def test_origins_are_as_browsers_send_them() -> None:
    text = "https://Charts.example.org:443, http://b.example:80,http://c.example:443,,https://[::1]:8443"
    found = load({"MARKET_FRONTEND_ORIGINS": text}).frontend_origins
    assert found == ("https://charts.example.org", "http://b.example", "http://c.example:443", "https://[::1]:8443")


def test_an_invalid_origin_is_refused() -> None:
    for text in ("charts.example.org", "https://a.example/", "ftp://a.example", "https://a b", "*"):
        with pytest.raises(UsageError, match="MARKET_FRONTEND_ORIGINS"):
            load({"MARKET_FRONTEND_ORIGINS": text})
