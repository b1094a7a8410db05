"""schemathesis compares the card application, with a real session that is discarded afterwards, with its
description."""

from __future__ import annotations

import json

import pytest

from tests.functional.description import hold_true
from tests.functional.serving import Stage, picture

pytestmark = [pytest.mark.functional, pytest.mark.timeout(900)]


def test_every_response_matches_the_description(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stored = stage.tcp.request("POST", "/api/evidence", picture(0), {"Content-Type": "image/png"})
    hold_true(
        f"http://127.0.0.1:{stage.service.listener.port}/api/openapi.json",
        "../release/card_schemathesis.toml",
        "--max-examples",
        "40",
        PICTURE=stored.json["name"],
        BINDING=json.dumps(stage.tcp.get("/api/session")["binding"]),
        IDENTITY=json.dumps(stage.tcp.get("/api/identity")),
    )
    assert "Traceback" not in caplog.text
