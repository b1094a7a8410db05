"""Each exception has a status; every error has the same form of body, without internal details."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from cardapp import errors as e
from cardapp.web import failures, schemas
from cardapp.web.failures import (
    BadRequest,
    ForeignSession,
    ForeignUser,
    InternalError,
    MethodNotAllowed,
    TooManyBodies,
    problem,
    reporting,
    status_of,
)


def every(kind: type[e.CardAppError]) -> list[type[e.CardAppError]]:
    """The classes of the service's process: the session's own run in another one."""
    ours = [kind] if kind.__module__.startswith("cardapp.") and ".session_host" not in kind.__module__ else []
    return ours + [each for child in kind.__subclasses__() for each in every(child)]


EXPECTED = {
    400: (e.MalformedJson, BadRequest),
    403: (e.ForbiddenOrigin, ForeignUser, ForeignSession),
    404: (e.NotFound,),
    405: (MethodNotAllowed,),
    409: (
        e.Conflict, e.RevisionConflict, e.LevelNotSyncable, e.EditorSyncOff, e.EditorBlocked, e.CheckpointRejected,
        e.CheckpointCancelled, e.SnapshotDrift,
    ),
    413: (e.TooLarge,),
    415: (e.UnsupportedMediaType,),
    421: (e.WrongHost,),
    422: (e.InvalidValue,),
    500: (InternalError,),
    502: (e.DebuggerFailed, e.McpProtocolError),
    503: (e.SessionUnavailable, e.EditorUnavailable, e.McpClosed, e.StateError, TooManyBodies),
    504: (e.TooSlow, e.McpTimeout),
}  # fmt: skip


def test_the_statuses_of_the_contract() -> None:
    for status, kinds in EXPECTED.items():
        assert {kind: status_of(kind) for kind in kinds} == dict.fromkeys(kinds, status)


def test_every_error_is_a_well_formed_problem_with_a_code_of_its_own() -> None:
    kinds = every(e.CardAppError)
    codes = [kind.code for kind in kinds]
    assert len(codes) == len(set(codes))
    others: dict[type[e.CardAppError], tuple[Any, ...]] = {
        MethodNotAllowed: ("why", "GET"), e.McpRemoteError: (-32000, "why")
    }  # fmt: skip
    for kind in kinds:
        reply = problem(kind(*others.get(kind, ("why",))))
        assert isinstance(reply.body, bytes)
        body = json.loads(reply.body)
        assert schemas.faults("Problem", body) == (), kind
        assert body["status"] == reply.status == status_of(kind)
        assert reply.media_type == "application/problem+json"
        pointer = body["type"].partition("#/x-problem-types/")[2]
        assert failures.problem_types()[pointer]["status"] == reply.status, kind


def test_a_problem_carries_the_fields_and_the_members_of_its_error() -> None:
    error = e.CheckpointRejected(
        "it moved", code="source_changed", errors=(e.FieldError("/a", "bad"),), extra={"generation": 3, "status": 1}
    )
    reply = problem(error)
    assert isinstance(reply.body, bytes)
    body = json.loads(reply.body)
    assert (body["code"], body["detail"], body["generation"]) == ("source_changed", "it moved", 3)
    assert body["type"].endswith("/checkpoint_rejected")
    assert body["errors"] == [{"pointer": "/a", "message": "bad"}]
    assert body["status"] == 409, "an error's own member cannot hide the problem's"


def test_a_problem_has_the_headers_of_its_error() -> None:
    assert ("Allow", "GET, HEAD") in problem(MethodNotAllowed("no", "GET, HEAD")).headers
    assert ("Retry-After", "1") in problem(TooManyBodies("later")).headers


def test_an_internal_error_is_logged_and_reported_without_details(caplog: pytest.LogCaptureFixture) -> None:
    def broken(environ: Any, start_response: Any) -> Any:
        raise RuntimeError("the secret inside")

    seen: list[str] = []
    with caplog.at_level(logging.ERROR):
        parts = reporting(broken)(
            {"REQUEST_METHOD": "GET", "PATH_INFO": "/api/x"}, lambda status, headers: seen.append(status)
        )
    body = b"".join(parts)
    assert seen == ["500 Internal Server Error"]
    assert json.loads(body)["code"] == "internal_error"
    assert b"secret" not in body
    assert b"Traceback" not in body
    assert "the secret inside" in caplog.text
    assert "GET '/api/x'" in caplog.text


def test_a_handler_that_breaks_answers_500(api: Any, editor: Any) -> None:
    editor.answers["state"] = RuntimeError("the secret inside")
    found = api.problem("GET", "/api/editor/state", status=500, code="internal_error")
    assert "secret" not in json.dumps(found)


def test_a_typed_rejection_is_a_conflict_and_each_part_of_what_is_expected_is_required(
    api: Any, checkpoints: Any
) -> None:
    checkpoints.answers["activate"] = e.CheckpointRejected("why", code="source_changed")
    body: dict[str, Any] = {
        "snapshot_ref": "t1/b1/p1/s1/one",
        "generation": 1,
        "expected_binding": {"container_id": "c", "instance": "i", "profile": "p", "target": "t"},
        "expected_identity": {"id": "a", "uuid": "b", "version": "c", "source_sha256": "d"},
    }
    found = api.problem("POST", "/api/checkpoint/activate", body, status=409, code="source_changed")
    assert found["type"].endswith("/checkpoint_rejected")
    for part in ("expected_binding", "expected_identity"):
        for name in body[part]:
            less = {**body, part: {key: value for key, value in body[part].items() if key != name}}
            refused = api.problem("POST", "/api/checkpoint/activate", less, status=422, code="invalid_value")
            assert refused["errors"] == [{"pointer": f"/{part}/{name}", "message": "is missing"}]
