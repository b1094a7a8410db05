"""The reports: progress, lesson and answers. Each request makes its report again from the record of events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

from cardapp.card import answers
from cardapp.card import progress as rules
from cardapp.card_loader import ServedCard
from cardapp.reports import answers_file, answers_page, answers_table, csv_text, teams_page
from cardapp.reports import lesson as lesson_report
from cardapp.reports import teams as teams_report
from cardapp.reports.explained import Explanations
from cardapp.state import card_state, checkpoint_results, events, evidence, explanations, learner, learners
from cardapp.state.database import Connection
from cardapp.web.gate import ADDRESS
from cardapp.web.http import Reply, Request
from cardapp.web.resources.navigation import key_of_saved

MARKDOWN = "text/markdown; charset=utf-8"
HTML = "text/html; charset=utf-8"
CSV = "text/csv; charset=utf-8"
_PIECE = 64 * 1024


def teams(request: Request) -> Reply:
    """The current report as Markdown that can be pasted into a chat."""
    _, parts = _teams(request)
    return Reply(_pieces(parts), media_type=MARKDOWN)


def teams_html(request: Request) -> Reply:
    """The current report as a page."""
    name, parts = _teams(request)
    page = teams_page.render(name, request.services.card_loader.current().card, "".join(parts))
    return _page((page,), teams_page.CONTENT_SECURITY_POLICY)


def _teams(request: Request) -> tuple[str, Iterator[str]]:
    """The name of the current learner, and the learner's report."""
    services, loaded = request.services, request.services.card_loader.current()
    with services.database.read() as conn:
        done = _progress(conn, loaded)
        _, answered = _answers(conn, loaded)
        notes = events.latest(conn, limit=teams_report.MAX_NOTES, kind=events.NOTE, card_id=loaded.identity.id)
        name = learners.current(conn)
    report = teams_report.render(
        learner=name,
        identity=loaded.identity,
        card=loaded.card,
        catalog=loaded.catalog,
        progress=done,
        answers=answered,
        notes=notes,
        at=services.clock(),
        base_url=request.environ[ADDRESS],
    )
    return name, report


def lesson(request: Request) -> Reply:
    """The chronological report with its pictures, one self-contained HTML file, streamed."""
    return _page(_lesson(request), lesson_report.CONTENT_SECURITY_POLICY)


def _page(parts: Iterable[str], policy: str) -> Reply:
    """A report in HTML. It contains a style sheet, whose hash is the only exception from the gate's policy."""
    headers = (("Content-Security-Policy", f"{policy}; frame-ancestors 'none'"),)
    return Reply(_pieces(parts), media_type=HTML, headers=headers)


def _lesson(request: Request) -> Iterator[str]:
    services, loaded = request.services, request.services.card_loader.current()
    root = services.settings.evidence_dir
    with services.database.read() as conn:
        yield from lesson_report.render(
            learner=learners.current(conn),
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
            explanations=Explanations(
                explanations.all_strategies(conn, loaded.identity.uuid),
                explanations.all_annotations(conn, loaded.identity.uuid),
                services.sheets.document,
            ),
        )


def answers_html(request: Request) -> Reply:
    """The current learner's answers as a page."""
    services, loaded = request.services, request.services.card_loader.current()
    with services.database.read() as conn:
        stops, found = _answers(conn, loaded)
        name = learners.current(conn)
    parts = answers_page.render(
        learner=name,
        identity=loaded.identity,
        card=loaded.card,
        stops=stops,
        answers=found,
        at=services.clock(),
        base_url=request.environ[ADDRESS],
    )
    return _page(parts, answers_page.CONTENT_SECURITY_POLICY)


def answers_csv(request: Request) -> Reply:
    """The current learner's answers: a row for each predicted value."""
    services, loaded = request.services, request.services.card_loader.current()
    with services.database.read() as conn:
        stops, found = _answers(conn, loaded)
        name = learners.current(conn)
    rows = csv_text.lines(answers_table.value_rows(name, loaded.identity.id, stops, found))
    return Reply(_pieces(rows), media_type=CSV, headers=(_attached(loaded, name, "csv"),))


def answers_json(request: Request) -> Reply:
    """The current learner's answers with the chain of all events, streamed. ``bin/cardapp collect`` reads this file."""
    with request.services.database.read() as conn:
        name = learners.current(conn)
    attached = _attached(request.services.card_loader.current(), name, "json")
    return Reply(_pieces(_answers_file(request)), headers=(attached,))


def _answers_file(request: Request) -> Iterator[str]:
    services, loaded = request.services, request.services.card_loader.current()
    with services.database.read() as conn:
        stops, found = _answers(conn, loaded)
        yield from answers_file.render(
            learner=learners.current(conn),
            identity=loaded.identity,
            card=loaded.card,
            stops=stops,
            answers=found,
            events=events.stream(conn),
            head=events.head(conn).hash,
            at=services.clock(),
        )


def _answers(conn: Connection, loaded: ServedCard) -> tuple[list[answers.AskedStop], dict[str, Any]]:
    """The stops of the card, and what the current learner answered there."""
    stops = answers.asked_stops(loaded.catalog)
    return stops, answers.overview(stops, learner.entries(conn, loaded.identity.id))


def _attached(loaded: ServedCard, learner: str, suffix: str) -> tuple[str, str]:
    """The header with the name under which a browser saves the file: ``answers-arena-Ada.csv`` (RFC 6266)."""
    name = f"answers-{loaded.identity.id}-{learner}.{suffix}"
    return "Content-Disposition", f"attachment; filename*=UTF-8''{quote(name, safe='')}"


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
