"""Tokens, administered with the secret of ``admin.json``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from marketdata.api.http import Reply, Request, answer
from marketdata.api.request_validation import instant, json_body
from marketdata.store import tokens

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def list_tokens(request: Request) -> Reply:
    """Every token ever made, by what may be known of it."""
    with request.services.pool.connection() as connection:
        found = tokens.list_all(connection)
    return answer({"tokens": [each.as_json() for each in found]})


def create_token(request: Request) -> Reply:
    """A new token. The answer holds it, and nothing else ever will."""
    body = json_body(request.environ, "TokenRequest")
    until = body.get("expires_at")
    expires_at = None if until is None else _EPOCH + timedelta(microseconds=instant(until))
    with request.services.pool.transaction() as connection:
        made, text = tokens.create(connection, body["name"], body["scope"], expires_at)
    return answer({**made.as_json(), "token": text}, 201)


def revoke_token(request: Request) -> Reply:
    """Make a token unusable, at once and for good; again is no error."""
    services = request.services
    with services.pool.transaction() as connection:
        revoked = tokens.revoke(connection, request.path["id"])
    services.authenticator.forget(revoked.id)
    return answer(revoked.as_json())
