"""Administration of tokens. Callers need the secret in ``admin.json``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from marketdata.api.request_validation import instant, json_body
from marketdata.api.routing import Request
from marketdata.http.reply import Reply, answer
from marketdata.store import tokens

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def list_tokens(request: Request) -> Reply:
    """All tokens ever created, without their secrets."""
    with request.services.pool.connection() as connection:
        found = tokens.list_all(connection)
    return answer({"tokens": [each.as_json() for each in found]})


def create_token(request: Request) -> Reply:
    """Create a token. Only this response contains the token, because it is not stored."""
    body = json_body(request.environ, "TokenRequest")
    given = body.get("expires_at")
    expires_at = None if given is None else _EPOCH + timedelta(microseconds=instant(given))
    with request.services.pool.transaction() as connection:
        created, text = tokens.create(connection, body["name"], body["scope"], expires_at)
    return answer({**created.as_json(), "token": text}, 201)


def revoke_token(request: Request) -> Reply:
    """Revoke a token, at once and permanently. Revoking it again has no effect."""
    services = request.services
    with services.pool.transaction() as connection:
        revoked = tokens.revoke(connection, request.path["id"])
    services.authenticator.forget(revoked.id)
    return answer(revoked.as_json())
