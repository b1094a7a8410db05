"""The API's table of routes. Routing, validation and the API description are made from this table."""

from __future__ import annotations

from functools import cache
from typing import Any

from cardapp.web import openapi, streams
from cardapp.web.gate import JSON_LIMIT, Intake
from cardapp.web.http import JSON, Reply, Request, WsgiApp, answer
from cardapp.web.resources import (
    annotation_layer,
    cards,
    checkpoint,
    editor,
    events,
    evidence,
    learners,
    navigation,
    page,
    predictions,
    program,
    progress,
    reports,
    service,
    session,
    sheet_files,
    strategies,
    viewer,
)
from cardapp.web.routing import Body, Route, routed
from cardapp.web.services import Services


def description(_request: Request) -> Reply:
    """The API description, made from the table below."""
    return answer(_described())


# fmt: off
ROUTES: tuple[Route, ...] = (
    # -- the service -----------------------------------------------------------------------------------------------
    Route("GET", "/", page.index, "The page; links as JSON if only JSON is accepted", "Welcome",
          produces=(page.HTML, JSON), ignores_query=True, cache="no-cache"),
    Route("GET", "/api/openapi.json", description, "This description", "Description", cache="no-cache"),
    Route("GET", "/api/health", service.health, "Whether the service works", "Health"),
    # -- identity and state ----------------------------------------------------------------------------------------
    Route("GET", "/api/identity", service.identity, "The identity of the card", "Identity", cache="no-cache"),
    Route("GET", "/api/card-revision", service.card_revision, "Revision of the card's files", "CardRevision",
          cache="no-cache"),
    Route("GET", "/api/state", service.state, "Composite state", "State", cache="no-cache"),
    Route("GET", "/api/control/state", service.control, "The state of SYNC, in brief", "Control", cache="no-cache"),
    Route("GET", "/api/session", session.state, "The chosen session", "SessionBinding", cache="no-cache",
          problems=(409, 502, 503, 504)),
    Route("POST", "/api/session/restore", session.restore, "Restore the session's copy of the sources", "Restored",
          body=Body("RestoreRequest", optional=True), problems=(409, 502, 503, 504)),
    # -- the page ---------------------------------------------------------------------------------------------------
    Route("GET", "/static/{name}", page.static, "A file of the page",
          produces=(page.SCRIPT, page.CSS, page.FONT), ignores_query=True, cache="no-cache"),
    Route("GET", "/api/sheets", page.sheets, "One page of the card's sheets", "Sheets", query="SheetsQuery",
          cache="no-cache", problems=(404,)),
    Route("GET", "/api/sheets/style.css", page.sheet_style, "The sheets' style", produces=(page.CSS,),
          ignores_query=True, cache="no-cache"),
    Route("GET", "/api/sheets/card.html", sheet_files.html, "All sheets of the card as one HTML file",
          produces=(sheet_files.HTML,)),
    Route("GET", "/api/sheets/card.pdf", sheet_files.pdf, "All sheets of the card as PDF",
          produces=(sheet_files.PDF,)),
    Route("GET", "/api/diagram", page.diagram, "The UML activity of the card or a block", "Diagram",
          query="DiagramQuery", cache="no-cache", problems=(404,)),
    Route("GET", "/api/search", page.search, "Search over titles, texts and code", "SearchMatches",
          query="SearchQuery", cache="no-cache"),
    # -- navigation ------------------------------------------------------------------------------------------------
    Route("GET", "/api/keyboard", navigation.shortcuts, "Shortcuts and navigation levels", "Keyboard",
          cache="no-cache"),
    Route("GET", "/api/navigation/catalog", navigation.catalog, "All valid positions with their indexes", "Catalog",
          cache="no-cache"),
    Route("GET", "/api/navigation/current", navigation.current, "Current position and checkpoint status",
          "Navigation", cache="no-cache"),
    Route("PUT", "/api/navigation/current", navigation.set_current, "Set the exact position and focus level",
          "Navigation", body=Body("PositionRequest"), problems=(409,)),
    Route("POST", "/api/navigation/move", navigation.move, "Move the position by delta on a level", "Moved",
          body=Body("MoveRequest")),
    Route("POST", "/api/navigation/sync", navigation.sync, "Activate the checkpoint of the saved position", "Operation",
          body=Body("SyncRequest", optional=True), problems=(409, 502, 503, 504)),
    # -- checkpoints -----------------------------------------------------------------------------------------------
    Route("GET", "/api/checkpoint/status", checkpoint.status, "Active operation, last result, generation",
          "CheckpointStatus", cache="no-cache"),
    Route("POST", "/api/checkpoint/activate", checkpoint.activate, "Activate a snapshot",
          "Operation", body=Body("ActivateRequest"), problems=(409, 502, 503, 504)),
    Route("POST", "/api/checkpoint/cancel", checkpoint.cancel,
          "Cancel the running operation; 409 `nothing_running` if there is none", "CheckpointStatus",
          body=Body("CancelRequest", optional=True), problems=(409,)),
    Route("GET", "/api/allocator", checkpoint.allocator, "The allocator at the current checkpoint", "Allocator",
          cache="no-cache"),
    # -- viewer and editor -----------------------------------------------------------------------------------------
    Route("GET", "/api/viewer/state", viewer.state, "Viewer state", "Viewer", cache="no-cache"),
    Route("PUT", "/api/viewer/state", viewer.update, "Set any part of the viewer state", "Viewer",
          body=Body("ViewerRequest"), problems=(409,)),
    Route("GET", "/api/editor/state", editor.state, "Buffer, window, cursor, mode", "EditorState",
          problems=(409,)),
    Route("PUT", "/api/editor/cursor", editor.set_cursor, "Set the cursor", "EditorState",
          body=Body("CursorRequest"), problems=(409, 502, 503, 504)),
    Route("POST", "/api/editor/input", editor.keys, "Type keys into the editor", "InputAnswer",
          body=Body("InputRequest"), problems=(409, 502, 503, 504)),
    Route("POST", "/api/editor/reset", editor.reset, "Reset the target, refresh the debugger", "ResetAnswer",
          body=Body("ResetRequest", optional=True), problems=(409, 502, 503, 504)),
    Route("POST", "/api/editor/redraw", editor.redraw, "Fit pane and grid, then redraw", "RedrawAnswer",
          body=Body("RedrawRequest", optional=True), problems=(409, 502, 503, 504)),
    # -- the program -----------------------------------------------------------------------------------------------
    Route("GET", "/api/program", program.state, "Where the program is, its call stack and its locals", "Program",
          problems=(409, 502, 503, 504)),
    Route("POST", "/api/program/{command}", program.move, "Step, continue or interrupt the program", "Program",
          parameter="ProgramCommand", body=Body("ProgramRequest", optional=True), problems=(409, 502, 503, 504)),
    # -- strategies and annotations --------------------------------------------------------------------------------
    Route("GET", "/api/strategies", strategies.listed, "The debugging strategies", "Strategies",
          query="ExplanationsQuery", cache="no-cache"),
    Route("POST", "/api/strategies", strategies.add, "Add a strategy to a snapshot", "Strategy", status=201,
          body=Body("StrategyRequest"), problems=(409,)),
    Route("DELETE", "/api/strategies/{id}", strategies.remove, "Remove a strategy and its annotations", "Strategies",
          parameter="StrategyId", query="RemoveQuery"),
    Route("POST", "/api/strategies/{id}/run", strategies.run, "Run a strategy's commands at its snapshot", "DryRun",
          parameter="StrategyId", body=Body("ChangeRequest", optional=True), problems=(409, 502, 503, 504)),
    Route("GET", "/api/annotations", annotation_layer.listed, "The annotations", "Annotations",
          query="ExplanationsQuery", cache="no-cache"),
    Route("POST", "/api/annotations", annotation_layer.add, "Draw over a part of the sheets", "Annotation",
          status=201, body=Body("AnnotationRequest"), problems=(409,)),
    Route("POST", "/api/annotations/show", annotation_layer.show_all, "Show all annotations", "Annotations",
          body=Body("ChangeRequest", optional=True)),
    Route("POST", "/api/annotations/hide", annotation_layer.hide_all, "Hide all annotations", "Annotations",
          body=Body("ChangeRequest", optional=True)),
    Route("POST", "/api/annotations/toggle", annotation_layer.toggle_all,
          "Hide all annotations, or show all if none is shown", "Annotations",
          body=Body("ChangeRequest", optional=True)),
    Route("DELETE", "/api/annotations/{id}", annotation_layer.remove, "Remove an annotation", "Annotations",
          parameter="AnnotationId", query="RemoveQuery"),
    Route("POST", "/api/annotations/{id}/show", annotation_layer.show, "Show an annotation", "Annotation",
          parameter="AnnotationId", body=Body("ChangeRequest", optional=True)),
    Route("POST", "/api/annotations/{id}/hide", annotation_layer.hide, "Hide an annotation", "Annotation",
          parameter="AnnotationId", body=Body("ChangeRequest", optional=True)),
    Route("POST", "/api/annotations/{id}/toggle", annotation_layer.toggle, "Show or hide an annotation", "Annotation",
          parameter="AnnotationId", body=Body("ChangeRequest", optional=True)),
    # -- progress, record, evidence --------------------------------------------------------------------------------
    Route("GET", "/api/progress", progress.overview, "Items, statuses, execution summary", "Progress",
          cache="no-cache"),
    Route("PUT", "/api/progress/{itemId}", progress.update, "Set an item's status, note and actor", "ProgressItem",
          body=Body("ProgressRequest"), problems=(409,)),
    Route("GET", "/api/cards", cards.overview, "The cards of the series, their sessions and progress", "Cards",
          cache="no-cache"),
    Route("PUT", "/api/cards/current", cards.choose, "Show another card of the series", "Cards",
          body=Body("ChosenCard"), problems=(404, 409)),
    Route("GET", "/api/learners", learners.overview, "All learners, and which is current", "Learners",
          cache="no-cache"),
    Route("POST", "/api/learners", learners.create, "Begin the record of a new learner", "Learners",
          body=Body("NewLearner"), problems=(409,)),
    Route("PUT", "/api/learners/current", learners.choose, "Continue the record of a learner", "Learners",
          body=Body("ChosenLearner"), problems=(404, 409)),
    Route("GET", "/api/report/teams.md", reports.teams, "The progress report as Markdown",
          produces=(reports.MARKDOWN,)),
    Route("GET", "/api/report/teams.html", reports.teams_html, "The progress report as a page",
          produces=(reports.HTML,)),
    Route("GET", "/api/report/lesson.html", reports.lesson, "The chronological report with its pictures",
          produces=(reports.HTML,)),
    Route("GET", "/api/report/answers.html", reports.answers_html, "The learner's answers as a page",
          produces=(reports.HTML,)),
    Route("GET", "/api/report/answers.csv", reports.answers_csv, "The learner's answers as a table",
          produces=(reports.CSV,)),
    Route("GET", "/api/report/answers.json", reports.answers_json,
          "The learner's answers, and every event of the learner with its hash", "AnswersFile"),
    Route("GET", "/api/events", events.page, "Read the chronological record", "Events", query="EventsQuery",
          cache="no-cache"),
    Route("POST", "/api/events", events.append, "Append an entry", "Event", status=201, body=Body("EventRequest")),
    Route("POST", "/api/events/{seq}/withdraw", events.withdraw, "Withdraw a note or an image", "Event", status=201,
          parameter="EventNumber", body=Body("WithdrawRequest"), problems=(409,)),
    Route("GET", "/api/answers", events.answers, "The learner's predictions and answers, judged", "Answers",
          query="AnswersQuery", cache="no-cache", problems=(404,)),
    Route("POST", "/api/predictions/read", predictions.read, "How predictions are understood; nothing is stored",
          "ReadValues", body=Body("ReadRequest")),
    Route("POST", "/api/evidence", evidence.add, "Store a PNG or JPEG and pin it to an event", "Evidence", status=201,
          query="EvidenceFields", body=Body("EvidenceFields", media_types=(evidence.FORM, *evidence.RAW))),
    Route("GET", "/api/evidence/{name}", evidence.picture, "A stored picture", produces=("image/png", "image/jpeg"),
          cache="immutable"),
)
# fmt: on


@cache
def _described() -> dict[str, Any]:
    return openapi.describe(ROUTES, streams.DESCRIPTION)


def make_app(services: Services) -> WsgiApp:
    """The API's WSGI application. Serve it behind :class:`cardapp.web.gate.Gate`."""
    return routed(ROUTES, services)


def intakes(evidence_max_bytes: int) -> dict[str, Intake]:
    """The paths whose bodies are not small JSON. A body may have the maximum size of an image, and some more bytes for
    the form around the image."""
    return {
        route.path: Intake(route.body.media_types, evidence_max_bytes + JSON_LIMIT)
        for route in ROUTES
        if route.body is not None and JSON not in route.body.media_types
    }
