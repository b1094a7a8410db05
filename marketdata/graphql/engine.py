"""Hasura's metadata API, as far as this service needs it, and the file with its credential.

``graphql-admin.json`` is ``{"url": "http://…", "admin_secret": "…"}``, optionally with the name that the database has
in Hasura (``source``) and the role that may read (``role``). No message contains the secret.
https://hasura.io/docs/2.0/api-reference/metadata-api/index/
"""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from marketdata import secretfile
from marketdata.errors import MarketError, MissingRequirement, StateError, UsageError
from marketdata.settings import Warn

READER = "marketdata_reader"
"""The role with which a GraphQL engine reads. It may read the data of every version, but no tokens."""
TIMEOUT = 30.0
ENDPOINT = "/v1/metadata"

_OPTIONAL = {"source": "default", "role": READER}
_REQUIRED = ("url", "admin_secret")
_FORM = '{"url": "http://127.0.0.1:8080", "admin_secret": "…"}, optionally with "source" and "role"'
_SECRET = re.compile(r"[!-~]([ -~]*[!-~])?")
"""What a header can carry unchanged."""
_URL = re.compile(r"[!-~]+")
_STEP = re.compile(r"\$\.args\[([0-9]+)\]")
"""The path of an error in a bulk begins with the place of the call that failed."""
_ANSWER_MAX = 1 << 20


class Refused(MarketError):
    """Hasura refused a call; ``index`` is its place in the bulk, None when the answer does not tell it."""

    def __init__(self, detail: str, code: str, index: int | None) -> None:
        super().__init__(detail, code=code)
        self.index = index


@dataclass(frozen=True)
class Credential:
    """The content of ``graphql-admin.json``."""

    path: Path
    url: str
    admin_secret: str = field(repr=False)
    source: str
    role: str


def load(folder: Path, *, warn: Warn) -> Credential:
    """MissingRequirement without the file, StateError when it cannot be trusted, UsageError when a member is wrong."""
    path = folder / secretfile.GRAPHQL_ADMIN
    try:
        found = secretfile.read(path, warn=warn)
    except MissingRequirement as error:
        raise MissingRequirement(f"{error.detail}: create it (0600) as {_FORM}") from error
    unknown = sorted(found.keys() - {*_REQUIRED, *_OPTIONAL})
    if unknown:
        raise UsageError(f"{path}: unknown member {unknown[0]!r}; it must be {_FORM}")
    values: dict[str, str] = {}
    for name in (*_REQUIRED, *_OPTIONAL):
        value = found.get(name, _OPTIONAL.get(name))
        if not isinstance(value, str) or not value:
            raise UsageError(f"{path}: {name} must be a text that is not empty; the file must be {_FORM}")
        values[name] = value
    if not _SECRET.fullmatch(values["admin_secret"]):
        raise UsageError(f"{path}: admin_secret has characters that cannot be sent in an HTTP header")
    return Credential(path, **(values | {"url": _checked_url(path, values["url"])}))


def _checked_url(path: Path, url: str) -> str:
    fault = UsageError(
        f"{path}: url must be the address of Hasura, like http://127.0.0.1:8080, without user, query and {ENDPOINT}"
    )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise fault from None
    has_more = parts.query or parts.fragment or parts.username is not None or parts.path.rstrip("/").endswith(ENDPOINT)
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or has_more or not _URL.fullmatch(url):
        raise fault
    return url.rstrip("/")


def bulk(credential: Credential, calls: Sequence[Mapping[str, Any]]) -> None:
    """Run the calls in their order, all or none. Refused names the first that failed; StateError when there is no
    usable answer."""
    status, answer = _post(credential, {"type": "bulk", "args": list(calls)})
    code = answer.get("code") if isinstance(answer, dict) else None
    if status in (http.client.UNAUTHORIZED, http.client.FORBIDDEN) or code == "access-denied":
        raise StateError(
            f"{credential.url} refuses the admin secret: {_reason(answer)}; correct admin_secret in {credential.path}"
        )
    if status == http.client.BAD_REQUEST and isinstance(code, str):
        place = _STEP.match(str(answer.get("path")))
        raise Refused(_reason(answer), code, int(place[1]) if place else None)
    if status != http.client.OK or not isinstance(answer, list) or len(answer) != len(calls):
        raise StateError(
            f"{credential.url}{ENDPOINT} answers with HTTP status {status} and not as Hasura does ({_reason(answer)}): "
            f"correct url in {credential.path}, and see that Hasura's metadata API is enabled"
        )


def _reason(answer: Any) -> str:
    reason = answer.get("error") if isinstance(answer, dict) else None
    return str(reason) if reason else "no reason given"


def _post(credential: Credential, body: Mapping[str, Any]) -> tuple[int, Any]:
    """Status and decoded body, None when that is no JSON. StateError without an answer."""
    parts = urlsplit(credential.url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=TIMEOUT)
    headers = {"Content-Type": "application/json", "X-Hasura-Admin-Secret": credential.admin_secret}
    try:
        connection.request("POST", parts.path + ENDPOINT, json.dumps(body), headers)
        response = connection.getresponse()
        content = response.read(_ANSWER_MAX)
    except (OSError, http.client.HTTPException) as error:
        raise StateError(
            f"{credential.url} does not answer: {str(error) or type(error).__name__}; start Hasura, or correct url in "
            f"{credential.path}"
        ) from error
    finally:
        connection.close()
    try:
        return response.status, json.loads(content)
    except ValueError:
        return response.status, None
