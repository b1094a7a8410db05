"""A service whose version was created by an earlier release: it says what to run, and serves after that."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from marketdata.api.app import make_app
from marketdata.api.serve import Service
from marketdata.errors import VersionMissing
from marketdata.operations.database import initialise
from marketdata.operations.version import make_version
from marketdata.settings import Settings, load
from marketdata.store import registry
from marketdata.store.pool import connect
from marketdata.store.version import Version
from tests.marketdata.api.conftest import eventually, webtest
from tests.marketdata.store import earlier_release

COMMAND = "upgrade it with bin/marketdata-version 1"


@pytest.fixture
def earlier(new_database: Callable[[], str], tmp_path: Path) -> Settings:
    """Settings with a database whose current version is of an earlier release."""
    database = new_database()
    with connect(database) as connection:
        initialise(connection, lambda _text: None)
        version = Version.of("md", 1)
        earlier_release.create(connection, version)
        registry.register(connection, version)
    return load({"DATABASE_URL": database, "MARKET_STATE_DIR": str(tmp_path), "MARKET_API_PORT": "0"})


def test_it_starts_names_the_command_and_serves_after_it(earlier: Settings, caplog: pytest.LogCaptureFixture) -> None:
    service = Service(earlier)
    with caplog.at_level(logging.WARNING):
        service.start()
    try:
        assert COMMAND in caplog.text
        app = webtest.TestApp(make_app(service.services))
        refused = app.get("/ready", expect_errors=True)
        assert (refused.status_int, refused.json["code"]) == (503, "version_missing")
        assert COMMAND in refused.json["detail"]
        assert earlier.database_url is not None
        with connect(earlier.database_url) as connection:
            make_version(connection, earlier, 1, lambda _text: None)
        eventually(lambda: app.get("/ready", expect_errors=True).status_int == 200)
    finally:
        service.stop()


def test_a_version_that_the_settings_name_is_refused_at_the_start(earlier: Settings) -> None:
    assert earlier.database_url is not None
    named = load(
        {
            "DATABASE_URL": earlier.database_url,
            "MARKET_STATE_DIR": str(earlier.state_dir),
            "MARKET_API_PORT": "0",
            "TICKS_TABLE": "md_ticks_v1",
        }
    )
    with pytest.raises(VersionMissing, match=COMMAND):
        Service(named).start()
