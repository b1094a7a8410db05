"""Pictures that are pinned to events. They are uploaded as a form or a raw body, and named after their content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import bottle

from cardapp.errors import FieldError, InvalidValue, TooLarge
from cardapp.state import events
from cardapp.state import evidence as store
from cardapp.web import schemas
from cardapp.web.failures import BadRequest
from cardapp.web.http import Reply, Request, created
from cardapp.web.resources.navigation import key_of_saved
from cardapp.web.routing import typed

FORM = "multipart/form-data"
RAW = ("image/png", "image/jpeg", "application/octet-stream")


class _Form(bottle.BaseRequest):  # type: ignore[misc]
    """A form that is kept in memory, like the picture in it. The gate limits the size."""

    MEMFILE_MAX = 1 << 31


def add(request: Request) -> Reply:
    """Store the picture and pin it to an event. The file is on the disk before the event is stored."""
    services, loaded = request.services, request.services.card_loader.current()
    data, fields = _sent(request.environ, request.query)
    limit = services.settings.evidence_max_bytes
    if len(data) > limit:
        raise TooLarge(
            f"the picture has {len(data)} bytes, but CARD_EVIDENCE_MAX_BYTES allows {limit}: "
            "send a smaller picture, or raise that setting"
        )
    stored = store.store(services.settings.evidence_dir, data)
    with services.database.write() as tx:
        event = events.pin(
            tx,
            stored,
            event_seq=fields.get("event_seq"),
            caption=fields.get("caption", ""),
            actor=fields.get("actor", "api"),
            key=key_of_saved(tx, loaded),
            card=loaded.identity,
            at=services.clock(),
        )
    record = {
        "seq": event["seq"],
        "event_seq": fields.get("event_seq", event["seq"]),
        "name": stored.name,
        "sha256": stored.sha256,
        "media_type": stored.media_type,
        "size": stored.size,
        "width": stored.width,
        "height": stored.height,
        "caption": event["data"]["caption"],
        "actor": event["actor"],
        "at": event["at"],
    }
    return created(record, f"/api/evidence/{stored.name}")


def picture(request: Request) -> Reply:
    """A stored picture. Its name is made from its content, so it never changes."""
    name = request.path["name"]
    data = store.load(request.services.settings.evidence_dir, name)
    return Reply(data, media_type=store.media_type(name), headers=(("ETag", f'"{name}"'),))


def _sent(environ: Mapping[str, Any], query: Mapping[str, Any]) -> tuple[bytes, dict[str, Any]]:
    """The picture's bytes and its fields, from a form or a raw body."""
    if not environ.get("CONTENT_TYPE", "").lower().startswith(FORM):
        data: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        return data, dict(query)
    try:
        form = _Form(dict(environ)).POST
    except (bottle.HTTPError, LookupError, ValueError) as error:  # LookupError: an unknown charset
        raise BadRequest("the form cannot be read: send multipart/form-data with a file part `file`") from error
    return _from_form(form, query)


def _from_form(form: Any, query: Mapping[str, Any]) -> tuple[bytes, dict[str, Any]]:
    known = schemas.definition("EvidenceFields")["properties"]
    twice = [name for name in form if len(form.getall(name)) > 1]
    if twice:
        raise InvalidValue.of(f"/{twice[0]}", "occurs twice in the form")
    upload = form.get("file")
    if not isinstance(upload, bottle.FileUpload):
        raise InvalidValue(
            "the form has no file part: send the picture as `file`, with a file name",
            errors=(FieldError("/file", "is missing or has no file name"),),
        )
    texts = {name: form.get(name) for name in form if name != "file"}
    wrong = [name for name, value in texts.items() if not isinstance(value, str)]
    if wrong:
        raise InvalidValue.of(f"/{wrong[0]}", "is a file; send a short text")
    fields = {name: typed(value, known.get(name, {})) for name, value in texts.items()}
    schemas.check("EvidenceFields", fields, "the form")
    data: bytes = upload.file.read()
    return data, {**query, **fields}
