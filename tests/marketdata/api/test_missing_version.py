"""A service whose database has no version yet: it says which command creates one, and serves after that."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from marketdata.api.app import make_app
from marketdata.api.serve import Service
from marketdata.operations.setup import initialise, make_version
from marketdata.settings import Settings, load
from marketdata.store.pool import connect
from tests.marketdata.api.conftest import eventually, webtest

COMMAND = "create one with bin/marketdata-version 1"


@pytest.fixture
def without_version(new_database: Callable[[], str], tmp_path: Path) -> Settings:
    """Settings with a database that has the shared tables only."""
    database = new_database()
    with connect(database) as connection:
        initialise(connection, lambda _text: None)
    return load({"DATABASE_URL": database, "MARKET_STATE_DIR": str(tmp_path), "MARKET_API_PORT": "0"})


def test_the_service_starts_names_the_command_and_serves_after_it(
    without_version: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service(without_version)
    with caplog.at_level(logging.WARNING):
        service.start()
    try:
        assert COMMAND in caplog.text
        app = webtest.TestApp(make_app(service.services))
        refused = app.get("/ready", expect_errors=True)
        assert (refused.status_int, refused.json["code"]) == (503, "version_missing")
        assert COMMAND in refused.json["detail"]
        assert without_version.database_url is not None
        with connect(without_version.database_url) as connection:
            make_version(connection, without_version, 1, lambda _text: None)
        eventually(lambda: app.get("/ready", expect_errors=True).status_int == 200)
    finally:
        service.stop()
