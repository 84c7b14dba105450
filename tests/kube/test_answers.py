"""Answers of the API server and what each is called."""

from __future__ import annotations

import orjson
import pytest

from observer.kube.answers import Outcome, answered, error_event


def status(code: int, reason: str = "", message: str = "", **details: object) -> bytes:
    return orjson.dumps(
        {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details or None}
    )


CASES = {
    "ok": (200, b"{}", Outcome.OK),
    "created": (201, b"{}", Outcome.OK),
    "expired": (410, status(410, "Expired"), Outcome.EXPIRED),
    "gone": (410, status(410, "Gone"), Outcome.EXPIRED),
    "not found": (404, status(404, "NotFound"), Outcome.NOT_FOUND),
    "other version stored": (409, status(409, "Conflict", "the object has been modified"), Outcome.CONFLICT),
    "owned by another manager": (
        409,
        status(409, "Conflict", causes=[{"reason": "FieldManagerConflict", "message": 'conflict with "owner"'}]),
        Outcome.OWNED,
    ),
    "created by another": (409, status(409, "AlreadyExists"), Outcome.CONFLICT),
    "SSA 500 on undeclared field": (
        500,
        status(500, message=".status.x: field not declared in schema"),
        Outcome.UNDECLARED,
    ),
    "server error": (500, status(500, "InternalError", "etcd"), Outcome.UNAVAILABLE),
    "text 503 from aggregator": (503, b"service unavailable\n", Outcome.UNAVAILABLE),
    "future version": (504, status(504, "Timeout", "Too large resource version: 9, current: 8"), Outcome.TOO_NEW),
    "timeout": (504, status(504, "Timeout", "request did not complete"), Outcome.UNAVAILABLE),
    "throttled": (429, status(429, "TooManyRequests"), Outcome.THROTTLED),
    "bad request": (400, status(400, "BadRequest"), Outcome.INVALID),
    "unprocessable": (422, status(422, "Invalid"), Outcome.INVALID),
    "unauthorized": (401, status(401, "Unauthorized"), Outcome.UNAUTHORIZED),
    "forbidden": (403, status(403, "Forbidden"), Outcome.FORBIDDEN),
    "redirect": (302, b"", Outcome.INVALID),
    "null details": (403, b'{"kind":"Status","details":null,"message":"no"}', Outcome.FORBIDDEN),
    "not utf-8": (502, b"\xff\xfe bad gateway", Outcome.UNAVAILABLE),
}


@pytest.mark.parametrize(("code", "body", "outcome"), CASES.values(), ids=CASES.keys())
def test_an_answer_is_called_what_it_means(code: int, body: bytes, outcome: Outcome) -> None:
    assert answered(code, body).outcome is outcome


def test_text_503_from_aggregator_keeps_its_text() -> None:
    assert answered(503, b"service unavailable\n").message == "service unavailable"
    assert answered(503, b"").message == "HTTP 503"


def test_the_pause_asked_for_is_the_header_or_what_the_status_says() -> None:
    assert answered(429, b"", "7").retry_after == 7.0
    assert answered(429, status(429, retryAfterSeconds=3)).retry_after == 3.0
    assert answered(429, status(429, retryAfterSeconds=3), "1").retry_after == 1.0
    assert answered(503, b"", "Wed, 21 Oct 2026 07:28:00 GMT").retry_after is None


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (status(410, "Expired"), Outcome.EXPIRED),
        (status(504, message="Too large resource version: 9"), Outcome.TOO_NEW),
        (status(500), Outcome.UNAVAILABLE),
        (b"{}", Outcome.UNAVAILABLE),
        (b'"text"', Outcome.UNAVAILABLE),
    ],
)
def test_an_error_event_is_an_answer_too(body: bytes, outcome: Outcome) -> None:
    assert error_event(body).outcome is outcome
