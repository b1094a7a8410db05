"""The two reports. Each request makes them anew from the record of events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cardapp.card import answers
from cardapp.card import progress as rules
from cardapp.card_loader import ServedCard
from cardapp.reports import lesson as lesson_report
from cardapp.reports import teams as teams_report
from cardapp.state import card_state, checkpoint_results, events, evidence, learner
from cardapp.state.database import Connection
from cardapp.web.gate import ADDRESS
from cardapp.web.http import Reply, Request
from cardapp.web.resources.navigation import key_of_saved

MARKDOWN = "text/markdown; charset=utf-8"
HTML = "text/html; charset=utf-8"
_PIECE = 64 * 1024


def teams(request: Request) -> Reply:
    """The current report as Markdown that can be pasted into a chat."""
    services, loaded = request.services, request.services.card_loader.current()
    with services.database.read() as conn:
        done = _progress(conn, loaded)
        answered = answers.overview(answers.asked_stops(loaded.catalog), learner.entries(conn, loaded.identity.id))
        notes = events.latest(conn, limit=teams_report.MAX_NOTES, kind=events.NOTE, card_id=loaded.identity.id)
    report = teams_report.render(
        identity=loaded.identity,
        card=loaded.card,
        catalog=loaded.catalog,
        progress=done,
        answers=answered,
        notes=notes,
        at=services.clock(),
        base_url=request.environ[ADDRESS],
    )
    return Reply(_pieces(report), media_type=MARKDOWN)


def lesson(request: Request) -> Reply:
    """The chronological report with its pictures, one self-contained HTML file, streamed."""
    # The report contains a style sheet. Its hash is the only exception from the gate's policy.
    policy = f"{lesson_report.CONTENT_SECURITY_POLICY}; frame-ancestors 'none'"
    return Reply(_pieces(_lesson(request)), media_type=HTML, headers=(("Content-Security-Policy", policy),))


def _lesson(request: Request) -> Iterator[str]:
    services, loaded = request.services, request.services.card_loader.current()
    root = services.settings.evidence_dir
    with services.database.read() as conn:
        yield from lesson_report.render(
            identity=loaded.identity,
            card=loaded.card,
            catalog=loaded.catalog,
            progress=_progress(conn, loaded),
            current=key_of_saved(conn, loaded),
            events=events.stream(conn, loaded.identity.id),
            head=events.head(conn),
            total=events.count(conn),
            picture=lambda name: evidence.load(root, name),
            at=services.clock(),
            base_url=request.environ[ADDRESS],
        )


def _pieces(parts: Iterable[str]) -> Iterator[bytes]:
    """The parts, joined to pieces of at least 64 KiB to save writes."""
    held, size = [], 0
    for part in parts:
        held.append(part.encode("utf-8"))
        size += len(held[-1])
        if size >= _PIECE:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


def _progress(conn: Connection, loaded: ServedCard) -> dict[str, Any]:
    uuid = loaded.identity.uuid
    return rules.overview(
        loaded.catalog, card_state.load_statuses(conn, uuid), checkpoint_results.load_results(conn, uuid)
    )
